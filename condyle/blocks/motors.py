"""Electric motors behind gears, and series elastic joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.blocks.discretization import decay, mean_decay
from condyle.blocks.joints import JointBlock
from condyle.tape.array import array, where


class DCMotor(JointBlock):
    """A DC motor behind a gear: L i' + R i = V - ke N v, torque N kt i at the joint, command V in volts.

    `resistance` R in ohm, `torque_constant` kt in N m/A; ke = kt in V s/rad. `gear_ratio` N: turns of the motor per turn of the
    joint. `rotor_inertia` in kg m^2 is added to the joint as N^2 times itself. `supply`: largest |V|. `current_limit`: largest
    |i|, A. `inductance` L in H; 0: the current follows at once. `efficiency` of the gear: of the power that passes it; the rest
    is dry friction in proportion to the torque, so the gear holds a small load by itself. The back EMF acts with the velocity
    after the step, so that any constants are stable; the mean current of a tick is exact.
    """

    def __init__(
        self,
        joints: str | Sequence[str],
        resistance: Any,
        torque_constant: Any,
        *,
        gear_ratio: Any = 1.0,
        rotor_inertia: Any = 0.0,
        inductance: Any = None,
        efficiency: Any = None,
        supply: Any = None,
        current_limit: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(joints, **options)
        self.resistance = self.number("resistance", resistance, "ohm", minimum=1e-9)
        self.torque_constant = self.number("torque_constant", torque_constant, "N m/A", minimum=0.0)
        self.gear_ratio = self.number("gear_ratio", gear_ratio, "1")
        self.rotor_inertia = self.number("rotor_inertia", rotor_inertia, "kg m^2", minimum=0.0)
        self.supply = None if supply is None else self.number("supply", supply, "V", minimum=0.0)
        self.current_limit = None if current_limit is None else self.number("current_limit", current_limit, "A", minimum=0.0)
        self.efficiency = None if efficiency is None else self.number("efficiency", efficiency, "1", minimum=1e-3, maximum=1.0)
        self.inductance = None if inductance is None else self.number("inductance", inductance, "H", minimum=0.0)
        self.turning = not np.all(np.asarray(rotor_inertia) == 0.0)
        self.state("current", np.zeros(self.size))  # at the start of the last tick
        self.state("voltage", np.zeros(self.size))  # over the last tick
        self.state("started", 0.0)

    def step(self, state: dict[str, Any], voltage: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints for voltages, with "current" at the start of the tick, A."""
        if self.supply is not None:
            voltage = np.minimum(np.maximum(voltage, -self.supply), self.supply)
        voltage = voltage + np.zeros(self.size)
        v, N, R = self.velocities(x), self.gear_ratio, self.resistance
        ratio = N * self.torque_constant  # N m per A at the joint, V s/rad
        if self.inductance is None:
            kept: Any = 0.0
            current = (voltage - ratio * v) / R
        else:
            lag = self.inductance / R
            # the current at the end of the last tick: the back EMF was that of the velocity now
            final = (state["voltage"] - ratio * v) / R
            current = final + (state["current"] - final) * decay(self.dt, lag)
            current = where(state["started"] > 0.0, current, 0.0)
            kept = mean_decay(self.dt, lag)
        command = self.drive(
            force=ratio * (current * kept + (1.0 - kept) * voltage / R) if self.inductance is not None else ratio * voltage / R,
            damping=(1.0 - kept) * ratio * ratio / R,
            effort=None if self.current_limit is None else abs(ratio * self.current_limit),
        )
        more: dict[str, Any] = {}
        links = self.links(x.model)
        if self.turning:
            own = array([link.armature for link in links])
            more["armature"] = own + N * N * self.rotor_inertia
        if self.efficiency is not None:
            own = array([x.world.joints[link.v.start].friction for link in links])
            more["friction"] = own + self.gear_friction(ratio * current, v)
        command["parameters"] |= self.joint_parameters(**more).get("parameters", {})
        return {**command, "current": current}, {"current": current, "voltage": voltage, "started": 1.0}

    def gear_friction(self, torque: Any, v: Any) -> Any:
        """The dry friction of the gear: (1 - eta) of the torque when the motor drives, (1 / eta - 1) when the load does."""
        assert self.efficiency is not None
        return abs(torque) * where(torque * v < 0.0, 1.0 / self.efficiency - 1.0, 1.0 - self.efficiency)


class SeriesElastic(JointBlock):
    """A motor that drives its joint through a spring: tau = k (m - q) + d (m' - v), J m'' = command - b m' - tau.

    The command is the motor's torque at the joint side of its gear, N m, within `effort`. `stiffness` k in N m/rad, `damping` d
    and `motor_damping` b in N m s/rad, `motor_inertia` J in kg m^2, seen from the joint. Motor angle and rate are states; both
    sides of the spring are solved together by one implicit Euler step, so any stiffness is stable. It starts with the spring at
    rest.
    """

    def __init__(
        self,
        joints: str | Sequence[str],
        stiffness: Any,
        motor_inertia: Any,
        *,
        damping: Any = 0.0,
        motor_damping: Any = 0.0,
        effort: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(joints, **options)
        self.stiffness = self.number("stiffness", stiffness, "N m/rad", minimum=0.0)
        self.motor_inertia = self.number("motor_inertia", motor_inertia, "kg m^2", minimum=1e-12)
        self.damping = self.number("damping", damping, "N m s/rad", minimum=0.0)
        self.motor_damping = self.number("motor_damping", motor_damping, "N m s/rad", minimum=0.0)
        self.effort = None if effort is None else self.number("effort", effort, "N m", minimum=0.0)
        self.state("angle", np.zeros(self.size))  # of the motor, at the start of the last tick
        self.state("unloaded_rate", np.zeros(self.size))  # the motor's rate at its end, were the joint at rest
        self.state("started", 0.0)

    def step(self, state: dict[str, Any], command: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The drive of the joints, with the motor's "angle" and "rate" and the spring's "torque" at the start of the tick."""
        h, k, d = self.dt, self.stiffness, self.damping
        q, v = self.positions(x), self.velocities(x)
        if self.effort is not None:
            command = np.minimum(np.maximum(command, -self.effort), self.effort)
        coupling = h * (h * k + d)
        inertia = coupling + self.motor_inertia + h * self.motor_damping
        share = coupling / inertia
        # the motor at the end of the last tick, now that the joint's velocity is known
        first = state["started"] <= 0.0
        rate = where(first, v, state["unloaded_rate"] + share * v)
        angle = where(first, q, state["angle"] + h * rate)
        # m' after the tick is  unloaded + share v;  tau = k (m - q) + (h k + d) (m' - v)
        unloaded = (self.motor_inertia * rate + h * (command - k * (angle - q))) / inertia
        link = h * k + d
        drive = self.drive(force=k * (angle - q) + link * unloaded, damping=link * (1.0 - share))
        torque = k * (angle - q) + d * (rate - v)
        return (
            {**drive, "angle": angle, "rate": rate, "torque": torque},
            {"angle": angle, "unloaded_rate": unloaded, "started": 1.0},
        )
