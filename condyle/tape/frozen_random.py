"""Random numbers of NumPy and Python in a traced function: drawn once while it is traced, they are constants ever after."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from condyle.errors import CondyleWarning
from condyle.tape.fingerprint import UnknownError, _Hasher, _with_nested

MAKERS = frozenset({"default_rng", "RandomState", "Generator", "SeedSequence"})  # of generators, of numpy.random
SOURCES = (np.random.Generator, np.random.RandomState, random.Random)


@contextmanager
def watch_random(function: Callable[..., Any]) -> Iterator[None]:
    """Warn if what is traced inside draws from a generator that the function reaches, or may make one of its own."""
    search = _Search()
    search.add(function)
    before = search.states()
    yield
    drawn = search.states()
    if search.makes or any(a != b for a, b in zip(before, drawn, strict=True)):
        name = getattr(function, "__name__", "function")
        warnings.warn(
            f"{name} draws random numbers of NumPy or Python while it is traced: they become constants, the same in every tick, "
            "lane and call; condyle.random gives new ones, as functions of (seed, robot, tick, channel)",
            CondyleWarning,
            stacklevel=_outside(),
        )


class _Search(_Hasher):
    """A walk over what a function reaches, for generators of random numbers; what has no fingerprint is passed over."""

    def __init__(self) -> None:
        super().__init__()
        self.generators: list[Any] = []
        self.makes = False  # whether code may make a generator of its own

    def add(self, value: Any) -> None:
        """One value, by its kind."""
        owner = getattr(value, "__self__", None)
        for source in (value, owner):
            if isinstance(source, SOURCES):
                self.generators.append(source)
                return
        with suppress(UnknownError):
            super().add(value)

    def function(self, function: FunctionType) -> None:
        """A Python function, with all that it reaches, or, where that is unknown, the names in its code."""
        try:
            # a generator that an object was given when it was made is looked at where it is kept
            if function.__name__ != "__init__":
                super().function(function)
        except UnknownError:
            self.makes |= any(MAKERS & {*code.co_names} for code in _with_nested(function.__code__))
            raise

    def module(self, module: ModuleType, attributes: Collection[str], words: Collection[str] = ("*",)) -> None:
        """A module, with the attributes that are used."""
        if module.__name__.startswith("numpy"):
            self.makes |= bool(MAKERS & {*attributes, *words})
        super().module(module, attributes, words)

    def c_function(self, value: Any) -> None:
        """A function that is not written in Python."""
        self.makes |= getattr(value, "__name__", "") in MAKERS
        super().c_function(value)

    def class_(self, kind: type) -> None:
        """A class."""
        self.makes |= kind in SOURCES
        super().class_(kind)

    def states(self) -> list[Any]:
        """The states of all generators, those of NumPy and Python themselves first."""
        found: list[Any] = [_text(np.random.get_state(legacy=False)), random.getstate()]
        for generator in self.generators:
            if isinstance(generator, random.Random):
                found.append(generator.getstate())
            elif isinstance(generator, np.random.RandomState):
                found.append(_text(generator.get_state(legacy=False)))
            else:
                found.append(_text(generator.bit_generator.state))
        return found


def _text(state: Any) -> Any:
    """The state of a generator of NumPy, nested dictionaries with arrays, as what can be compared."""
    if isinstance(state, dict):
        return {name: _text(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _outside() -> int:
    """The level of the first caller that is no part of this package or of contextlib."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("condyle", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level
