"""A trained policy with everything its use needs, in one file: a zip archive of policy.json and arrays, `.cdp`."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, file_errors, write_bytes
from condyle.errors import CondyleError, ControlError, FileError

FORMAT, VERSION = "condyle policy", 1
# kinds of policies: the module and class, which has `kind`, `sizes`, `facts()`, `arrays()` and `from_arrays(facts, arrays)`
KINDS = {"mlp": ("condyle.methods.learn.policy", "Policy"), "lstm": ("condyle.methods.learn.lstm", "LSTMPolicy")}
LARGEST = 1 << 28  # bytes of all arrays
ENTRIES = slice(-12, -10)  # of a zip archive without a comment: the number of its contents


@dataclass(frozen=True)
class PolicyFile:
    """A policy, the robot and task it was trained for, and the numbers of its controller.

    `rate`: of the policy, Hz. `observation`: (name, size) of its parts; `action`: a name for each action. `controller`: numbers
    of the controller around the policy; `commands`: {name: (low, high)}; `training`, `score`: how it was made, how good it is.
    """

    policy: Any
    robot: str
    task: str
    rate: float
    observation: Sequence[tuple[str, int]]
    action: Sequence[str]
    robot_hash: str = ""
    controller: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inputs, outputs = self.policy.sizes[0], self.policy.sizes[-1]
        parts = tuple((str(name), int(size)) for name, size in self.observation)
        object.__setattr__(self, "observation", parts)
        object.__setattr__(self, "action", tuple(str(name) for name in self.action))
        if sum(size for _, size in parts) != inputs:
            raise ControlError(f"the policy takes {inputs} observations, and its parts are {parts_text(parts)}")
        if len(self.action) != outputs:
            raise ControlError(f"the policy gives {outputs} actions, and {len(self.action)} names are given for them")
        if not (np.isfinite(self.rate) and self.rate > 0.0):
            raise ControlError(f"the rate of a policy must be above zero, in Hz; got {self.rate!r:.40}")

    @property
    def hash(self) -> str:
        """SHA-256 of the weights and all other arrays, hexadecimal."""
        digest = hashlib.sha256()
        for name, a in self.policy.arrays().items():
            digest.update(f"{name} {a.dtype} {a.shape}\n".encode())
            digest.update(np.ascontiguousarray(a).tobytes())
        return digest.hexdigest()

    def require_robot(self, robot: str, task: str | None = None) -> None:
        """ControlError if the policy was trained for another robot, or another task."""
        if robot != self.robot:
            raise ControlError(
                f"this policy was trained for the robot '{self.robot}', not for '{robot}': give a policy of that robot"
            )
        if task not in (None, self.task):
            raise ControlError(
                f"this policy was trained for the task '{self.task}', not for '{task}': give a policy of that task"
            )

    def require_observation(self, size: int) -> None:
        """ControlError unless `size` is the number of observations, with the names of the parts."""
        if size != self.policy.sizes[0]:
            raise ControlError(
                f"the policy takes {self.policy.sizes[0]} observations ({parts_text(self.observation)}), and {size} are given"
            )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The path; the file is replaced atomically. Equal contents give equal bytes."""
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.policy.kind,
            "robot": self.robot,
            "robot_hash": self.robot_hash,
            "task": self.task,
            "rate": float(self.rate),
            "observation": [[name, size] for name, size in self.observation],
            "action": list(self.action),
            **self.policy.facts(),
            "controller": self.controller,
            "commands": self.commands,
            "training": self.training,
            "score": self.score,
        }
        write_bytes(path, archive(facts, self.policy.arrays()))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PolicyFile:
        """The policy file at `path`; a FileError in one sentence if it is none, damaged, or of another version."""
        facts, arrays = read_archive(path, FORMAT, VERSION, "condyle train writes policies")
        kind = facts.get("kind")
        if kind not in KINDS:
            raise FileError(
                f"{path} has a policy of the kind {kind!r:.40}, and this version knows {', '.join(KINDS)}: update Condyle."
            )
        module, name = KINDS[kind]
        try:
            policy = getattr(import_module(module), name).from_arrays(facts, arrays)
            texts = {key: _typed(facts, key, str) for key in ("robot", "task", "robot_hash")}
            dicts = {key: _typed(facts, key, dict) for key in ("controller", "commands", "training", "score")}
            rate = float(_typed(facts, "rate", int | float))
            observation = [(str(name), int(size)) for name, size in _typed(facts, "observation", list)]
            return cls(policy, rate=rate, observation=observation, action=_typed(facts, "action", list), **texts, **dicts)
        except (CondyleError, TypeError, ValueError) as error:
            raise FileError(f"{path} cannot be used: {error!s:.300}.") from error


def parts_text(parts: Sequence[tuple[str, int]]) -> str:
    """The parts of an observation in words: "rate 3, gravity 3, ..."."""
    return ", ".join(f"{name} {size}" for name, size in parts)


# ---- archives: JSON and arrays; checkpoints are the same


def archive(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str = "policy.json") -> bytes:
    """Bytes of a zip file with the facts as `name` and one .npy file for each array; the same bytes for the same contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        file.writestr(_entry(name), json.dumps(_plain(facts), indent=1, allow_nan=False))
        for key, a in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(a, order="C"), allow_pickle=False)
            file.writestr(_entry(f"{key}.npy"), content.getvalue())
    return buffer.getvalue()


def read_archive(
    path: str | os.PathLike[str], format: str, version: int, advice: str, name: str = "policy.json", largest: int = LARGEST
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(facts, arrays) of an archive; a FileError in one sentence if it is damaged or something else."""
    with file_errors(path, "read", READ_ADVICE):
        content = Path(path).read_bytes()
    what = format.removeprefix("condyle ")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            names = file.namelist()
            if name not in names:
                raise FileError(f"{path} is not a {what} file of Condyle: {advice}.")
            # contents have checksums, and the list of them does not
            unknown = [key for key in names if key != name and not key.endswith(".npy")]
            if unknown or len(set(names)) != int.from_bytes(content[ENTRIES], "little"):
                raise ValueError("its table of contents is not that of its contents")
            if sum(entry.file_size for entry in file.infolist()) > largest:
                raise FileError(f"{path} is larger than any {what} of Condyle: {advice}.")
            facts = json.loads(file.read(name))
            if not isinstance(facts, dict) or facts.get("format") != format:
                raise FileError(f"{path} is not a {what} file of Condyle: {advice}.")
            if facts.get("version") != version:
                raise FileError(
                    f"{path} is a {what} of version {facts.get('version')!r:.20}, and this Condyle reads version {version}."
                )
            return facts, {
                key.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(file.read(key)), allow_pickle=False)
                for key in names
                if key != name
            }
    except FileError:
        raise
    except Exception as error:  # whatever zipfile, json and NumPy raise on damaged bytes
        if content[:4] == b"PK\x03\x04":
            raise FileError(f"{path} is truncated or damaged ({error!s:.80}): copy it again, or train again.") from error
        raise FileError(f"{path} is not a {what} file of Condyle: {advice}.") from error


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # no clock: equal contents are equal bytes


def _typed(facts: Mapping[str, Any], key: str, kind: Any) -> Any:
    value = facts.get(key)
    if not isinstance(value, kind):
        raise ControlError(f"'{key}' is missing or has the wrong type")
    return value


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays as plain ones, tuples as lists; numbers that are not finite as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
