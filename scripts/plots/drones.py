"""Pictures of drones: airframes, wind, landings, their controllers, and two models of the birotor."""

from __future__ import annotations

from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, columns, labelled, levels, picture, show

import condyle as cd
from condyle.workbench.view.picture import picture as render

SMALL = {"fontsize": 9}


@picture("Drones with tilting rotors", 12.0, 6.6)
def flight(figure: Any) -> None:
    """Four airframes, a step of a gimbal with its torque, wind, and a landing with a take-off."""
    grid = figure.add_gridspec(2, 12)
    for k, name in enumerate(("birotor", "trirotor", "quadrotor", "hexarotor")):
        robot = cd.load(name)
        q = robot.neutral()
        q[2], q[7:] = 0.3, 0.35 * np.resize([1.0, -0.6, 0.8], robot.nq - 7)
        ax = figure.add_subplot(grid[0, 3 * k : 3 * k + 3])
        show(ax, render(robot, q, size=(440, 380), label=False), f"{name}, {robot.mass:.3g} kg")
    servo(figure.add_subplot(grid[1, :4]))
    wind(figure.add_subplot(grid[1, 4:8]))
    landing(figure.add_subplot(grid[1, 8:]))


def servo(ax: Any) -> None:
    """A step of the birotor's first gimbal in both forms."""
    t = 0.005 * np.arange(120)
    for form, color in (("kinematic", BLUE), ("torque", ORANGE)):
        vehicle = cd.flight.Vehicle("birotor", servo=form)
        loop = vehicle.loop()
        command = vehicle.hover + np.array([0.0, 0.0, 0.4, -0.4])
        out = loop.rollout(loop.state(vehicle.configuration()), command, 120, record=["vehicle.angles", "vehicle.torques"])
        ax.plot(t, out["vehicle.angles"][:, 0], color=color, lw=1.6, label=f"angle, rad, {form}")
        ax.plot(t, out["vehicle.torques"][:, 0], color=color, lw=1.0, ls="--", label=f"torque, N m, {form}")
    title = "A gimbal's step; first torques 3 and 2 N m"
    labelled(ax, title, "time, s", "", {**SMALL, "loc": "upper right"}, ylim=(-0.05, 0.85))


def wind(ax: Any) -> None:
    """Turbulence along the wind for three robots, and a gust."""
    turbulence, gust = cd.flight.Dryden(5.0, 10.0), cd.flight.Gust((3.0, 0.0, 0.0), 5.0, 2.0)
    loop, t = cd.Loop(None, lambda x: {"eddies": turbulence(x), "pulse": gust(x)}, dt=0.02), 0.02 * np.arange(600)
    out = loop.rollout(np.repeat(loop.state()[None], 3, axis=0), steps=600, record=["eddies", "pulse"], seed=4)
    columns(ax, t, out["eddies"][:, :, 0].T, ("turbulence about 5 m/s", None, None), (BLUE, GREEN, FAINT), lw=1.0)
    ax.plot(t, out["pulse"][0, :, 0], color=RED, lw=1.6, label="a gust of 3 m/s")
    labelled(ax, "Wind for three robots", "time, s", "m/s", SMALL, ylim=(-1.0, 11.0))


def landing(ax: Any) -> None:
    """Heights of the feet of the birotor: falling with little thrust, standing, taking off, at three tilts."""
    vehicle = cd.flight.Vehicle("birotor", ground=cd.Plane())
    loop, feet = vehicle.loop(), np.array([[x * 0.12, y * 0.15, -0.26] for x in (-1, 1) for y in (-1, 1)])
    commands = np.repeat([vehicle.hover * 0.85, vehicle.hover * 0.2, vehicle.hover * 1.1], [160, 140, 100], axis=0)
    for degrees, color in ((0.0, BLUE), (4.0, GREEN), (8.0, ORANGE)):
        half = np.radians(degrees) / 2.0
        q = vehicle.configuration((0.0, 0.0, 0.42), (np.cos(half), np.sin(half), 0.0, 0.0))
        out = loop.rollout(loop.state(q), commands, record=["q"])["q"]
        R, p = vehicle.simulation.robot.frame_pose(out, "base")
        heights = p[:, None, 2] + np.einsum("kj,tj->tk", feet, R[:, 2])
        columns(ax, 0.005 * np.arange(400), heights, (f"{degrees:g} degrees", None, None, None), [color] * 4, lw=0.9)
    levels(ax, 0.0)
    labelled(ax, "Feet: landing at a tilt, take-off", "time, s", "height, m", SMALL)


# -- control


@picture("A birotor, as a multibody with noise on its state, under its controllers", 12.0, 7.0, nrows=2, ncols=2)
def flight_control(position: Any, attitude: Any, rotors: Any, circle: Any) -> None:
    """The standard scenario under NMPC, and four controllers on a circle in gusts."""
    from benchmarks.flight_control import DT, EVERY, GUST, setup

    flight, times, calm = setup("birotor"), EVERY * DT * np.arange(1200), np.zeros(3)
    rows, colors = flight.control.references(cd.flight.standard_scenario(), times), (BLUE, ORANGE, GREEN)
    for gust, style, names in ((calm, "-", "xyz"), (np.array(GUST), ":", (None,) * 3)):
        out = flight.fly(flight.start(), rows, gust=gust, record=["control.output", "vehicle.angles"], seed=1)
        columns(position, times, out["state"][:, :3], names, colors, lw=1.4, ls=style)
        if gust is calm:
            position.plot(times, rows[:, :3], color=FAINT, lw=0.8)
            columns(attitude, times, angles(out["state"][:, 6:10]), ("roll", "pitch", "yaw"), colors, lw=1.4)
            attitude.plot(times, angles(rows[:, 6:10]), color=FAINT, lw=0.8)
            columns(rotors, times, out["control.output"], ("thrust 1, N", "thrust 2, N"), lw=1.0)
            names = ("20 angle 1, rad", "20 angle 2, rad")
            columns(rotors, times, 20.0 * out["vehicle.angles"], names, lw=1.0, ls="--")
    labelled(position, "The standard scenario; dotted: gusts of 3 m/s along x", "time, s", "m", SMALL)
    labelled(attitude, "Wanted at 2 s: 30, 60, 90 degrees; reached: yaw 72.4", "time, s", "deg", SMALL)
    labelled(rotors, "Thrusts and gimbals, calm", "time, s", "", SMALL)
    path = cd.flight.Circle(center=(0.0, 0.0, 1.0), radius=0.8, period=6.0, turns=1.5, ramp=1.5, begin=0.5)
    target = path.sample(times).position[:, 0]
    for name, color in {"nmpc": BLUE, "nmpc, offset-free": GREEN, "geometric": ORANGE, "indi": VIOLET}.items():
        flight = setup("birotor", name, "trajectory")
        x = flight.fly(flight.start(target[0]), flight.control.references(path, times), gust=np.array(GUST), seed=1)["state"]
        circle.plot(times, np.linalg.norm(x[:, :3] - target, axis=-1), color=color, lw=1.3, label=name)
    labelled(circle, "Distance from a circle of 0.8 m in 6 s, gusts of 3 m/s", "time, s", "m", SMALL)


def angles(q: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw in degrees of quaternions w, x, y, z."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return np.degrees(np.stack([roll, pitch, yaw], axis=-1))


# -- two models


@picture("The birotor as one body and as a multibody", 12.0, 6.6, nrows=2, ncols=3)
def birotor_models(apart: Any, control: Any, torque: Any, *landings: Any) -> None:
    """Both models under the same commands, a controlled flight of both, and a landing in wind."""
    from condyle.apps.flight.report import Flown
    from condyle.apps.flight.scenarios import Flight
    from condyle.workbench.view.camera import framed
    from condyle.workbench.view.scene import force_arrows
    from condyle.workbench.view.trajectory import sample_run

    single, multibody = (center_under_commands(kind) for kind in (cd.flight.RigidVehicle, cd.flight.Vehicle))
    curves = np.stack([single[:, 0], multibody[:, 0], 10.0 * np.linalg.norm(single - multibody, axis=1)], axis=1)
    columns(apart, 0.005 * np.arange(800), curves, ("x, one body", "x, multibody", "distance, times 10"), (ORANGE, BLUE, RED))
    labelled(apart, "Gimbals swing by 0.1 rad, no controller", "time, s", "m", SMALL)
    for model, color, style in (("single", ORANGE, "--"), ("multibody", BLUE, "-")):
        flight = Flight("birotor", "attitude", model=model, seconds=9.0)
        flown = Flown(flight, *flight.record(), np.zeros(0))
        control.plot(flown.t, 1e3 * flown.error, color=color, lw=1.4, ls=style, label=model)
        torque.plot(flown.t, flown.signal("torques")[:, 0], color=color, lw=1.2, label=model)
    labelled(control, "NMPC: distance from the target", "time, s", "mm", SMALL, yscale="log")
    labelled(torque, "Torque of the first servo", "time, s", "N m", SMALL)
    seen = sample_run(Flight("birotor", "land", noise=1.0, wind=(2.0, 0.0, 0.0)).record()[0], fps=100.0)
    corners = np.array([[x, y, z] for x in (-0.45, 0.45) for y in (-0.45, 0.45) for z in (0.0, 0.85)])
    camera = framed(corners, (620, 460), azimuth=-70.0, elevation=10.0)
    for ax, time in zip(landings, (2.6, 3.4, 5.5), strict=True):
        k = int(np.searchsorted(seen.t, time))
        drawn = {"arrows": force_arrows(seen, k, 0.35), "polylines": [points[k] for points in seen.polylines]}
        image = render(seen.robot, seen.q[k], size=(620, 460), camera=camera, ground=0.0, extent=0.6, label=False, **drawn)
        show(ax, image, f"Landing in a wind of 2 m/s, {time:g} s")


def center_under_commands(kind: Any) -> np.ndarray:
    """The centre of mass over 4 s in which the gimbals swing forward and back, and nobody controls."""
    vehicle = kind("birotor")
    loop, swing = vehicle.loop(), 0.1 * np.sin(np.pi * 0.005 * np.arange(800))
    commands = vehicle.hover + np.stack([0.0 * swing, 0.0 * swing, swing, -swing], axis=1)
    out = loop.rollout(loop.state(vehicle.configuration()), commands, record=["q"])
    return np.asarray(vehicle.simulation.robot.center_of_mass(out["q"]))
