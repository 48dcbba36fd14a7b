"""Pictures of contact: its laws against closed forms, touchdown, parameters, limits, and gradients through it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, VIOLET, labelled, levels, picture, show
from simulate.bodies import HALF, G, a_box, a_sphere, along_slope, on_slope, random_drops, turned_by, upright

import condyle as cd
from condyle.simulate.config import DEFAULT_SMOOTHING
from condyle.workbench.view.picture import picture as render

MU, DT, RADIUS = 0.5, 1e-3, 0.1  # of friction, s, of the ball in m
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")


def states(world: cd.Simulation, q: Any, v: Any, seconds: float) -> np.ndarray:
    """The states of bodies without controls."""
    return world.rollout(world.state(q, v), np.zeros((round(seconds / world.dt), world.nu)))


def way_down(degrees: float, seconds: float, dt: float = DT, **options: Any) -> np.ndarray:
    """How far a box has slid down a slope at each step."""
    world = cd.Simulation(a_box(), dt, cd.Slope(degrees, friction=MU), **options)
    way = along_slope(states(world, on_slope(degrees, HALF), None, seconds), degrees)
    return way - way[0]


# -- lines are closed forms, dots are simulated with the defaults; tests/simulate/test_contact_laws.py asserts the same


@picture("The laws of contact: closed forms and steps of 1 ms, μ = 0.5", 12.5, 7.8)
def contact_laws(figure: Any) -> None:
    """Boxes and balls against the closed forms of dry friction."""
    stop, slide, bowl, creep, drop = (figure.add_subplot(2, 3, k) for k in range(1, 6))
    v = np.zeros((13, 6))
    v[:, 0] = np.linspace(0.0, 3.0, 13)
    world = cd.Simulation(a_box(), DT, cd.Plane(MU))
    xs = states(world, upright(np.full(13, HALF)), v, 0.8)
    fine = np.linspace(0.0, 3.0, 100)
    stop.plot(fine, fine**2 / (2.0 * MU * G), color=FAINT, lw=2.0, label="v² / (2 μ g)")
    stop.plot(v[:, 0], xs[:, -1, 0], "o", color=BLUE, ms=5, label="simulated")
    labelled(stop, "A thrown box stops", "speed, m/s", "distance, m", "best")
    degrees, ways = [0.0, 8.0, 16.0, 22.0, 26.0, 27.0, 30.0, 34.0, 38.0, 42.0, 46.0, 50.0], []
    for each in degrees:
        way = way_down(each, 0.4)
        ways.append(2.0 * way[-1] / (DT * (len(way) - 1)) ** 2)
    fine = np.linspace(0.0, 50.0, 200)
    law = G * (np.sin(np.radians(fine)) - MU * np.cos(np.radians(fine)))
    slide.plot(fine, np.maximum(0.0, law), color=FAINT, lw=2.0, label="g (sin α − μ cos α)")
    slide.plot(degrees, ways, "o", color=BLUE, ms=5, label="simulated")
    labelled(slide, "A box on a slope sticks, then slides", "slope α, degrees", "acceleration, m/s²", "best")
    bowling = cd.Simulation(a_sphere(), DT, cd.Plane(MU))
    xs = states(bowling, upright(RADIUS), [2.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.25)
    turn, rolling, t = 4.0 / (7.0 * MU * G), 10.0 / 7.0, DT * np.arange(1, len(xs))
    for start in (2.0, 0.0):
        bowl.plot([0.0, turn, 0.25], [start, rolling, rolling], color=FAINT, lw=2.0)
    bowl.plot(t[4::9], (np.diff(xs[:, 0]) / DT)[4::9], "o", color=BLUE, ms=5, label="speed")
    bowl.plot(t[4::9], (RADIUS * xs[1:, 11])[4::9], "o", color=ORANGE, ms=5, label="radius × spin")
    bowl.axvline(turn, color=FAINT, lw=0.8, ls=":")
    for x, words in ((0.5 * turn, "slips"), (0.185, "rolls at 5/7 of its speed")):
        bowl.annotate(words, (x, 0.06), ha="center", fontsize=9)
    labelled(bowl, "A bowled ball begins to roll", "time, s", "m/s", "center right")
    smoothings, half = np.geomspace(1e-6, 1e-2, 5), float(np.degrees(np.arctan(MU))) / 2.0
    for dt, color in ((2e-3, ORANGE), (1e-3, BLUE)):
        ways = [way_down(half, 0.3, dt=dt, smoothing=smoothing) for smoothing in smoothings]
        speeds = [1e3 * (way[-1] - way[-51]) / (50 * dt) for way in ways]
        creep.loglog(smoothings, speeds, "o-", color=color, ms=5, lw=1.2, label=f"dt {1e3 * dt:g} ms")
    creep.axvline(DEFAULT_SMOOTHING, color=FAINT, lw=0.8, ls=":")
    creep.annotate("the default", (1.25 * DEFAULT_SMOOTHING, 0.02), xycoords=("data", "axes fraction"), fontsize=9)
    labelled(creep, "What creeps while it sticks", "smoothing", "creep, mm/s", "best")
    creep.yaxis.set_major_formatter(PLAIN)
    energy = world.energy(states(world, *random_drops(np.random.default_rng(1), 200), 1.0))
    drop.plot(DT * np.arange(energy.shape[1]), energy[:40].T, color=BLUE, lw=0.7, alpha=0.5)
    rise = 1e3 * np.max(energy - np.minimum.accumulate(energy, axis=1))
    words = f"200 boxes: none gains more than {rise:.2g} mJ"
    drop.annotate(words, (0.98, 0.95), xycoords="axes fraction", ha="right", va="top", fontsize=9)
    labelled(drop, "Boxes thrown down lose energy", "time, s", "kinetic + potential, J", ylim=(0.0, 1.12 * np.max(energy[:40])))
    directions(figure.add_subplot(2, 3, 6, projection="polar"))


def directions(ax: Any) -> None:
    """How far a box slides, over its direction, with a round cone and a pyramid."""
    angle, v = np.linspace(0.0, 2.0 * np.pi, 65), np.zeros((65, 6))
    v[:, 0] = 1.0
    for cone, color, label in ((4, ORANGE, "pyramid, 4 corners"), ("round", BLUE, "round cone")):
        xs = states(cd.Simulation(a_box(), DT, cd.Plane(MU), cone=cone), turned_by(angle, HALF), v, 0.6)
        ax.plot(angle, 100.0 * np.linalg.norm(xs[:, -1, :2], axis=1), color=color, lw=2.0, label=label)
    ax.set_title("How far a box slides, by direction", color=INK, fontsize=11.5)
    ax.set_thetagrids([0.0, 90.0, 180.0, 270.0])
    ax.set_rlim(0.0, 17.0)
    ax.set_rgrids([5.0, 10.0, 15.0], ["5 cm", "10", "15"], angle=45.0, fontsize=8)
    ax.tick_params(colors=INK, labelsize=8)
    ax.grid(color=FAINT, alpha=0.3, lw=0.6)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)


@picture("A ball through touchdown: how its next vertical velocity depends on its height", 10.5, 7.6,
         nrows=3, ncols=2, sharex=True, sharey="row")  # fmt: skip
def touchdown(*axes: Any) -> None:
    """Normal force, first and second derivative by the height, with strength growing as depth^3 and as depth^2."""
    depth, at_rest = 1e-3, np.zeros(12)  # contact begins so far above the surface
    # of the ball's lowest point over where contact begins; a nanometre to either side of it is there
    heights = np.concatenate([np.linspace(0.15e-3, 1e-9, 20), np.linspace(-1e-9, -0.45e-3, 400)])
    at_rest[8] = 1.0
    for column, (power, color, words) in enumerate(((3, BLUE, "strength ~ depth³"), (2, ORANGE, "strength ~ depth²"))):
        options = {"actuated": a_sphere().joint_names[:1], "depth_exponent": power, "rest_depth_mm": 1e3 * depth}
        world = cd.Simulation(a_sphere(), 0.002, cd.Plane(friction=0.5), **options)
        x, u = world.state(upright(RADIUS + depth + heights)), np.zeros(6)
        slope = world.step(x, u, derivatives=True)[1][:, 8, 2]
        curvature = 1e-3 * world.step_hessian(x, u, at_rest)[:, 2, 2]
        rows = {"normal force, N": world.contact_forces(x, u)[:, 0, 2], "dv/dz, 1/s": slope, "d²v/dz², 1000/(m s)": curvature}
        for row, (unit, values) in enumerate(rows.items()):
            ax = axes[2 * row + column]
            # the curve is drawn in two parts, so that a jump shows as one
            for part in (heights > 0.0, heights < 0.0):
                ax.plot(1e3 * heights[part], values[part], color=color, lw=2.0)
            ax.axvline(0.0, color=FAINT, lw=0.8, ls=":")
            under = "height above where contact begins, mm (falling: to the right)" if row == 2 else ""
            labelled(ax, "" if row else words, under, "" if column else unit)
        inside = curvature[heights < 0.0][0]
        ax.plot([0.0, 0.0], [0.0, inside], "o", color=color, ms=5)
        ax.annotate(f"a jump of {inside:.1f}" if power == 2 else "no jump", (-0.03 if power == 2 else 0.145, 30.0), color=color)
        ax.xaxis.set_major_formatter(PLAIN)
    axes[0].invert_xaxis()  # shared by all


# -- two laws of the ground


@picture("The reference robot and the two laws of its ground, equally strong 1 mm deep (mode INVERSE_LF)", 12.0, 4.4,
         ncols=3, width_ratios=(1.15, 1.0, 1.0))  # fmt: skip
def diffne(left: Any, middle: Any, right: Any) -> None:
    """The reference robot, and what the ground exerts on it under both laws: force, and its exact derivative by the height."""
    planar = cd.load("fourlimb", base="planar")
    q = planar.neutral()
    q[1] = 0.737
    show(left, render(planar, q, size=(700, 560), label=False), "99.9 kg, 12 joints in the plane")
    depth = np.concatenate([np.linspace(-2e-4, -1e-7, 20), np.linspace(1e-7, 1e-3, 120)])
    for law, color, name in (("round", BLUE, "round: depth³"), ("pyramid", ORANGE, "pyramid: depth²")):
        force, slope = lifting_force(law, depth)
        middle.plot(1e3 * depth, force, color=color, lw=2.0, label=name)
        right.plot(1e3 * depth, slope / 1e3, color=color, lw=2.0)
    for ax in (middle, right):
        ax.axvline(0.0, color=FAINT, lw=0.8, ls=":")
    labelled(middle, "Force of the ground", "depth of the feet, mm", "N", "best")
    labelled(right, "Its derivative by the depth", "depth of the feet, mm", "N/mm")


def lifting_force(law: str, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(upward force of the ground, N; its derivative by the depth, N/m) on the robot at rest, by its inverse mode."""
    from condyle.apps.compat.diffne import DiffNERobotModel

    model = DiffNERobotModel("fourlimb", base="planar")
    model.eliminate_joints(["roll_"])
    simulator = model.create_simulator(mode="INVERSE_LF", law=law, coef=2.9e8)  # as strong as the round one where it is 1 mm deep
    simulator.set_floor([0, 0, 1, 0], model.end_effectors("foot_*"))
    x = np.zeros((len(depth), 3 * model.N))
    x[:, 1] = 0.05 - model.robot.frame_pose(np.zeros(model.N), "foot_fl")[1][2] - depth  # feet of 5 cm
    tau, by_state = simulator.simulate_batched(0.001, x, Dqdq=True)
    return model.robot.mass * G - tau[:, 1], by_state[:, 1, 1]


# -- parameters


@picture("1,000 frictions and masses in one call of one kernel: crates on a slope of 15 degrees, after 1 s", height=4.2, ncols=2)
def parameters(left: Any, right: Any) -> None:
    """A thousand crates on a slope, each with its own friction and mass, in one call."""
    angle, dt, count = np.radians(15.0), 0.004, 1000
    world = cd.Simulation(a_box(mass=2.0), dt, cd.Slope(15.0), ["box"])
    friction, mass = np.linspace(0.0, 0.5, count), 10.0 ** np.random.default_rng(0).uniform(-1.0, 2.0, count)
    inertia = world.parameters["box.inertia"].default * mass[:, None, None] / 2.0
    crates = {"ground.friction": friction, "box.mass": mass, "box.inertia": inertia}
    xs = world.rollout(world.state(on_slope(15.0, HALF)), np.zeros((round(1.0 / dt), 0)), parameters=crates)
    speed, law = -xs[:, -1, 7], np.maximum(G * (np.sin(angle) - friction * np.cos(angle)), 0.0)
    right.scatter(mass, speed, c=friction, s=6.0, cmap="viridis")
    left.plot(friction, law, color=FAINT, lw=5.0, label="g (sin 15° - mu cos 15°) t")
    left.plot(friction, speed, color=BLUE, label="1,000 crates")
    labelled(left, "Friction decides", "friction of the ground", "speed, m/s", "best")
    labelled(right, "Mass does not: contact scales follow it", "mass, kg", "speed, m/s", xscale="log")


# -- limits


@picture("Three limits: long chains, no bounce, first order", 12.0, 4.4, ncols=3)
def limits(chain: Any, bounce: Any, order: Any) -> None:
    """Operations over the number of joints, a ball that does not bounce, and the error of integrators against the step."""
    joints, legend = (2, 4, 8, 16, 24), {"loc": "upper left", "fontsize": 9}
    kinds = {"forward dynamics": BLUE, "mass matrix": VIOLET, "forward dynamics derivatives": ORANGE}
    for name, color in kinds.items():
        counts = [cd.load(f"chain:{n}").function(name.replace(" ", "_")).operations for n in joints]
        chain.loglog(
            joints, counts, "o-", color=color, lw=1.6, ms=5, label=f"{name.removeprefix('forward dynamics ')}: {counts[-1]:,}"
        )
    chain.set_xticks(joints, [str(n) for n in joints])
    chain.minorticks_off()
    title = "Chains: the derivatives grow faster"
    labelled(chain, title, "joints", "operations for one state", {**legend, "title": "with 24 joints"}, ylim=(None, 3e6))
    world = cd.Simulation(a_sphere(0.05), 0.001, cd.Plane(friction=0.5))
    x = world.state()
    x[2] = 0.55
    xs = world.rollout(x, np.zeros((1000, world.nu)))
    t = 0.001 * np.arange(len(xs))
    bounce.plot(t, bouncing(t, 0.5, 0.5), color=FAINT, lw=1.6, ls="--", label="a ball that bounces, e = 0.5")
    bounce.plot(t, xs[:, 2] - 0.05, color=BLUE, lw=2.0, label="Condyle: no bounce")
    title = "Impacts are inelastic"
    labelled(bounce, title, "time, s", "height of the lowest point, m", {**legend, "loc": "upper right"}, ylim=(-0.02, 0.68))
    true = after_a_second("rk4", 0.001 / 8.0)
    steps = 1.0 / np.rint(1000.0 * 2.0 ** -np.arange(-2.0, 5.0))
    for integrator, color, name in (("semi_implicit_euler", ORANGE, "the default"), ("rk2", GREEN, "rk2"), ("rk4", BLUE, "rk4")):
        error = [float(np.abs(after_a_second(integrator, dt) - true).max()) for dt in steps]
        order.loglog(1e3 * steps, error, "o-", color=color, lw=1.6, ms=5, label=name)
    title, unit = "The default integrator is of first order", "error of the angles after 1 s, rad"
    labelled(order, title, "step, ms", unit, {**legend, "ncols": 3}, ylim=(None, 10.0))


def bouncing(t: np.ndarray, height: float, back: float) -> np.ndarray:
    """Height of a ball whose speed is multiplied by `back` at each impact."""
    out, start, speed = np.zeros_like(t), -np.sqrt(2.0 * height / G), np.sqrt(2.0 * G * height)
    for _ in range(20):
        flown = t - start
        out = np.where((flown >= 0.0) & (flown <= 2.0 * speed / G), speed * flown - G * flown**2 / 2.0, out)
        start, speed = start + 2.0 * speed / G, back * speed
    return out


def after_a_second(integrator: str, dt: float) -> np.ndarray:
    """The angles of a double pendulum."""
    world = cd.Simulation(cd.load("double_pendulum"), dt, integrator=integrator)
    return world.rollout(np.array([1.0, 0.5, 0.0, 0.0]), np.zeros((round(1.0 / dt), world.nu)))[-1, :2]


# -- gradients through contact


@picture("A throw found by gradient descent through contact", height=4.4, ncols=2, width_ratios=(2.2, 1.0))
def torch_and_jax(left: Any, right: Any) -> None:
    """A ball thrown by gradient descent through contact, with PyTorch, so that it is at a mark after 0.6 s."""
    import torch

    rounds, mark = 24, 1.2
    loop = cd.Loop(cd.Simulation(a_sphere(), dt=0.004, ground=cd.Plane()), lambda x: {"wrenches": {}})
    rollout = cd.torch.rollout(loop, steps=150, record=["q"])
    start = torch.from_numpy(loop.state(np.array([0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 1.0])))
    throw = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([throw], lr=0.4)
    paths, missing = [], []
    for _ in range(rounds):
        optimizer.zero_grad()
        _, q = rollout(torch.cat([start[:7], throw, start[13:]]))
        distance = q[-1, 0] - mark
        (distance * distance).backward()
        optimizer.step()
        paths.append(q.detach().numpy())
        missing.append(abs(float(distance.detach())))
    for path, color, width in ((paths[0], ORANGE, 1.6), *((each, FAINT, 0.8) for each in paths[2::2]), (paths[-1], BLUE, 2.2)):
        left.plot(path[:, 0], path[:, 2], color=color, lw=width)
    levels(left, 0.0, color=INK, lw=1.0)
    left.plot([mark], [0.1], "o", color=GREEN, ms=9)
    for text, place, color in (("first", paths[0][-1, [0, 2]], ORANGE), ("mark", (mark, 0.1), GREEN)):
        left.annotate(text, place, color=color, xytext=(0, 9), textcoords="offset points", ha="center")
    labelled(left, "paths of the centre, 150 ticks of 4 ms", "x (m)", "z (m)")
    right.semilogy(missing, color=BLUE, lw=1.8)
    labelled(right, "distance from the mark", "round", "m")
