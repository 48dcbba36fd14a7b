"""Demonstrations: what a teacher would do at observed states, sequences of many episodes in one file, `.cdd`.

The file is a zip archive of data.json and one .npy file for each array, without pickled objects:

| entry | shape | |
|---|---|---|
| data.json | | format, version, robot, gait, rate, names of observations and actions, controller, commands, noise, seed |
| observations.npy | (episodes, steps, n) float32 | what the robot's sensors gave, in the order of time |
| actions.npy | (episodes, steps, m) float32 | the teacher's answer to each of them |
| valid.npy | (episodes, steps) bool | false from the step on at which the robot had fallen |
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.errors import ControlError, FileError
from condyle.methods.learn.policy_file import archive, parts_text, read_archive

FORMAT, VERSION, FACTS = "condyle demonstrations", 1, "data.json"
LARGEST = 1 << 31  # bytes of a file


@dataclass(frozen=True)
class Demonstrations:
    """Sequences of observations with the teacher's actions; see the top of the file. `gait`: the teacher's name."""

    observations: np.ndarray
    actions: np.ndarray
    valid: np.ndarray
    robot: str
    gait: str
    rate: float
    observation: Sequence[tuple[str, int]]
    action: Sequence[str]
    controller: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # noise, seed and what else is worth knowing

    def __post_init__(self) -> None:
        object.__setattr__(self, "observation", tuple((str(name), int(size)) for name, size in self.observation))
        object.__setattr__(self, "action", tuple(str(name) for name in self.action))
        lead, n, m = self.observations.shape[:-1], sum(size for _, size in self.observation), len(self.action)
        if self.observations.ndim != 3 or 0 in self.observations.shape or self.observations.shape[-1] != n:
            raise ControlError(
                f"observations must be (episodes, steps, {n}) for {parts_text(self.observation)}; got {self.observations.shape}"
            )
        for name, given, wanted in (("actions", self.actions, (*lead, m)), ("valid", self.valid, lead)):
            if given.shape != wanted:
                raise ControlError(f"{name} must be {wanted} beside observations {self.observations.shape}; got {given.shape}")
        if self.valid.dtype != bool or not np.issubdtype(self.actions.dtype, np.floating):
            raise ControlError(f"valid must be bool and actions float32, got {self.valid.dtype} and {self.actions.dtype}")
        for name, values in (("observations", self.observations), ("actions", self.actions)):
            if not np.isfinite(values).all():
                raise ControlError(f"{name} must be finite; episode {int(np.argwhere(~np.isfinite(values))[0, 0])} is not")

    @property
    def count(self) -> int:
        """Valid steps of all episodes."""
        return int(self.valid.sum())

    def split(self, held_out: float, seed: int = 0) -> tuple[Demonstrations, Demonstrations]:
        """(to train on, held out): whole episodes, a part `held_out` of them, at least one of each."""
        episodes = len(self.observations)
        if episodes < 2:
            raise ControlError(f"to hold out a part takes two episodes or more, and the data has {episodes}; collect more")
        order = np.random.default_rng([seed, 2]).permutation(episodes)
        cut = min(max(round(held_out * episodes), 1), episodes - 1)
        return self.take(np.sort(order[cut:])), self.take(np.sort(order[:cut]))

    def take(self, episodes: Any) -> Demonstrations:
        """Some of the episodes."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        parts |= {name: parts[name][episodes] for name in ("observations", "actions", "valid")}
        return Demonstrations(**parts)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The path; the file is replaced atomically. Equal contents give equal bytes."""
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "robot": self.robot,
            "gait": self.gait,
            "rate": float(self.rate),
            "observation": [[name, size] for name, size in self.observation],
            "action": list(self.action),
            "controller": self.controller,
            "commands": self.commands,
            "facts": self.facts,
        }
        arrays = {name: np.asarray(getattr(self, name), np.float32) for name in ("observations", "actions")}
        write_bytes(path, archive(facts, {**arrays, "valid": self.valid}, FACTS))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Demonstrations:
        """The demonstrations in the file at `path`; a FileError in one sentence if it has none, or is damaged."""
        facts, arrays = read_archive(path, FORMAT, VERSION, "condyle collect writes demonstrations", FACTS, LARGEST)
        try:
            parts: dict[str, Any] = {name: arrays[name] for name in ("observations", "actions", "valid")}
            names = ("robot", "gait", "observation", "action", "controller", "commands", "facts")
            return cls(**parts, **{name: facts[name] for name in names}, rate=float(facts["rate"]))
        except KeyError as error:
            raise FileError(f"{path} cannot be used: {error} is missing.") from error
        except (ControlError, TypeError, ValueError) as error:
            raise FileError(f"{path} cannot be used: {error!s:.300}.") from error
