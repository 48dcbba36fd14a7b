"""Pictures of closed loops: blocks, episodes, noise, sensors and environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, VIOLET, columns, labelled, levels, picture, program

import condyle as cd
from condyle.methods.learn.task import load_task


@picture("One kernel: 200 arms with random masses, a servo's lag and a noisy controller at 50 Hz", 12.0, 4.2, ncols=3)
def closed_loop(left: Any, middle: Any, right: Any) -> None:
    """The page's loop with 200 random masses, one of its torques, and episodes of three."""
    p = program("closed_loop")
    world, dt, ticks = p["world"], 0.002, 1000
    servo, control = p["Servo"](2, 0.05, name="servo"), p["Control"](2, every=10, name="control")

    def closed(x: Any, target: Any) -> Any:
        return control(servo(target), x.q, x.v)

    rng, target, t = np.random.default_rng(0), np.array([0.5, -0.5]), dt * np.arange(1, ticks + 1)
    loop = cd.Loop(world, closed, target=2)
    x = loop.state(0.1 * rng.normal(size=(200, 2)))
    arms = {"elbow.mass": rng.uniform(0.5, 3.0, 200), "control.kp": 100.0}
    out = loop.rollout(x, target, ticks, seed=1, parameters=arms, record=["q", "u", "servo.angle"])
    left.plot(t, out["q"][:, :, 0].T, color=BLUE, lw=0.4, alpha=0.25)
    left.plot(t, out["servo.angle"][0, :, 0], color=ORANGE, lw=2.0, label="servo's angle")
    labelled(left, "Shoulders of all 200", "time, s", "rad", "lower right")
    middle.plot(t, out["u"][0, :, 0], color=GREEN, lw=1.2)
    labelled(middle, "Torque of one: held between updates", "time, s", "N m", xlim=(0.0, 0.5))
    episode = cd.Episode(lambda x: x.q[0] > 0.35, 0.8, lambda draw: {"q": 0.1 * draw.normal(2)})
    episodes = cd.Loop(world, closed, episode=episode, target=2)
    out = episodes.rollout(episodes.state(x[:3, :2]), target, ticks, seed=1, parameters={"control.kp": 100.0}, record=["q"])
    columns(right, t, out["q"][:, :, 0].T, (None,) * 3, (BLUE, ORANGE, VIOLET), lw=1.2)
    levels(right, 0.35, ls=":")
    labelled(right, "Episodes of three", "time, s", "rad")


@picture("Actuators on a double pendulum under gravity", 12.0, 4.2, ncols=3)
def blocks(left: Any, middle: Any, right: Any) -> None:
    """Servos on a pendulum, a motor along its torque-speed line, and a hobby servo."""
    world = cd.Simulation(cd.load("double_pendulum"), 0.002)
    joints, t = world.control_names, 0.002 * np.arange(1, 501)

    def run(block: Any, reference: Any) -> Any:
        loop = cd.Loop(world, lambda x, target: block(target, x), target=2)
        return loop.rollout(loop.state(), reference, 500, record=["q", *(name for name in loop.layout if name == "servo.shaft")])

    servos = {
        "first order": (cd.blocks.FirstOrderTorqueServo(joints, 0.1), BLUE),
        "second order": (cd.blocks.SecondOrderTorqueServo(joints, 2.0, 0.3), ORANGE),
        "PD, 25 N m": (cd.blocks.ImplicitPD(joints, 400.0, 20.0, 25.0), GREEN),
    }
    for name, (block, color) in servos.items():
        left.plot(t, run(block, np.array([0.8, -0.8]))["q"][:, 0], color=color, label=name)
    labelled(left, "A step of the shoulder, whatever it carries", "time, s", "rad", "lower right")
    v = np.linspace(-12.0, 12.0, 200)
    upper = np.minimum(np.maximum(30.0 * (1.0 - v / 8.0), -20.0), 20.0)
    middle.fill_between(v, -upper[::-1], upper, color=BLUE, alpha=0.15)
    middle.plot(v, np.stack([upper, -upper[::-1]], axis=1), color=BLUE)
    levels(middle, 0.0)
    middle.axvline(0.0, color=FAINT, lw=0.8)
    labelled(middle, "Torques of TorqueActuator: motoring, braking", "speed, rad/s", "N m")
    limits = {"effort": 600.0, "speed": 4.0, "dead_band": 0.05, "resolution": 0.1, "delay": 0.1}
    hobby = cd.blocks.HobbyServo(joints, kp=6e3, kd=3e2, name="servo", **limits)
    ramp = np.repeat(0.5 * np.sin(2.0 * np.pi * t)[:, None], 2, axis=1)
    out = run(hobby, ramp)
    curves = np.stack([ramp[:, 0], out["servo.shaft"][:, 0], out["q"][:, 0]], axis=1)
    columns(right, t, curves, ("command", "shaft", "joint"), (FAINT, VIOLET, ORANGE))
    labelled(right, "A hobby servo: delay, dead band, rate", "time, s", "rad", "best")


# -- sensors


@picture("Errors of sensors, in the kernel: delay, steps, dropouts, noise, bias walk; range over terrain", 12.0, 4.2, ncols=3)
def sensors(left: Any, middle: Any, right: Any) -> None:
    """What an encoder gives, the Allan deviation of a gyroscope, and a flight over terrain with the range below it."""
    dt, t = 0.01, 0.01 * np.arange(120)
    angle = np.sin(2.0 * np.pi * t)
    encoder = cd.blocks.Measurement(1, "rad", delay=0.04, noise=0.01, resolution=0.1, dropout=0.15, name="encoder")
    loop = cd.Loop(None, lambda x, angle: {"valid": encoder(angle)["valid"]}, dt=dt, angle=1)
    out = loop.rollout(loop.state(), angle[:, None], record=["encoder.value", "valid"], seed=2)
    lost, value = out["valid"] < 0.5, out["encoder.value"][:, 0]
    left.plot(t, angle, color=FAINT, lw=1.2, label="true")
    left.step(t, value, where="post", color=BLUE, lw=1.4, label="measured")
    left.plot(t[lost], value[lost], "x", color=ORANGE, ms=5, label="sample lost")
    labelled(left, "40 ms late, steps of 0.1 rad", "time, s", "rad", "best")
    gyroscope = cd.blocks.Measurement((), "rad/s", noise=0.02, walk=0.01, name="gyroscope")
    loop = cd.Loop(None, lambda x: {"rate": gyroscope(0.0)["value"]}, dt=dt)
    rate = loop.rollout(np.tile(loop.state(), (64, 1)), None, 4096, record=["rate"])["rate"]
    sizes = 2 ** np.arange(10)
    means = [rate.reshape(64, -1, n).mean(axis=2) for n in sizes]
    deviation = [np.sqrt(0.5 * np.mean(np.diff(each, axis=1) ** 2)) for each in means]
    tau = sizes * dt
    middle.loglog(tau, 0.02 * np.sqrt(dt / tau), color=FAINT, lw=1.0, ls="--", label="noise: slope -1/2")
    middle.loglog(tau, 0.01 * np.sqrt(tau / 3.0), color=FAINT, lw=1.0, ls=":", label="bias walk: slope 1/2")
    middle.loglog(tau, deviation, "o-", color=GREEN, lw=1.4, ms=4, label="64 gyroscopes")
    labelled(middle, "Allan deviation", "averaging time, s", "rad/s", "best")
    ranges_over_terrain(right)


def ranges_over_terrain(ax: Any) -> None:
    """A flight over terrain, and the range that is measured forward and down."""
    ground = cd.Terrain(lambda x, y: 0.2 * np.sin(3.0 * x) + 0.1 * np.sin(7.0 * x))
    world = cd.Simulation(cd.load("birotor", gravity=(0.0, 0.0, 0.0)), 0.02, ground, {"base": 0.01})
    down = cd.blocks.RangeFinder("base", limit=3.0, direction=(0.5, 0.0, -1.0), noise=0.02, every=5)
    loop = cd.Loop(world, lambda x: {"range": down(x)["range"]})
    q = np.concatenate([[0.0, 0.0, 1.0], world.robot.neutral()[3:]])
    x = loop.state(q, np.concatenate([[1.0], np.zeros(world.robot.nv - 1)]))
    out = loop.rollout(x, None, 150, record=["range", "q"])
    p, s = np.vstack([q[:3], out["q"][:-1, :3]])[::5], out["range"][::5]
    hits, along = p + s[:, None] * np.array([0.5, 0.0, -1.0]) / np.sqrt(1.25), np.linspace(0.0, 4.0, 400)
    ax.fill_between(along, -0.5, [ground.surface(a, 0.0)[0] for a in along], color=FAINT, alpha=0.35, lw=0)
    ax.plot(p[:, 0], p[:, 2], color=INK, lw=1.2)
    ax.plot([p[:, 0], hits[:, 0]], [p[:, 2], hits[:, 2]], color=BLUE, lw=0.6, alpha=0.6)
    ax.plot(hits[:, 0], hits[:, 2], "o", color=ORANGE, ms=3.5)
    labelled(ax, "Range with 2 cm of noise, 10 Hz", "x, m", "z, m")


# -- environments


@picture("One kernel: robots, rewards, resets, randomisation and the policy", 12.0, 4.2, ncols=3)
def environments(left: Any, middle: Any, right: Any) -> None:
    """Angles of cart-poles with the ends of their episodes, their masses, and uneven ground of four levels."""
    env = load_task("cartpole", "balance").make(96, seed=1)
    # place, sine and cosine of the angle, speed, rate
    policy = cd.blocks.MLP([(np.array([[0.05, 1.6, 0.0, 0.2, 1.0]]), np.zeros(1))])
    out = env.rollout(policy, 250, std=0.8, record=["q", "pole.mass"])
    t, angles = env.dt * np.arange(1, 251), np.degrees(out["q"][..., 1])
    broken = np.where(np.roll(out.terminated | out.truncated, 1, axis=1), np.nan, angles)
    left.plot(t, broken.T, color=BLUE, lw=0.4, alpha=0.35)
    robot, step = np.nonzero(out.terminated)
    left.plot(t[step], angles[robot, step], "o", color=ORANGE, ms=3.0, label="terminated, starts again")
    labelled(left, "Angles of 96 poles", "time, s", "degrees", "lower right", ylim=(-50.0, 50.0))
    columns(middle, t, 1000.0 * out["pole.mass"].T, (None,) * 4, lw=1.4, drawstyle="steps-pre")
    levels(middle, 50.0, 200.0, ls=":")
    labelled(middle, "Masses of four, drawn for each episode", "time, s", "g")
    x = np.linspace(-1.5, 1.5, 1200)
    for k, (level, color) in enumerate(zip((0.1, 0.4, 0.7, 1.0), (BLUE, GREEN, ORANGE, VIOLET), strict=True)):
        ground = cd.Uneven(roughness=0.06 * level, step=0.06 * level, slope=4.0 * level, offset=(0.7 * k, 0.0))
        h = np.array([ground.surface(float(at), 0.0)[0] for at in x])
        right.plot(x, h - h[len(h) // 2] + 0.25 * k, color=color, lw=1.6, label=f"level {level}")
    labelled(right, "cd.Uneven: ground by level", "x, m", "height, m (shifted)", "upper left")
