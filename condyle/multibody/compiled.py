"""How the functions of a robot are compiled when first called, checked for finite numbers, and called quickly after that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypedDict

import numpy as np

from condyle.constraints.reduced_dynamics import (
    SIZES,
    RobotFunction,
    System,
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from condyle.dynamics.kinematics import link_forces
from condyle.dynamics.manifold import normalized_configuration, velocity_of_rate
from condyle.dynamics.passive import FRICTION_SPEED
from condyle.errors import CondyleError, RobotError, ShapeError
from condyle.robot.joints import Ball, Free
from condyle.robot.model import Model
from condyle.tape.array import where
from condyle.tape.backends.interface import find_backend
from condyle.tape.compose import any_traced
from condyle.tape.custom import custom_jvp
from condyle.tape.device import library_of, on_device, precision_of
from condyle.tape.function import Function
from condyle.tape.progress import compiling
from condyle.tape.threads import made_once
from condyle.tape.trace import trace, trace_values, with_finite_check
from condyle.tape.trace_cache import cached_trace, trace_key

DERIVATIVES = {"forward_dynamics": forward_dynamics_derivatives, "inverse_dynamics": inverse_dynamics_derivatives}
_FLOAT64 = np.dtype(np.float64)
UNIT = 0.01  # the squared length of a quaternion may differ so much from 1


REFERENCES = ("local", "world", "world_aligned")
AXES = ("world_aligned", "local")  # of wrenches
Wrenches = Mapping[str | tuple[str, str], Any]
Passive = bool | float  # whether passive forces act; a number is the speed below which dry friction is smooth


class CallOptions(TypedDict, total=False):
    """Options of every function of a robot."""

    backend: str  # "cpu", "reference", "mpfr:BITS", "interval" or "interval:BITS"
    threads: int | None  # that share a large batch
    mask: bool  # add an array that is False for states that are not valid, instead of raising
    out: Any  # an array, or one per result, to write into


class DynamicsOptions(CallOptions, total=False):
    """Options of forward and inverse dynamics and of their derivatives."""

    passive: Passive  # whether the joints' damping, dry friction and springs act


class Compiled:
    """The compiled functions of one robot, by name and static parameters.

    `explain`: for inputs whose results are not finite, a sentence that says why, or None.
    """

    def __init__(self, system: System, identity: str, explain: Callable[[Any], str | None]) -> None:
        self.system, self.identity, self.explain = system, identity, explain
        self._functions: dict[Any, Function] = {}
        # key -> the result for one finite float64 state, or None for anything else
        self.quick: dict[Any, Callable[[tuple[Any, ...]], Any]] = {}

    def run(
        self,
        key: tuple[Any, ...] | str,
        function: RobotFunction,
        arrays: tuple[Any, ...],
        options: Mapping[str, Any],
        static: tuple[Any, ...] = (),
        where: tuple[tuple[str, str], ...] = (),
    ) -> Any:
        """The results of a robot's function, compiled under `key`; an error, or a mask, for states that are not valid.

        `static`: parameters that are compiled in; `where`: (frame, axes) of the wrenches, which follow the other arrays.
        """
        names = (*function.inputs, *[f"wrench{k}" for k in range(len(where))])
        make = partial(self._made, key, names, partial(_evaluate, function, static, where))
        if any_traced(arrays):
            return self._inlined(key, arrays, options, make)
        compiled = made_once(self._functions, key, partial(make, 0))
        mask, out = False, None
        if options:
            compiled = self._on(key, compiled, options, make)
            mask, out = bool(options.get("mask", False)), options.get("out")
        if on_device(arrays):
            return self._on_device(compiled, arrays, mask, out)
        if out is not None:
            # the check has the batch axes of the first result
            given = [out] if isinstance(out, np.ndarray) else list(out) if isinstance(out, tuple | list) else []
            if not given or not isinstance(given[0], np.ndarray):
                raise ShapeError(f"{self.system.name}: `out` is an array, or a tuple of one per result, got {out!r:.60}")
            lead = given[0].shape[: given[0].ndim - len(compiled.tape.outputs[0].shape)]
            out = (*given, np.empty(lead, given[0].dtype))
        *results, check = compiled(*arrays, out=out)
        float64 = getattr(check, "dtype", None) == np.float64
        if key not in self.quick and float64 and (fast := compiled.fast_call(guarded=True)) is not None:
            self.quick[key] = fast
        # a ball of the interval backend says itself whether it is bounded
        finite = np.full(np.shape(check), True) if compiled.encloses else np.asarray(check == 0.0)
        if mask:
            return (*results, finite)
        if not np.all(finite):
            self._raise_not_valid(names, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _on_device(self, compiled: Function, arrays: tuple[Any, ...], mask: bool, out: Any) -> Any:
        """The results for arrays on a GPU, where the check stays: nothing waits for it, and `mask` gives it."""
        if out is not None:
            given = list(out) if isinstance(out, tuple | list) else [out]
            if not on_device(given):
                raise ShapeError(
                    f"{self.system.name}: `out` must be on the GPU, as the inputs are; got {type(given[0]).__name__}"
                )
            # the check has the batch axes of the first result
            lead = tuple(given[0].shape[: given[0].ndim - len(compiled.tape.outputs[0].shape)])
            out = (*given, library_of(given[0]).empty(lead, (), precision_of(given[0])))
        *results, check = compiled(*arrays, out=out)
        if mask:
            return (*results, check == 0.0)
        return results[0] if len(results) == 1 else tuple(results)

    def kept(self, key: tuple[Any, ...], make: Callable[[], Function]) -> Function:
        """The function of this key, made when first asked for."""
        return made_once(self._functions, key, make)

    def write(self, key: Any, arrays: tuple[Any, ...], out: Any) -> bool:
        """Whether the result of one state was written into the array `out` by the fast call; not if a check is needed."""
        quick = self.quick.get(key)
        if quick is None or type(out) is not np.ndarray or out.dtype is not _FLOAT64:
            return False
        found = quick(arrays)
        if type(found) is not np.ndarray or found.shape != out.shape or not (out.flags.c_contiguous and out.flags.writeable):
            return False
        if any([np.may_share_memory(out, a) for a in arrays]):
            return False
        out[...] = found
        return True

    def _inlined(
        self, key: tuple[Any, ...] | str, arrays: tuple[Any, ...], options: Mapping[str, Any], make: Callable[..., Function]
    ) -> Any:
        """The results as traced values, in a form that has derivatives; nothing is checked, but `mask` adds a condition."""
        given = [name for name, value in options.items() if name != "mask" and value is not None]
        if given:
            raise CondyleError(
                f"{self.system.name}: option '{given[0]}' has no meaning inside a trace; the function that is traced has it"
            )
        inlined = made_once(self._functions, ("traced", key), partial(make, 0, derivatives=True))
        *results, check = inlined(*arrays)
        if options.get("mask"):
            return (*results, check == 0.0)
        return results[0] if len(results) == 1 else tuple(results)

    def _made(
        self,
        key: tuple[Any, ...] | str,
        names: tuple[str, ...],
        physics: Callable[..., Any],
        bits: int,
        derivatives: bool = False,
    ) -> Function:
        system = self.system.for_precision(bits) if bits else self.system
        if not system.nv:
            raise RobotError(f"robot '{system.name}' has no joint that moves, so there is nothing to compute")
        sizes = {n: 6 if n.startswith("wrench") else SIZES[n](system) for n in names}
        # matrices are left out: what spoils one of their entries spoils a vector too, or came in with the inputs
        # but for configurations that a constraint cannot meet
        name, matrices = key if isinstance(key, str) else str(key[0]), system.may_not_converge
        checks = partial(_unit_quaternions, system.coordinate_map.reduced)
        checked = with_finite_check(partial(physics, system), name=name, matrices=matrices, also=checks)
        source = trace_key(physics, checks, system)
        # without constraints there are no derivative rules that the tape's hash must know
        record = trace_values if system.coordinate_map.identity and not derivatives else trace
        make = partial(record, _with_rule(system, key, checked) if derivatives else checked, **sizes)
        # a tape that is recorded again needs its operations, which the cache does not keep
        label = f"{name.replace('_', ' ')} of '{system.name}'"
        with compiling(label):
            tape = make() if derivatives else cached_trace(f"{source} {self.identity} {bits} {key} {sizes}", make)
        return Function(tape, label=label)

    def _on(self, key: Any, function: Function, options: Mapping[str, Any], make: Callable[[int], Function]) -> Function:
        unknown = set(options) - set(CallOptions.__annotations__)
        if unknown:
            raise CondyleError(f"there is no option '{min(unknown)}'; there are backend, threads, mask and out")
        backend, threads = options.get("backend", "cpu"), options.get("threads")
        if not isinstance(backend, str):
            find_backend(backend)  # an error that lists them
        if backend == "cpu" and threads is None:
            return function

        def made() -> Function:
            # iterations that converge take more steps in more digits
            bits = find_backend(backend).digits
            precise = make(bits) if bits and not self.system.coordinate_map.identity else function
            return precise.on(backend, threads=threads)

        return made_once(self._functions, (key, backend, threads), made)

    def _raise_not_valid(self, names: tuple[str, ...], arrays: tuple[Any, ...]) -> None:
        """The error of the first entry that is not finite, quaternion that is not of length one, or state without a result."""
        robot = self.system.name
        for name, value in zip(names, arrays, strict=True):
            array = np.asarray(value, dtype=float)
            bad = np.argwhere(~np.isfinite(array))
            if len(bad):
                place = ", ".join(map(str, bad[0]))
                raise RobotError(
                    f"{robot}: {name}[{place}] is {array[tuple(bad[0])]}; pass finite numbers, or mask=True to flag such states"
                )
            for link in self.system.coordinate_map.reduced.links if name in ("q", "q0", "q1") else ():
                if isinstance(link.kind, Ball | Free):
                    at = slice(link.q.stop - 4, link.q.stop)
                    lengths = np.atleast_1d(np.linalg.norm(array[..., at], axis=-1)).ravel()
                    wrong = lengths[np.abs(lengths**2 - 1.0) > UNIT]
                    if len(wrong):
                        raise RobotError(
                            f"{robot}: the quaternion of joint '{link.joint}', {name}[{at.start}:{at.stop}], must have "
                            f"length 1, got {wrong[0]:.6g}; divide it by its norm, or pass mask=True to flag such states"
                        )
        if reason := self.explain(arrays[0]):
            raise RobotError(reason)
        raise RobotError(
            f"{robot}: the inputs are finite and the result is not: they are too large, or a joint moves nothing that has "
            "inertia (see robot.report); pass mask=True to flag such states"
        )


def check_frame(model: Model, frame: str, reference: str = "local") -> None:
    """None; an error if the model has no such frame, or if there is no such reference."""
    if not isinstance(frame, str):
        raise RobotError(f"robot '{model.name}': a frame is given by its name, got {frame!r:.40}; see robot.frame_names")
    model.frame(frame)
    if not isinstance(reference, str) or reference not in REFERENCES:
        raise RobotError(f"the reference must be one of {', '.join(REFERENCES)}, got {reference!r:.40}")


def wrench_axes(model: Model, wrenches: Wrenches) -> tuple[tuple[str, str], ...]:
    """(frame, axes) of each wrench."""
    where = tuple(key if isinstance(key, tuple) else (key, AXES[0]) for key in wrenches)
    for key in where:
        if len(key) != 2 or not isinstance(key[1], str) or key[1] not in AXES:
            raise RobotError(f"a wrench is named by its frame, or by (frame, axes) with axes {' or '.join(AXES)}; got {key!r}")
        check_frame(model, *key)
    return where


def smooth_below(robot: str, passive: Passive) -> float:
    """The speed below which dry friction is smooth: that given, or the default."""
    if passive is True:
        return FRICTION_SPEED
    if isinstance(passive, (int, float)) and 0.0 < passive < np.inf:
        return float(passive)
    raise RobotError(
        f"robot '{robot}': passive is True, False, or a speed above zero, below which dry friction is smooth; got {passive!r:.40}"
    )


def _with_rule(system: System, key: Any, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A robot's function with the derivatives that the robot has for it; a quaternion counts as its direction."""
    derivatives, model = DERIVATIVES.get(key), system.model
    if derivatives is None or not system.coordinate_map.identity:
        return function

    def rule(args: tuple[Any, ...], result: dict[str, Any], tangents: tuple[Any, ...]) -> dict[str, Any]:
        matrices = derivatives(system, normalized_configuration(model, args[0]), *args[1:])
        moves = (velocity_of_rate(model, args[0], tangents[0]), *tangents[1:])
        total = sum((J @ move for J, move in zip(matrices, moves, strict=True)), np.zeros(system.nv))
        return {name: 0.0 if name == "check" else total for name in result}

    def ruled(**arrays: Any) -> dict[str, Any]:
        found: dict[str, Any] = custom_jvp(lambda *given: function(**dict(zip(arrays, given, strict=True))), rule)(
            *arrays.values()
        )
        return found

    ruled.__name__ = function.__name__
    return ruled


def _evaluate(
    function: RobotFunction, static: tuple[Any, ...], where: tuple[tuple[str, str], ...], system: System, **arrays: Any
) -> dict[str, Any]:
    """The results of a function by name, for traced arrays."""
    own = [arrays[name] for name in function.inputs]
    if where:
        wrenches = [arrays[f"wrench{k}"] for k in range(len(where))]
        own.append(link_forces(system.model, system.q(own[0]), where, wrenches))
    return function.named(function.physics(system, *own, *static))


def _unit_quaternions(reduced: Model, arrays: dict[str, Any]) -> list[Any]:
    """Zero for each quaternion of length one among the inputs, NaN for another."""
    out = []
    for q in [arrays[name] for name in ("q", "q0", "q1") if name in arrays]:
        for link in reduced.links:
            if isinstance(link.kind, Ball | Free):
                n = q[link.q.stop - 4 : link.q.stop]
                out.append(where(abs(n @ n - 1.0) <= UNIT, 0.0, np.nan))
    return out
