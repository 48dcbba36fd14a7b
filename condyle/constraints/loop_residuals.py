"""Conditions phi(q) = 0 that a configuration must meet: frames that stay on each other, and functions written by the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import ancestors
from condyle.errors import RobotError
from condyle.robot.model import Frame, Loop, Model
from condyle.robot.spatial import Array, Pose
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

AXES = ("x", "y", "z", "rx", "ry", "rz")


@dataclass(frozen=True)
class Closure:
    """Frame b stays on frame a in some of the six relative displacements."""

    loop: Loop

    @property
    def name(self) -> str:
        """The name of the loop."""
        return self.loop.name

    @property
    def labels(self) -> list[str]:
        """loop.axis, for each row."""
        return [f"{self.loop.name}.{axis}" for axis in self.loop.axes]

    def rows(self, model: Model, q: Array) -> list[Any]:
        """One number for each axis, zero where the loop is closed, in the order of the axes.

        Displacements are in the axes of frame a, or, where that makes no difference to what is closed, in those of the link that
        carries both frames. With three rotations, rows are the vector part of the rotation; with two, the hinge's axis across
        the other frame's; these have no false zeros near the true one, and a hinge may turn all the way round.
        """
        X_ca, X_cb = common_poses(model, q, model.frame(self.loop.frame_a), model.frame(self.loop.frame_b))
        X = X_ca.inv() @ X_cb
        straight = _displacements(X.p, X_cb.p - X_ca.p, [AXES.index(a) for a in self.loop.axes if a in AXES[:3]])
        if len(straight) == len(self.loop.axes):
            return straight
        sine = [(X.R[2, 1] - X.R[1, 2]) * 0.5, (X.R[0, 2] - X.R[2, 0]) * 0.5, (X.R[1, 0] - X.R[0, 1]) * 0.5]
        turns = [k for k in range(3) if AXES[3 + k] in self.loop.axes]
        if len(turns) == 2:
            (hinge,) = {0, 1, 2} - set(turns)
            for k in turns:
                # turning by a small angle about k moves the hinge's axis towards the third one
                other = 3 - hinge - k
                sine[k] = X.R[other, hinge] * (1.0 if (k, hinge, other) in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else -1.0)
        return [*straight, *[sine[AXES.index(a) - 3] for a in self.loop.axes if a not in AXES[:3]]]


@dataclass(frozen=True)
class Condition:
    """A traced function (model, q) -> numbers that are zero."""

    name: str
    function: Callable[[Model, Array], Any]
    count: int
    hash: str

    @property
    def labels(self) -> list[str]:
        """The condition's name, with an index if it gives more than one number."""
        return [self.name] if self.count == 1 else [f"{self.name}[{k}]" for k in range(self.count)]

    def rows(self, model: Model, q: Array) -> list[Any]:
        """The numbers that are zero where the condition holds."""
        return list(np.atleast_1d(np.array(self.function(model, q), dtype=object)))

    @staticmethod
    def of(model: Model, name: str, function: Callable[..., Any]) -> Condition:
        """The condition of a function, traced once to see how many numbers it gives and what it is."""
        function = with_model(function, f"condition '{name}'", "q")
        tape = trace(lambda q: {"phi": np.atleast_1d(np.array(function(model, q), dtype=object))}, q=model.nq)
        (port,) = tape.outputs
        if len(port.shape) != 1:
            raise RobotError(
                f"robot '{model.name}': condition '{name}' must give one or more numbers, not the shape {port.shape}"
            )
        return Condition(name, function, port.size, tape.hash)


def with_model(function: Callable[..., Any], what: str, argument: str) -> Callable[[Model, Array], Any]:
    """A user's function with two arguments, the model and an array; an index out of range raises a sentence."""
    if not callable(function):
        raise RobotError(
            f"{what} must be a function of {argument}, or of (model, {argument}), written with NumPy; got {function!r:.40}"
        )
    try:
        alone = len(inspect.signature(function).parameters) < 2
    except ValueError:
        # functions of NumPy itself
        alone = True

    def complete(model: Model, x: Array) -> Any:
        try:
            return function(x) if alone else function(model, x)
        except IndexError as error:
            raise RobotError(f"robot '{model.name}': {what} failed: {error}; {argument} has {len(x)} entries") from error

    return complete


def closure_of(model: Model, loop: Any) -> Closure:
    """The closure of a loop as a user writes it: (frame_a, frame_b, axes) or (frame_a, frame_b, axes, name)."""
    if not isinstance(loop, tuple | list) or not 3 <= len(loop) <= 4:
        raise RobotError(f"robot '{model.name}': a loop is (frame_a, frame_b, axes), with a name or without; got {loop!r:.80}")
    return closure(model, *loop)


def closure(model: Model, frame_a: str, frame_b: str, axes: str | tuple[str, ...], name: str = "") -> Closure:
    """The closure of a loop; axes like "xyz", "xz" or "xyz rx rz"."""
    for frame in (frame_a, frame_b):
        model.frame(frame)
    chosen = split_axes(axes)
    if not chosen or len(set(chosen)) != len(chosen):
        raise RobotError(
            f'robot \'{model.name}\': the axes of a loop are some of {", ".join(AXES)}, as "xyz" or "xyz rx rz"; got {axes!r}'
        )
    if model.frame(frame_a).link == model.frame(frame_b).link:
        raise RobotError(
            f"robot '{model.name}': frames '{frame_a}' and '{frame_b}' are fixed to each other: name frames of two links"
        )
    return Closure(Loop(name or f"{frame_a}-{frame_b}", frame_a, frame_b, tuple(sorted(chosen, key=AXES.index))))


def split_axes(axes: Any) -> list[str]:
    """The axes named in a text or sequence; empty if any is not an axis."""
    if not isinstance(axes, str | tuple | list):
        return []
    words = axes.replace(",", " ").split() if isinstance(axes, str) else [str(a) for a in axes]
    out: list[str] = []
    for word in words:
        if word in AXES:
            out.append(word)
        elif word and set(word) <= set("xyz"):
            out += list(word)
        elif word == "all":
            out += AXES
        else:
            return []
    return out


def _displacements(in_a: Array, in_common: Array, axes: list[int]) -> list[Any]:
    """The displacements along these axes of frame a, or as many in the common axes that are zero at the same time."""
    others = [k for k in range(3) if k not in axes]
    moving = [k for k in range(3) if constant(in_common[k]) != 0.0]
    if not others:
        return list(in_common)
    if all(constant(in_a[k]) == 0.0 for k in others) and len(moving) == len(axes):
        return [in_common[k] for k in moving]
    return [in_a[k] for k in axes]


def common_poses(model: Model, q: Array, a: Frame, b: Frame) -> tuple[Pose, Pose]:
    """The two frames, in that link c that carries both: what carries that link does not enter."""
    up, down = ([] if f.link < 0 else ancestors(model, f.link) for f in (a, b))
    shared = 0
    while shared < min(len(up), len(down)) and up[shared] == down[shared]:
        shared += 1
    X_ca, X_cb = Pose.identity(), Pose.identity()
    for i in up[shared:]:
        X_ca = X_ca @ model.links[i].pose(q)
    for i in down[shared:]:
        X_cb = X_cb @ model.links[i].pose(q)
    return X_ca @ a.pose, X_cb @ b.pose


Conditions = tuple[Closure | Condition, ...]


def all_rows(conditions: Conditions, model: Model, q: Array) -> Array:
    """phi(q), all conditions one after the other."""
    return np.array([*[row for c in conditions for row in c.rows(model, q)], None], dtype=object)[:-1]


def labels(conditions: Conditions) -> list[str]:
    """The labels of all rows."""
    return [label for c in conditions for label in c.labels]
