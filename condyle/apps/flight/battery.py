"""A battery under load: its voltage sags with the current and falls with the charge, and with it the largest thrust."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block


class Battery(Block):
    """Open-circuit voltage E = empty + charge (full - empty), with an internal resistance R.

    At the power P the voltage V solves V = E - R P / V, and charge' = -P / (V capacity). The largest thrust of a rotor is that at
    the full voltage times (V / full)^2. `capacity` in A h, `full`, `empty` in V, `resistance` in ohm, `efficiency` of motors and
    propellers, `avionics`: further power, W; `charge`: at the start, 0 to 1.
    """

    def __init__(
        self,
        capacity: float = 5.0,
        full: float = 16.8,
        empty: float = 13.2,
        resistance: float = 0.02,
        *,
        efficiency: float = 0.6,
        avionics: float = 10.0,
        charge: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.capacity = self.parameter("capacity", capacity, "A h", minimum=1e-6)
        self.full = self.parameter("full", full, "V", minimum=1e-6)
        self.empty = self.parameter("empty", empty, "V", minimum=0.0)
        self.resistance = self.parameter("resistance", resistance, "ohm", minimum=0.0)
        self.efficiency = self.parameter("efficiency", efficiency, "1", minimum=1e-6, maximum=1.0)
        self.avionics = self.parameter("avionics", avionics, "W", minimum=0.0)
        self.state("charge", charge)

    def step(self, state: dict[str, Any], power: Any) -> tuple[Any, dict[str, Any]]:
        """{"voltage", "current", "fraction"}: of the largest thrust, for the power of the rotors' air flow, W."""
        total = power / self.efficiency + self.avionics
        E = self.empty + state["charge"] * (self.full - self.empty)
        voltage = loaded(E, self.resistance, total)
        current = total / voltage
        charge = np.maximum(state["charge"] - current * self.dt / (3600.0 * self.capacity), 0.0)
        part = voltage / self.full
        return {"voltage": voltage, "current": current, "fraction": part * part, "power": total}, {"charge": charge}


def loaded(E: Any, R: Any, P: Any) -> Any:
    """The voltage V = E - R P / V, the larger root; E / 2, that of the largest power, where the battery cannot give P."""
    return 0.5 * (E + np.sqrt(np.maximum(E * E - 4.0 * R * P, 0.0)))
