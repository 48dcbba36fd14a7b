"""The cases of benchmarks/gpu_bits.py: robots at random states, in contact, in closed loops, differentiated and under MPC."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import condyle as cd
from benchmarks.closed_loop import dog_loop, start, varied
from benchmarks.mpc import Birotor
from benchmarks.robots import FILES, example_robots
from benchmarks.standing import HEIGHT, POSE, servo, simulation
from condyle.apps.demos import wheeled_pendulum
from condyle.errors import RobotError

STATES, ROBOTS, TICKS, GRADIENT_TICKS = 256, 256, 1000, 20

Case = Callable[[type], object]  # the call in a precision


@cache
def published(name: str) -> cd.Robot:
    """Panda, ANYmal or Talos of the package example-robot-data."""
    folder = example_robots()
    if folder is None:
        raise RobotError(f"{name} is a robot of example-robot-data, which is not installed: pip install 'condyle[peers]'")
    file, base, locked = FILES[name]
    robot = cd.load(str(folder / file), base)
    return robot.lock([joint for joint in robot.joint_names if joint.startswith(locked)]) if locked else robot


def rng() -> np.random.Generator:
    """The same numbers for every case."""
    return np.random.default_rng(0)


# ---- robots and steps


def dynamics(name: str, what: str) -> Case:
    """A function of a robot at random states."""
    robot = published(name) if name in FILES else cd.load(name)
    draw = rng()
    arrays = [robot.random_configuration(draw, STATES), *draw.normal(size=(2, STATES, robot.nv))]
    return lambda dtype: getattr(robot, what)(*[a.astype(dtype) for a in arrays])


def anymal_steps(derivatives: bool = False) -> Case:
    """ANYmal a little above and below the height at which its feet touch, held by its motors."""
    world, draw = simulation(published("anymal")), rng()
    q = np.tile(np.concatenate([[0.0, 0.0, HEIGHT, 0.0, 0.0, 0.0, 1.0], POSE]), (STATES, 1))
    q[:, 2] += draw.uniform(-0.01, 0.01, STATES)
    v = 0.1 * draw.normal(size=(STATES, world.robot.nv))
    x, u = world.state(q, v), servo(q[:, 7:], v[:, 6:])
    return lambda dtype: world.step(x.astype(dtype), u.astype(dtype), derivatives=derivatives, freeze=True)


def pidog_steps(steps: int, derivatives: bool = False) -> Case:
    """PiDog around its stance."""
    world, draw = cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(0.5), "*_foot"), rng()
    x = np.tile(world.stand(), (STATES, 1))
    x[:, 2] += draw.uniform(-1e-3, 1e-3, STATES)
    x[:, world.robot.nq :] += 0.05 * draw.normal(size=(STATES, world.robot.nv))
    us = 0.05 * draw.normal(size=(STATES, steps, world.nu))
    return lambda dtype: world.rollout(x.astype(dtype), us.astype(dtype), derivatives=derivatives, freeze=True)


# ---- numbers that are not numbers


def comparisons() -> Case:
    """Comparisons, extremes and selections of absolute values, roots and NaN, which a compiler may take to be never negative."""

    def compared(a: Any, b: Any) -> dict[str, Any]:
        conditions = {
            "abs": abs(a) >= 0.0, "above": abs(a) > -1.0, "finite": abs(a) <= np.inf, "both": abs(a) >= -abs(b),
            "largest": np.maximum(abs(a), abs(b)) >= 0.0, "square": a * a >= 0.0, "root": np.sqrt(abs(a)) >= 0.0,
            "sum": abs(a) + abs(b) >= 0.0, "clipped": np.minimum(np.maximum(a, -1.0), 1.0) <= 1.5, "same": a == a,
            "below": abs(a) < 0.0, "nan": np.isnan(a),
        }  # fmt: skip
        return {name: cd.where(condition, 1.0, 0.0) for name, condition in conditions.items()} | {"most": np.maximum(a, b)}

    values = [np.nan, -np.nan, 0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, 1e-40, -1e-40]
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    function = cd.function(compared, a=(), b=())
    return lambda dtype: function(a.astype(dtype), b.astype(dtype))


# ---- closed loops


def rolled(loop: cd.Loop, x: np.ndarray, references: Any, parameters: dict[str, Any], dtype: type) -> object:
    """A rollout in which robots that fail stay as they are."""
    references = None if references is None else np.asarray(references, dtype)
    return loop.rollout(x.astype(dtype), references, TICKS, seed=5, parameters=parameters, every=TICKS // 10, freeze=True)


def pidog_loop() -> Case:
    """PiDog under a policy, with noise, delays and parameters of each robot; some start with impossible states."""
    loop = dog_loop()
    x, draw = start(loop, ROBOTS), rng()
    x[:, 2] += draw.uniform(0.0, 0.05, ROBOTS)
    x[::17, loop.nq] = np.nan
    x[5::31, loop.nq + 3] = 1e12
    return partial(rolled, loop, x, [0.2, 0.0, 0.1], varied(ROBOTS, draw))


def pendulum_loop() -> cd.Loop:
    """The wheeled pendulum with noise, in episodes: one that falls over starts again."""
    sensor = cd.blocks.Measurement(2, noise=0.02, name="sensor")

    def control(x: Any) -> Any:
        measured = sensor(x.q)["value"]
        gain = wheeled_pendulum.GAIN
        return {"u": [-(gain[0] * measured[0] + gain[1] * measured[1] + gain[2] * x.v[0] + gain[3] * x.v[1])]}

    episode = cd.Episode(
        terminated=lambda x: (x.q[1] > 0.6) | (x.q[1] < -0.6),
        time_limit=0.7,
        reset=lambda draw: {"q": draw.uniform(-0.3, 0.3, 2)},
    )
    return cd.Loop(wheeled_pendulum.world(), control, episode=episode)


def pendulum_rollout() -> Case:
    """Pendulums that lean, some beyond what the motor can balance."""
    loop, draw = pendulum_loop(), rng()
    x = loop.state(draw.uniform(-0.8, 0.8, (ROBOTS, 2)))
    return partial(rolled, loop, x, None, {"sensor.noise": draw.uniform(0.0, 0.05, ROBOTS)})


def birotor_rollout() -> Case:
    """Birotors in turbulence."""
    vehicle, draw = cd.flight.Vehicle("birotor", wind=cd.flight.Dryden(4.0)), rng()
    loop = vehicle.loop()
    x = np.tile(loop.state(vehicle.configuration()), (ROBOTS, 1))
    x[:, loop.nq : loop.nq + loop.nv] += 0.1 * draw.normal(size=(ROBOTS, loop.nv))
    return partial(rolled, loop, x, vehicle.hover, {})


# ---- gradients


def gradient(loop: cd.Loop, x: np.ndarray, references: Any, dtype: type) -> object:
    """The gradient of a weighted sum of final states."""
    weights = rng().normal(size=x.shape).astype(dtype)
    references = None if references is None else np.asarray(references, dtype)
    rollout, pullback = loop.vjp(x.astype(dtype), references, GRADIENT_TICKS, seed=5, checkpoint=5)
    return rollout, pullback(x1=weights)


def panda_gradient() -> Case:
    """Panda under a PD controller."""
    robot, draw = published("panda"), rng()
    loop = cd.Loop(cd.Simulation(robot, 0.001), lambda x, target: 50.0 * (target - x.q) - 5.0 * x.v, target=robot.nv)
    x = loop.state(robot.random_configuration(draw, STATES), draw.normal(size=(STATES, robot.nv)))
    return partial(gradient, loop, x, draw.normal(size=(STATES, GRADIENT_TICKS, robot.nv)))


def pidog_gradient() -> Case:
    """PiDog in contact, under the policy."""
    loop = dog_loop()
    x, draw = start(loop, STATES), rng()
    x[:, 2] -= draw.uniform(0.0, 0.01, STATES)
    return partial(gradient, loop, x, draw.normal(size=(STATES, GRADIENT_TICKS, 3)))


def pendulum_gradient() -> Case:
    """The wheeled pendulum with noise."""
    loop = pendulum_loop()
    return partial(gradient, loop, loop.state(rng().uniform(-0.5, 0.5, (STATES, 2))), None)


# ---- MPC


def birotor_mpc() -> Case:
    """The published controller of the birotor: two real-time iterations from states around the reference."""
    m, draw = Birotor(), rng()
    solver = m.problem.rti()
    x = np.tile(np.eye(15)[6], (STATES, 1))
    x[:, :3] += 0.2 * draw.normal(size=(STATES, 3))
    reference = m.references[: m.problem.N + 1]

    def solve(dtype: type) -> object:
        states = x.astype(dtype)
        plan = {name: a.astype(dtype) for name, a in solver.start(states).items()}
        for _ in range(2):
            plan = solver.solution(solver.function(states, *plan.values(), reference=reference.astype(dtype))).plan
        return plan

    return solve


def cart_pole(x: Any, u: Any) -> Any:
    """dx/dt of a pole of 0.8 m and 0.1 kg on a cart of 1 kg."""
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    free = 1.1 - 0.1 * c * c
    a = (-0.08 * s * w * w + 0.981 * c * s + u[0]) / free
    return np.array([x[2], w, a, (-0.08 * c * s * w * w + u[0] * c + 1.1 * 9.81 * s) / (0.8 * free)])


def cart_pole_sqp() -> Case:
    """A pole near the top, by sequential quadratic programming to its end."""
    problem = cd.ocp(
        cart_pole,
        N=10,
        dt=0.05,
        x=4,
        u=1,
        residual=lambda x, u: np.concatenate([x, u]),
        weights=[20.0, 20.0, 0.1, 0.1, 0.02],
        bounds={"u": 8.0},
    )
    solver, x = problem.sqp(iterations=10, tolerance=1e-4), 0.3 * rng().normal(size=(STATES, 4))

    def solve(dtype: type) -> object:
        plan = {name: a.astype(dtype) for name, a in solver.start(x).items()}
        return solver.function(x.astype(dtype), *plan.values())

    return solve


TINY = {"forward dynamics, double pendulum": lambda: dynamics("double_pendulum", "forward_dynamics")}
CASES: dict[str, Callable[[], Case]] = {
    **{f"forward dynamics, {n}": partial(dynamics, n, "forward_dynamics") for n in (*FILES, "pidog")},
    **{f"derivatives, {n}": partial(dynamics, n, "forward_dynamics_derivatives") for n in ("panda", "anymal", "pidog")},
    "comparisons": comparisons,
    "contact step, anymal": anymal_steps,
    "contact steps, pidog": partial(pidog_steps, 10),
    "closed loop, pidog": pidog_loop,
    "closed loop, wheeled pendulum": pendulum_rollout,
    "closed loop, birotor": birotor_rollout,
    "gradient of a loop, panda": panda_gradient,
    "gradient of a loop, wheeled pendulum": pendulum_gradient,
    "mpc, birotor": birotor_mpc,
    "mpc, cart-pole": cart_pole_sqp,
    # those whose code is long come last: a driver may need minutes for it
    "contact step with derivatives, pidog": partial(pidog_steps, 1, True),
    "gradient of a loop, pidog": pidog_gradient,
    "derivatives, talos": partial(dynamics, "talos", "forward_dynamics_derivatives"),
}
