"""The pictures of the pages about flying."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, RED, labelled, save, sheet

import condyle as cd
from condyle.workbench.view.picture import picture


def flight(path: Path) -> None:
    """Four airframes, a step of a gimbal with its torque, wind, and a landing with a take-off."""
    figure = sheet("Drones with tilting rotors", 12.0, 6.6)
    grid = figure.add_gridspec(2, 12)
    for k, name in enumerate(("birotor", "trirotor", "quadrotor", "hexarotor")):
        ax = figure.add_subplot(grid[0, 3 * k : 3 * k + 3])
        robot = cd.load(name)
        q = robot.neutral()
        q[2], q[7:] = 0.3, 0.35 * np.resize([1.0, -0.6, 0.8], robot.nq - 7)
        ax.imshow(picture(robot, q, size=(440, 380), label=False))
        ax.set_axis_off()
        labelled(ax, f"{name}, {robot.mass:.3g} kg", "", "")
        ax.grid(False)
    servo(figure.add_subplot(grid[1, :4]))
    wind(figure.add_subplot(grid[1, 4:8]))
    landing(figure.add_subplot(grid[1, 8:]))
    save(figure, path)


def servo(ax: Any) -> None:
    """A step of the birotor's first gimbal in both forms."""
    for form, color in (("kinematic", BLUE), ("torque", ORANGE)):
        vehicle = cd.flight.Vehicle("birotor", servo=form)
        loop = vehicle.loop()
        command = vehicle.hover + np.array([0.0, 0.0, 0.4, -0.4])
        out = loop.rollout(loop.state(vehicle.configuration()), command, 120, record=["vehicle.angles", "vehicle.torques"])
        t = 0.005 * np.arange(120)
        ax.plot(t, out["vehicle.angles"][:, 0], color=color, lw=1.6, label=f"angle, rad, {form}")
        ax.plot(t, out["vehicle.torques"][:, 0], color=color, lw=1.0, ls="--", label=f"torque, N m, {form}")
    ax.set_ylim(-0.05, 0.85)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    labelled(ax, "A gimbal's step; first torques 3 and 2 N m", "time, s", "")


def wind(ax: Any) -> None:
    """Turbulence along the wind for three robots, and a gust."""
    turbulence, gust = cd.flight.Dryden(5.0, 10.0), cd.flight.Gust((3.0, 0.0, 0.0), 5.0, 2.0)
    loop = cd.Loop(None, lambda x: {"eddies": turbulence(x), "pulse": gust(x)}, dt=0.02)
    out = loop.rollout(np.repeat(loop.state()[None], 3, axis=0), steps=600, record=["eddies", "pulse"], seed=4)
    t = 0.02 * np.arange(600)
    for k, color in enumerate((BLUE, GREEN, FAINT)):
        ax.plot(t, out["eddies"][k, :, 0], color=color, lw=1.0, label="turbulence about 5 m/s" if k == 0 else None)
    ax.plot(t, out["pulse"][0, :, 0], color=RED, lw=1.6, label="a gust of 3 m/s")
    ax.set_ylim(-1.0, 11.0)
    ax.legend(frameon=False, fontsize=9)
    labelled(ax, "Wind for three robots", "time, s", "m/s")


def landing(ax: Any) -> None:
    """Heights of the feet of the birotor: falling with little thrust, standing, taking off, at three tilts."""
    vehicle = cd.flight.Vehicle("birotor", ground=cd.Plane())
    loop = vehicle.loop()
    commands = np.repeat([vehicle.hover * 0.85, vehicle.hover * 0.2, vehicle.hover * 1.1], [160, 140, 100], axis=0)
    for degrees, color in ((0.0, BLUE), (4.0, GREEN), (8.0, ORANGE)):
        half = np.radians(degrees) / 2.0
        q = vehicle.configuration((0.0, 0.0, 0.42), (np.cos(half), np.sin(half), 0.0, 0.0))
        out = loop.rollout(loop.state(q), commands, record=["q"])["q"]
        R, p = vehicle.simulation.robot.frame_pose(out, "base")
        feet = np.array([[x * 0.12, y * 0.15, -0.26] for x in (-1, 1) for y in (-1, 1)])
        heights = p[:, None, 2] + np.einsum("kj,tj->tk", feet, R[:, 2])
        for foot in range(4):
            ax.plot(
                0.005 * np.arange(400), heights[:, foot], color=color, lw=0.9, label=f"{degrees:g} degrees" if foot == 0 else None
            )
    ax.axhline(0.0, color=FAINT, lw=0.8)
    ax.legend(frameon=False, fontsize=9)
    labelled(ax, "Feet: landing at a tilt, take-off", "time, s", "height, m")


def birotor_models(path: Path) -> None:
    """Both models under the same commands, a controlled flight of both, and a landing in wind."""
    from condyle.apps.flight.report import Flown
    from condyle.apps.flight.scenarios import Flight
    from condyle.workbench.view.camera import framed
    from condyle.workbench.view.scene import force_arrows
    from condyle.workbench.view.trajectory import sample_run

    figure = sheet("The birotor as one body and as a multibody", 12.0, 6.6)
    grid = figure.add_gridspec(2, 3)
    apart, control, torque = (figure.add_subplot(grid[0, k]) for k in range(3))
    ends = {
        model: same_commands(kind) for model, kind in {"one body": cd.flight.RigidVehicle, "multibody": cd.flight.Vehicle}.items()
    }
    t = 0.005 * np.arange(800)
    for (model, places), color in zip(ends.items(), (ORANGE, BLUE), strict=True):
        apart.plot(t, places[:, 0], color=color, lw=1.6, label=f"x, {model}")
    apart.plot(
        t, 10.0 * np.linalg.norm(ends["one body"] - ends["multibody"], axis=1), color=RED, lw=1.2, label="distance, times 10"
    )
    apart.legend(frameon=False, fontsize=9)
    labelled(apart, "Gimbals swing by 0.1 rad, no controller", "time, s", "m")
    flown = {}
    for model, color in (("single", ORANGE), ("multibody", BLUE)):
        flight = Flight("birotor", "attitude", model=model, seconds=9.0)
        flown[model] = Flown(flight, *flight.record(), np.zeros(0))
        control.plot(
            flown[model].t, 1e3 * flown[model].error, color=color, lw=1.4, ls="--" if model == "single" else "-", label=model
        )
        torque.plot(flown[model].t, flown[model].signal("torques")[:, 0], color=color, lw=1.2, label=model)
    control.set_yscale("log")
    control.legend(frameon=False, fontsize=9)
    torque.legend(frameon=False, fontsize=9)
    labelled(control, "NMPC: distance from the target", "time, s", "mm")
    labelled(torque, "Torque of the first servo", "time, s", "N m")
    flight = Flight("birotor", "land", noise=1.0, wind=(2.0, 0.0, 0.0))
    seen = sample_run(flight.record()[0], fps=100.0)
    box = np.array([[-0.45, -0.45, 0.0], [0.45, 0.45, 0.85]])
    corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    for column, time in enumerate((2.6, 3.4, 5.5)):
        k = int(np.searchsorted(seen.t, time))
        style: dict[str, Any] = {
            "size": (620, 460),
            "camera": framed(corners, (620, 460), azimuth=-70.0, elevation=10.0),
            "extent": 0.6,
        }
        image = picture(seen.robot, seen.q[k], ground=0.0, label=False, arrows=force_arrows(seen, k, 0.35), **style,
                        polylines=[points[k] for points in seen.polylines])  # fmt: skip
        ax = figure.add_subplot(grid[1, column])
        ax.imshow(image)
        ax.set_axis_off()
        labelled(ax, f"Landing in a wind of 2 m/s, {time:g} s", "", "")
        ax.grid(False)
    save(figure, path)


def same_commands(kind: Any) -> np.ndarray:
    """The centre of mass over 4 s in which the gimbals swing forward and back, and nobody controls."""
    vehicle = kind("birotor")
    loop, swing = vehicle.loop(), 0.1 * np.sin(np.pi * 0.005 * np.arange(800))
    commands = vehicle.hover + np.stack([0.0 * swing, 0.0 * swing, swing, -swing], axis=1)
    out = loop.rollout(loop.state(vehicle.configuration()), commands, record=["q"])
    return np.asarray(vehicle.simulation.robot.center_of_mass(out["q"]))
