"""Pictures of the program on the dog."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from picture_style import labelled, save

from condyle.apps.pidog import controller
from condyle.apps.pidog.deploy.deployment import deployment
from condyle.apps.pidog.deploy.drivers import SimulatedDog
from condyle.apps.pidog.deploy.program import Keyboard, SimulatedClock, control
from condyle.apps.pidog.deploy.python_file import python_file
from condyle.apps.pidog.deploy.safety import Safety
from condyle.apps.pidog.deploy.simulation import dog_program, simulate
from condyle.apps.pidog.deploy.step import numpy_network
from condyle.apps.pidog.kinematics import JOINTS
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.policy_file import PolicyFile

COMMAND = (0.2, 0.0)  # m/s, rad/s
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
    """A run of dog.py on the simulated dog, and a dry run with a fault; the network is zero, so the gait is the controller's."""
    import matplotlib.pyplot as plt

    sizes = (sum(int(n) for _, n in controller.OBSERVATION), 8, len(controller.ACTION))
    fields = {"robot": "pidog", "task": "walk", "rate": 50.0, "observation": controller.OBSERVATION, "action": controller.ACTION}
    commands = {"speed": [0.0, 0.25], "turn": [-0.5, 0.5]}
    file = PolicyFile(initial_policy(sizes, gain=0.0, seed=0), controller=controller.NUMBERS, commands=commands, **fields)
    made = deployment(file)
    fig, axes = plt.subplots(3, 1, figsize=(9.0, 6.4), layout="constrained", sharex=True)
    with TemporaryDirectory() as folder:
        program = Path(folder, "dog.py")
        program.write_text(python_file(made))
        found = simulate(dog_program(program), 4.0, COMMAND)
    times = found.times - found.times[0]
    angles(axes[0], times, found.modes, found.degrees, "dog.py on the simulated dog: rise, walk for 4 s, lie down")
    shaded(axes[1], times, found.modes)
    axes[1].plot(times, 1e3 * found.q[:, 2], label="height of the body, mm", color="C2")
    axes[1].plot(times, 1e2 * found.q[:, 0], label="distance forward, cm", color="C3")
    axes[1].set_ylim(-5.0, 160.0)
    axes[1].legend(loc="center left", fontsize=8)
    labelled(axes[1], "and what the simulated dog does", "", "")
    clock, log = SimulatedClock(), Kept()
    network = numpy_network(made.data, {name: a.astype(float) for name, a in made.arrays.items()})
    safety, driver = Safety(made.data, made.controller, network), SimulatedDog(clock, sleep=clock.sleep, fault="silent", at=5.0)
    control(
        made.data,
        safety,
        driver,
        Keyboard(made.data, COMMAND, watched=False),
        log,
        clock=clock,
        sleep=clock.sleep,
        seconds=10.0,
    )
    now, modes, degrees = zip(*log.lines, strict=True)
    angles(axes[2], np.array(now), list(modes), np.array(degrees), "a dry run: the IMU falls silent at 5 s")
    axes[0].legend(loc="lower center")
    axes[2].set_xlabel("time, s")
    save(fig, path)


def angles(ax: Any, times: np.ndarray, modes: list[str], degrees: np.ndarray, title: str) -> None:
    """Servo angles of the left front leg, with the modes behind."""
    ax.set_ylim(-100.0, 125.0)
    shaded(ax, times, modes)
    for k in LEFT_FRONT:
        ax.plot(times, degrees[:, k], label=JOINTS[k])
    labelled(ax, title, "", "servo, degrees")


def shaded(ax: Any, times: np.ndarray, modes: list[str]) -> None:
    """The modes as shades with names."""
    for mode, shade in SHADES.items():
        within = [now for now, each in zip(times, modes, strict=True) if each == mode]
        if within:
            ax.axvspan(within[0], within[-1] + 0.02, color=shade)
            place = ax.get_xaxis_transform()
            ax.text(within[0] + (0.12 if mode == "lie" else 0.03), 0.88, mode, fontsize=7, color="#555555", transform=place)
