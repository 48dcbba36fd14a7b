"""Where modules were before the package had storeys: public doors lead on, any other old name says the new one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# public names of packages that stay, whatever storey holds them
DOORS = {
    "condyle.cli": "condyle.commands.cli",
    "condyle.compat": "condyle.apps.compat",
    "condyle.flight": "condyle.apps.flight",
    "condyle.mpc": "condyle.methods.mpc",
    "condyle.obstacles": "condyle.methods.planning.obstacles",
}

# modules of condyle.learn that are part of others now
LEARN = {
    "adam": "network",
    "env_arguments": "env_values",
    "env_step": "env_kernel",
    "ppo_tile": "tile",
    "randomize": "env_values",
    "shared_values": "env_values",
    "stable_baselines": "env",
    "statistics": "network",
    "tensor_network": "torch_ppo",
    "tile_body": "tile_code",
    "tile_loss": "tile_code",
    "tile_network": "tile",
}

# old name -> new name, the longest that fits; docs/architecture.md has the short table
MOVED = {
    **{f"condyle.{name}": f"condyle.methods.{name}" for name in ("control", "identify", "learn", "planning")},
    **{f"condyle.{name}": f"condyle.workbench.{name}" for name in ("connect", "doctor", "runs", "view")},
    **{f"condyle.{name}": f"condyle.apps.{name}" for name in ("demos", "lab", "pidog")},
    "condyle.control.joined_path": "condyle.methods.planning.joined_path",
    "condyle.control.paths": "condyle.methods.planning.paths",
    "condyle.control.profiles": "condyle.methods.planning.profiles",
    "condyle.control.time_optimal": "condyle.methods.planning.time_optimal",
    "condyle.deploy": "condyle.apps.pidog.deploy",
    **{f"condyle.learn.{name}": f"condyle.methods.learn.{new}" for name, new in LEARN.items()},
    "condyle.identify.read_log": "condyle.workbench.runs.logs.read_log",
    "condyle.robot.to_mujoco": "condyle.workbench.compare.to_mujoco",
    "condyle.tasks": "condyle.methods.learn",
    "condyle.tasks.birotor_hover": "condyle.apps.flight.hover_task",
    "condyle.tasks.collect": "condyle.apps.pidog.collect",
    "condyle.tasks.gait": "condyle.apps.pidog.gait_episodes",
    "condyle.tasks.gait_teacher": "condyle.apps.pidog.gait_teacher",
    "condyle.tasks.imitation": "condyle.apps.pidog.imitation_tasks",
    "condyle.tasks.judge": "condyle.apps.pidog.judge",
    "condyle.tasks.judge_picture": "condyle.apps.pidog.judge",
    "condyle.tasks.mujoco_world": "condyle.workbench.compare.mujoco_world",
    "condyle.tasks.pidog": "condyle.apps.pidog.walk_task",
    "condyle.tasks.pidog_get_up": "condyle.apps.pidog.get_up_task",
    "condyle.tasks.pidog_rewards": "condyle.apps.pidog.rewards",
    "condyle.tasks.pidog_robot": "condyle.apps.pidog.training_robot",
    "condyle.tasks.pidog_stand": "condyle.apps.pidog.stand_task",
    "condyle.tasks.pidog_turn": "condyle.apps.pidog.turn_task",
    "condyle.tasks.quadruped": "condyle.apps.quadrupeds",
    "condyle.tasks.registry": "condyle.methods.learn.task",
    "condyle.tasks.report": "condyle.workbench.view.training_report",
    "condyle.tasks.rsl_rl_training": "condyle.methods.learn.rsl_rl",
    "condyle.tasks.score": "condyle.methods.learn.judge_task",
    "condyle.tasks.twin": "condyle.apps.pidog.twin",
}


def new_name(name: str, table: dict[str, str]) -> str | None:
    """What an old module is called now, by the longest entry of the table that it begins with."""
    old = name
    while old != "condyle":
        if old in table:
            return table[old] + name[len(old) :]
        old = old.rpartition(".")[0]
    return None


class _Door(Loader):
    """Gives the module of another name, which is loaded once and keeps its own name."""

    def __init__(self, door: str, name: str) -> None:
        self.door, self.name = door, name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        # modules that a package has loaded are not loaded again: that would hide names which it gave to functions
        for name, inside in list(sys.modules.items()):
            if name.startswith(f"{self.name}."):
                sys.modules.setdefault(self.door + name.removeprefix(self.name), inside)


class _Sign(Loader):
    """Gives an empty package in the place of an old one, so that the names in it are asked for, and answered."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__dict__["__getattr__"] = lambda name: _tell(f"{spec.name}.{name}")
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _tell(name: str) -> Any:
    """Raise an error that says the new name; names with two underscores are asked for by the import system itself."""
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"{name} is {new_name(name, MOVED)} now (docs/architecture.md has a table of what moved)")


class _Finder(MetaPathFinder):
    """Finds public doors before anything else; tells the new name of what moved."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("condyle."):
            return None
        if (door := new_name(name, DOORS)) is not None:
            return ModuleSpec(name, _Door(name, door))
        if new_name(name, MOVED) is not None:
            return _tell(name) if name.count(".") > 1 else ModuleSpec(name, _Sign(), is_package=True)
        return None


def install() -> None:
    """Put the finder before the others, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
