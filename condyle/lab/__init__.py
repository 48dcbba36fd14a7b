"""Experiments with arms as files: run, compare, sweep and tune them. Names are imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "Experiment": "experiment",
    "run_experiment": "run",
    "metrics": "metrics",
    "compare": "compare",
    "sweep": "sweep",
    "tune": "tune",
}
__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'condyle.lab' has no attribute '{name}'")
    module = import_module(f"condyle.lab.{_WHERE[name]}")
    return module if name == _WHERE[name] else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
