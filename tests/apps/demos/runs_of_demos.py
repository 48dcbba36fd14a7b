"""The recorded run of each demo robot, simulated once in a test process."""

from functools import cache

from condyle.apps.demos.registry import find
from condyle.workbench.runs.run import Run


@cache
def recorded(name: str) -> Run:
    """The run of the demo of this name."""
    return find(name, verified=True).run()
