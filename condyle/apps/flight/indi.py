"""Incremental nonlinear dynamic inversion (Smeur, Chu and de Croon 2016) for airframes with tilting rotors, as a block.

The outer loops are those of geometric control. The wrench is an increment of the one that the rotors give:

    F = F_f + m (a_wanted - a_f),      T = T_f + I (alpha_wanted - alpha_f)

a_f and alpha_f are measured: accelerometer or velocity, and gyroscope, differentiated, through a first-order filter; F_f and T_f
are the forces of thrusts and angles through the same filter. What the model does not have, wind, a wrong mass, a load, is in a_f.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.flight.geometric import (
    FlatController,
    FlatReference,
    commands,
    outer_loops,
    rotor_components,
    wanted_acceleration,
)
from condyle.apps.flight.quaternions import matrix_times, rotation
from condyle.errors import ControlError
from condyle.tape.array import where

FILTER_LAG = 0.1  # s; below, the reaction of heavy gimbals to their own motion makes the birotor oscillate


class Indi(FlatController):
    """INDI as a block: (measured state, reference of 18 numbers) -> (thrust commands, gimbal commands).

    `acceleration` of the call: that of the centre of mass in the world, from an accelerometer; by default the change of the
    measured velocity. `filter_lag`: s, of all filters; shorter follows gusts faster, and lets more noise through.
    """

    def __init__(self, airframe: Any, *, filter_lag: float = FILTER_LAG, **options: Any) -> None:
        super().__init__(airframe, **options)
        self.lag = self.parameter("filter_lag", filter_lag, "s", minimum=1e-4)
        for name, size in (("velocity", 3), ("rate", 3), ("acceleration", 3), ("force", 3), ("torque", 3)):
            self.state(name, np.zeros(size))
        self.state("thrusts", np.full(self.body.n, self.body.hover_thrust))
        self.state("started", 0.0)

    def step(self, state: dict[str, Any], *inputs: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
        """The command, and the filters after this update."""
        x, reference = inputs
        if strange := [key for key in given if key not in ("acceleration", "force", "torque")]:
            raise ControlError(f"block '{self.name}' takes acceleration= of an accelerometer, not {strange[0]}=")
        body, gains, first = self.body, self.gains(), state["started"] <= 0.0
        R = rotation(x[6:10])
        last = body.thrusts(x, state["thrusts"])
        force, torque = body.wrench(last, x[13 : 13 + body.n_g])
        force = R @ force
        share = 1.0 - np.exp(-self.dt / self.lag)

        def filtered(name: str, value: Any) -> tuple[Any, Any]:
            """(filtered value, its derivative)."""
            before = where(first, value, state[name])
            after = before + (value - before) * share
            return after, (after - before) / self.dt

        v, a = filtered("velocity", x[3:6])
        w, alpha = filtered("rate", x[10:13])
        F, _ = filtered("force", force)
        T, _ = filtered("torque", torque)
        measured = state["acceleration"]
        if "acceleration" in given:
            a = measured = filtered("acceleration", given["acceleration"])[0]
        r = FlatReference.of(reference)
        asked = wanted_acceleration(x, r, gains)
        F_wanted = F + (asked - a) * gains.mass
        # at first there is no measured acceleration
        up = np.array([0.0, 0.0, 1.0]) * gains.gravity
        F_wanted = where(first, (asked + up) * gains.mass, F_wanted)
        specific, T_f = F_wanted * (1.0 / gains.mass), where(first, 0.0, T)
        wanted = outer_loops(self.allocation, x, r, gains, asked, specific, T_f, where(first, 0.0, a))
        T_wanted = T_f + matrix_times(body.inertia, wanted.angular - where(first, 0.0, alpha))
        u = commands(self.allocation, x, rotor_components(self.allocation, R, F_wanted, T_wanted))
        after = {"velocity": v, "rate": w, "acceleration": measured, "force": F, "torque": T}
        return u, {**after, "thrusts": u[: body.n], "started": 1.0}
