"""The recorded run of each demo robot, simulated once in a test process."""

from functools import cache

from condyle.demos.registry import find
from condyle.runs.run import Run


@cache
def recorded(name: str) -> Run:
    """The run of the demo of this name."""
    return find(name, verified=True).run()
