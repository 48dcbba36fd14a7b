"""Pictures of closed loops: many robots in one kernel, their episodes and their noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

import condyle as cd

ROBOTS, TICKS, DT = 200, 1000, 0.002
TARGET = np.array([0.5, -0.5])


class Servo(cd.Block):
    """A first-order lag of 0.05 s."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.lag = self.parameter("lag", 0.05, "s")
        self.state("angle", np.zeros(2))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The angle after the tick."""
        angle = inputs[0] + (state["angle"] - inputs[0]) * np.exp(-self.dt / self.lag)
        return angle, {"angle": angle}


class Control(cd.Block):
    """PD control from a noisy measurement."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kp = self.parameter("kp", 100.0, "N m/rad")

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torque."""
        target, q, v = inputs
        return self.kp * (target - q - 0.02 * self.normal(2)) - 12.0 * v, {}


def closed_loop(path: Path) -> None:
    """200 arms with random masses, their episodes, and one of them."""
    servo, control = Servo(name="servo"), Control(name="control", every=10)
    world = cd.Simulation(cd.load("double_pendulum"), DT)

    def closed(x: Any, target: Any) -> Any:
        return control(servo(target), x.q, x.v)

    loop = cd.Loop(world, closed, target=2)
    rng = np.random.default_rng(0)
    X = loop.state(0.1 * rng.normal(size=(ROBOTS, 2)))
    masses = {"elbow.mass": rng.uniform(0.5, 3.0, ROBOTS)}
    out = loop.rollout(X, TARGET, TICKS, seed=1, parameters=masses, record=["q", "u", "servo.angle"])
    episode = cd.Episode(lambda x: x.q[0] > 0.35, 0.8, lambda draw: {"q": 0.1 * draw.normal(2)})
    episodes = cd.Loop(world, closed, episode=episode, target=2)
    again = episodes.rollout(episodes.state(X[:3, :2]), TARGET, TICKS, seed=1, record=["q"])
    t = DT * np.arange(1, TICKS + 1)
    figure = sheet(
        "One kernel: 200 arms with random masses, a servo's lag and a noisy controller at 50 Hz", width=12.0, height=4.2
    )
    left, middle, right = figure.subplots(1, 3)
    left.plot(t, out["q"][:, :, 0].T, color=BLUE, lw=0.4, alpha=0.25)
    left.plot(t, out["servo.angle"][0, :, 0], color=ORANGE, lw=2.0, label="servo's angle")
    left.legend(frameon=False, fontsize=10, loc="lower right")
    labelled(left, "Shoulders of all 200", "time, s", "rad")
    middle.plot(t, out["u"][0, :, 0], color=GREEN, lw=1.2)
    labelled(middle, "Torque of one: held between updates", "time, s", "N m")
    for k, color in enumerate((BLUE, ORANGE, VIOLET)):
        middle.set_xlim(0.0, 0.5)
        right.plot(t, again["q"][k, :, 0], color=color, lw=1.2)
    right.axhline(0.35, color=FAINT, lw=0.8, ls=":")
    labelled(right, "Episodes of three", "time, s", "rad")
    save(figure, path)


def blocks(path: Path) -> None:
    """Servos on a pendulum, a motor that runs up along its torque-speed line, and a hobby servo."""
    world = cd.Simulation(cd.load("double_pendulum"), DT)
    joints, target = world.control_names, np.array([0.8, -0.8])
    first = cd.blocks.FirstOrderTorqueServo(joints, 0.1, name="servo")
    second = cd.blocks.SecondOrderTorqueServo(joints, 2.0, 0.3, name="servo")
    weak = cd.blocks.ImplicitPD(joints, 400.0, 20.0, 25.0, name="servo")
    hobby = cd.blocks.HobbyServo(
        joints, effort=600.0, speed=4.0, kp=6e3, kd=3e2, dead_band=0.05, resolution=0.1, delay=0.1, name="servo"
    )
    motor = cd.blocks.TorqueActuator(joints, 20.0, stall=30.0, speed=8.0, name="servo")
    figure = sheet("Actuators on a double pendulum under gravity", width=12.0, height=4.2)
    left, middle, right = figure.subplots(1, 3)
    t = DT * np.arange(1, 501)

    def run(block: Any, reference: Any, record: list[str]) -> Any:
        loop = cd.Loop(world, lambda x, target: block(target, x), target=2)
        return loop.rollout(loop.state(), reference, 500, record=record)

    for block, color, name in ((first, BLUE, "first order"), (second, ORANGE, "second order"), (weak, GREEN, "PD, 25 N m")):
        left.plot(t, run(block, target, ["q"])["q"][:, 0], color=color, lw=1.5, label=name)
    left.legend(frameon=False, fontsize=10, loc="lower right")
    labelled(left, "A step of the shoulder, whatever it carries", "time, s", "rad")
    v = np.linspace(-12.0, 12.0, 200)
    upper = np.minimum(np.maximum(30.0 * (1.0 - v / 8.0), -20.0), 20.0)
    middle.fill_between(v, -upper[::-1], upper, color=BLUE, alpha=0.15)
    middle.plot(v, upper, color=BLUE, lw=1.5)
    middle.plot(v, -upper[::-1], color=BLUE, lw=1.5)
    middle.axhline(0.0, color=FAINT, lw=0.8)
    middle.axvline(0.0, color=FAINT, lw=0.8)
    labelled(middle, f"Torques of {type(motor).__name__}: motoring, braking", "speed, rad/s", "N m")
    ramp = np.repeat(0.5 * np.sin(2.0 * np.pi * t)[:, None], 2, axis=1)
    out = run(hobby, ramp, ["q", "servo.shaft"])
    right.plot(t, ramp[:, 0], color=FAINT, lw=1.2, label="command")
    right.plot(t, out["servo.shaft"][:, 0], color=VIOLET, lw=1.5, label="shaft")
    right.plot(t, out["q"][:, 0], color=ORANGE, lw=1.5, label="joint")
    right.legend(frameon=False, fontsize=10)
    labelled(right, "A hobby servo: delay, dead band, rate", "time, s", "rad")
    save(figure, path)
