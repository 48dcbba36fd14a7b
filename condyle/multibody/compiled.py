"""How the functions of a robot are compiled when first called, checked for finite numbers, and called quickly after that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from condyle.dynamics import kernels
from condyle.errors import CondyleError, RobotError
from condyle.tape.backends.interface import find_backend
from condyle.tape.function import Function
from condyle.tape.trace import trace, with_finite_check
from condyle.tape.trace_cache import cached_trace, trace_key


class Compiled:
    """The compiled functions of one robot, free or constrained, by key.

    `explain`: for inputs whose results are not finite, a sentence that says why, or None.
    """

    def __init__(self, system: Any, identity: str, explain: Callable[[Any], str | None] = lambda q: None) -> None:
        self.system, self.identity, self.explain = system, identity, explain
        self._functions: dict[Any, Function] = {}
        # key -> the result for one finite float64 state, or None for anything else
        self.quick: dict[Any, Callable[[tuple[Any, ...]], Any]] = {}

    def run(
        self, key: Any, names: tuple[str, ...], physics: Callable[..., Any], arrays: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """The results of `physics(system, **arrays)`, compiled under `key`; an error, or a mask, for what is not finite."""
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = self._made(key, names, physics, 0)
        mask, out = False, None
        if options:
            function = self._on(key, function, options, partial(self._made, key, names, physics))
            mask, out = bool(options.get("mask", False)), options.get("out")
        if out is not None:
            # the check has the batch axes of the first result
            given = [out] if isinstance(out, np.ndarray) else list(out)
            lead = given[0].shape[: given[0].ndim - len(function.tape.outputs[0].shape)]
            out = (*given, np.empty(lead, given[0].dtype))
        *results, check = function(*arrays, out=out)
        if key not in self.quick and check.dtype == np.float64 and (fast := function.fast_call(guarded=True)) is not None:
            self.quick[key] = fast
        # a ball of the interval backend says itself whether it is bounded
        finite = np.full(np.shape(check), True) if function.encloses else np.asarray(check == 0.0)
        if mask:
            return (*results, finite)
        if not np.all(finite):
            self._raise_not_finite(names, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _made(self, key: Any, names: tuple[str, ...], physics: Callable[..., Any], bits: int) -> Function:
        system = self.system.for_precision(bits) if bits and hasattr(self.system, "for_precision") else self.system
        if not system.nv:
            raise RobotError([f"robot '{system.name}' has no joint that moves, so there is nothing to compute"])
        sizes = {n: 6 if n.startswith("wrench") else kernels.SIZES[n](system) for n in names}
        # matrices are left out: what spoils one of their entries spoils a vector too, or came in with the inputs
        # but for configurations that a constraint cannot meet
        unmet = getattr(system, "may_not_converge", False)
        make = partial(trace, with_finite_check(partial(physics, system), name=_name(key), matrices=unmet), **sizes)
        source = trace_key(physics, system)
        return Function(cached_trace(f"{source} {self.identity} {bits} {key} {sizes}", make))

    def _on(self, key: Any, function: Function, options: dict[str, Any], made: Callable[[int], Function]) -> Function:
        unknown = set(options) - {"backend", "threads", "mask", "out"}
        if unknown:
            raise CondyleError(f"there is no option '{min(unknown)}'; there are backend, threads, mask and out")
        backend, threads = options.get("backend", "cpu"), options.get("threads")
        if backend != "cpu" or threads is not None:
            other = (key, backend, threads)
            if other not in self._functions:
                # what is found by steps of Newton takes more of them in more digits
                bits = find_backend(backend).digits
                if bits and hasattr(self.system, "for_precision"):
                    function = made(bits)
                self._functions[other] = function.on(backend, threads=threads)
            function = self._functions[other]
        return function

    def _raise_not_finite(self, names: tuple[str, ...], arrays: tuple[Any, ...]) -> None:
        robot = self.system.name
        for name, value in zip(names, arrays, strict=True):
            array = np.asarray(value, dtype=float)
            bad = np.argwhere(~np.isfinite(array))
            if len(bad):
                place = ", ".join(map(str, bad[0]))
                raise RobotError(
                    [f"{robot}: {name}[{place}] is {array[tuple(bad[0])]}; pass finite numbers, or mask=True to flag such states"]
                )
        if reason := self.explain(arrays[0]):
            raise RobotError([reason])
        raise RobotError(
            [
                f"{robot}: the inputs are finite and the result is not: they are too large, or a joint moves nothing that has "
                "inertia (robot.report tells); pass mask=True to flag such states"
            ]
        )


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key[0])
