"""Pictures of the program on the dog."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import labelled, save

from condyle.deploy.deployment import deployment
from condyle.deploy.drivers import SimulatedDog
from condyle.deploy.program import Keyboard, SimulatedClock, control
from condyle.deploy.safety import Safety
from condyle.deploy.step import numpy_network
from condyle.learn.policy import initial_policy
from condyle.learn.policy_file import PolicyFile
from condyle.pidog import controller
from condyle.pidog.kinematics import JOINTS

FAULTS = (("silent", "the IMU falls silent at 5 s: hold, lie down, release"), ("tilt", "the dog tips over at 5 s: release"))
SHADES = {"rest": "#f2f2f2", "rise": "#dfe9f5", "walk": "#ffffff", "hold": "#fbe3c8", "lie": "#f7d0b0"}
LEFT_FRONT = (0, 1)


class Kept:
    """The log of a dry run, in memory."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, np.ndarray]] = []

    def line(self, now: float, out: object, command: object) -> None:
        """Keep a tick."""
        self.lines.append((now, out.mode, np.array(out.degrees)))  # type: ignore[attr-defined]


def deploy(path: Path) -> None:
    """Angles of a leg in two dry runs with a fault; the network is zero, so that the gait is the controller's own."""
    import matplotlib.pyplot as plt

    sizes = (sum(int(n) for _, n in controller.OBSERVATION), 8, len(controller.ACTION))
    fields = {"robot": "pidog", "task": "walk", "rate": 50.0, "observation": controller.OBSERVATION, "action": controller.ACTION}
    commands = {"speed": [0.0, 0.25], "turn": [-0.5, 0.5]}
    file = PolicyFile(initial_policy(sizes, gain=0.0, seed=0), controller=controller.NUMBERS, commands=commands, **fields)
    made = deployment(file)
    network = numpy_network(made.data, {name: a.astype(float) for name, a in made.arrays.items()})
    fig, axes = plt.subplots(2, 1, figsize=(9.0, 4.6), layout="constrained", sharex=True)
    for ax, (fault, title) in zip(axes, FAULTS, strict=True):
        clock, log = SimulatedClock(), Kept()
        driver = SimulatedDog(clock, sleep=clock.sleep, fault=fault, at=5.0)
        safety = Safety(made.data, made.controller, network)
        keyboard = Keyboard(made.data, (0.2, 0.0), watched=False)
        control(made.data, safety, driver, keyboard, log, clock=clock, sleep=clock.sleep, seconds=10.0)
        times, degrees = np.array([line[0] for line in log.lines]), np.array([line[2] for line in log.lines])
        for mode, shade in SHADES.items():
            within = [now for now, each, _ in log.lines if each == mode]
            if within:
                ax.axvspan(within[0], within[-1] + 0.02, color=shade)
                ax.text(within[0] + 0.03, 62.0, mode, fontsize=8, color="#555555")
        for k in LEFT_FRONT:
            ax.plot(times, degrees[:, k], label=JOINTS[k])
        ax.set_ylim(-60.0, 75.0)
        labelled(ax, title, "", "servo, degrees")
    axes[1].legend(loc="lower right")
    axes[1].set_xlabel("time, s")
    save(fig, path)
