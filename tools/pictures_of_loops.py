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
