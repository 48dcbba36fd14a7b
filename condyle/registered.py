"""What installed packages add to Condyle by entry points: tasks ("condyle.tasks") and loops that runs name ("condyle.loops").

    [project.entry-points."condyle.tasks"]
    "hexapod walk" = "my_package.hexapod:WALK"

Condyle's own applications register theirs in the same way, so that nothing below them knows their names.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from condyle.errors import CondyleError

TASKS, LOOPS = "condyle.tasks", "condyle.loops"


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; Condyle's own come first, and keep their names."""
    found = entry_points(group=group)
    own = [entry for entry in found if entry.dist is not None and entry.dist.name == "condyle"]
    if not own:
        raise CondyleError(
            "Condyle is on the path and not installed, or was installed before its files changed, so it does not know its own "
            "tasks and loops: run `pip install -e .` in its folder"
        )
    return {entry.name: entry for entry in [*found, *own]}
