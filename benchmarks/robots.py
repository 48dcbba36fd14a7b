"""Nanoseconds per state of the dynamics of robots, against Pinocchio and MuJoCo: what `condyle bench` prints."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from condyle.commands.bench import Setting, measure, standard
from condyle.commands.source import Origin


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    if tiny:
        return measure([Origin("double_pendulum")], Setting(batch=16, seconds=0.01, calls=10), console)
    return measure(standard(), Setting(), console)
