"""ANYmal on flat ground, the same in Condyle and in MuJoCo: where it stands, and states and controls that both are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import condyle as cd
from benchmarks.robots import FILES, SAME, example_robots
from condyle.errors import CondyleError
from condyle.robot.conventions import q_to_mujoco, v_from_mujoco, v_to_mujoco
from condyle.workbench.compare.to_mujoco import mujoco_compiled, mujoco_spec

FEET, FRICTION, DT = "*_SHANK_sphere2", 0.8, 0.002
POSE = np.tile([0.0, 0.4, -0.8, 0.0, -0.4, 0.8], 2)  # left front, left hind, right front, right hind: knees inward
HEIGHT = 0.498  # of the base, m: the feet just above the ground, because one that starts below stays there
KP, KD, EFFORT = 200.0, 4.0, 80.0
SETTLE = 1000  # steps until it stands

States = tuple[np.ndarray, np.ndarray]  # (x, u), one row per robot


def anymal() -> cd.Robot | None:
    """The robot of example-robot-data on a free base; None where that is not installed."""
    folder = example_robots()
    file, base, _ = FILES["anymal"]
    return None if folder is None else cd.load(str(folder / file), base)


def simulation(robot: cd.Robot, **options: Any) -> cd.Simulation:
    """The robot on a plane that its four feet can touch."""
    return cd.Simulation(robot, DT, cd.Plane(friction=FRICTION), FEET, **options)


def servo(q: np.ndarray, v: np.ndarray, target: np.ndarray = POSE) -> np.ndarray:
    """The torques that hold a pose, within the motors' effort: q and v of the joints."""
    return np.clip(KP * (target - q) - KD * v, -EFFORT, EFFORT)


def servo_force(model: Any, q: Any, v: Any) -> Any:
    """The same inside the step, without the bounds."""
    return np.concatenate([np.zeros(6), KP * (POSE - q[7:]) - KD * v[6:]])


# ---- in MuJoCo


def twin(world: cd.Simulation, *, servos: bool = False, elliptic: bool = False) -> Any:
    """mujoco.MjModel of the same robot; see `twin_spec`."""
    return mujoco_compiled(twin_spec(world, servos=servos, elliptic=elliptic))


def twin_spec(world: cd.Simulation, *, servos: bool = False, elliptic: bool = False) -> Any:
    """mujoco.MjSpec of the same robot: the feet and the plane collide, all else of the solver is MuJoCo's default.

    `servos`: motors that hold the pose by themselves, in place of motors that are given torques.
    """
    import mujoco

    model = world.robot.model
    spec = mujoco_spec(model)
    spec.compiler.degree = False
    spec.option.timestep = world.dt
    if elliptic:
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=[FRICTION, 0.005, 0.0001])
    for point in world.contact_points:
        # massless shapes: bodies have their inertia already
        spec.body(model.links[point.link].name).add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[point.radius, 0, 0],
            pos=point.position,
            friction=[FRICTION, 0.005, 0.0001],
            mass=0.0,
        )
    for link in model.links[1:]:
        joint = spec.joint(link.joint)
        if world.joint_forces[link.v.start].lower is not None:
            joint.limited, joint.range = True, [link.limits.lower, link.limits.upper]
        motor = spec.add_actuator(name=link.joint, target=link.joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if servos:
            motor.set_to_position(kp=KP, kv=KD)
    return spec


def check_twin(world: cd.Simulation, other: Any) -> float:
    """The largest difference of the mass matrices over the largest entry, over random states; more than rounding is an error."""
    import mujoco

    robot, data, worst = world.robot, mujoco.MjData(other), 0.0
    for q in robot.random_configuration(np.random.default_rng(2), 16):
        data.qpos = q_to_mujoco(robot.model, q)
        mujoco.mj_forward(other, data)
        theirs = np.zeros((robot.nv, robot.nv))
        mujoco.mj_fullM(other, data, theirs)
        turn = v_to_mujoco(robot.model, q, np.eye(robot.nv)).T
        ours = robot.mass_matrix(q)
        worst = max(worst, float(np.abs(turn.T @ theirs @ turn - ours).max() / np.abs(ours).max()))
    if not worst < SAME:
        raise CondyleError(f"the mass matrices differ by {worst:.1e} of the largest entry: not the same robot")
    return worst


def mujoco_states(world: cd.Simulation, other: Any, x: np.ndarray) -> np.ndarray:
    """MuJoCo's full physics states of ours, (robots, nstate)."""
    import mujoco

    q, v = world.split(np.atleast_2d(x))
    model = world.robot.model
    time = np.zeros((len(q), 1))
    states = np.concatenate([time, q_to_mujoco(model, q), v_to_mujoco(model, q, v)], axis=1)
    assert states.shape[1] == mujoco.mj_stateSize(other, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    return states


# ---- where it stands


@dataclass(frozen=True)
class Stance:
    """A robot at rest: its state in our layout, the torques that hold it, how fast it still moves, and the force below it."""

    x: np.ndarray
    u: np.ndarray
    speed: float
    force: float


def start(world: cd.Simulation) -> np.ndarray:
    """The pose, the feet just above the ground."""
    q = world.robot.neutral()
    q[2], q[7:] = HEIGHT, POSE
    return world.state(q)


def settled(world: cd.Simulation, steps: int = SETTLE) -> Stance:
    """Where ours comes to rest."""
    x = start(world)
    for _ in range(steps):
        x = world.step(x, servo(x[7:19], x[25:]))
    u = servo(x[7:19], x[25:])
    return Stance(x, u, float(np.abs(x[19:]).max()), float(world.contact_forces(x, u)[:, 2].sum()))


def settled_mujoco(world: cd.Simulation, other: Any, steps: int = SETTLE) -> tuple[Stance, Any]:
    """(where MuJoCo's comes to rest, its MjData there)."""
    import mujoco

    model, data = world.robot.model, mujoco.MjData(other)
    data.qpos = q_to_mujoco(model, start(world)[: model.nq])
    for _ in range(steps):
        data.ctrl = servo(data.qpos[7:], data.qvel[6:])
        mujoco.mj_step(other, data)
    mujoco.mj_forward(other, data)
    force, total = np.zeros(6), 0.0
    for k in range(data.ncon):
        mujoco.mj_contactForce(other, data, k, force)
        total += force[0]
    q = data.qpos[[0, 1, 2, 4, 5, 6, 3, *range(7, model.nq)]]
    v = v_from_mujoco(model, q, data.qvel)
    return Stance(world.state(q, v), np.array(data.ctrl), float(np.abs(data.qvel).max()), total), data


# ---- states and controls for both


def nearby(stance: Stance, count: int) -> States:
    """States that differ a little from the one at rest: the feet stay on the ground."""
    rng = np.random.default_rng(0)
    x = np.tile(stance.x, (count, 1))
    x[:, 7:19] += 1e-4 * rng.normal(size=(count, 12))
    x[:, 19:] += 1e-3 * rng.normal(size=(count, 18))
    return x, servo(x[:, 7:19], x[:, 25:])


def moving(world: cd.Simulation, stance: Stance, count: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first states, controls (count, steps, nu), all states) of robots that tread: diagonal legs are lifted in turn.

    Phase, speed and size of the steps are random, and so are the velocities at the start; the controls are recorded, so that
    others can be given the same ones.
    """
    rng = np.random.default_rng(1)
    x = np.tile(stance.x, (count, 1))
    x[:, 19:] += rng.normal(size=(count, 18)) * np.repeat([0.3, 0.3, 1.0], [3, 3, 12])
    phase, rate = rng.uniform(0.0, 2.0 * np.pi, (count, 1)), rng.uniform(10.0, 20.0, (count, 1))
    size = rng.uniform(0.1, 0.4, (count, 1))
    diagonal = np.repeat([1.0, -1.0, -1.0, 1.0], 3)
    bend = np.sign(POSE) * np.tile([0.0, 1.0, 2.0], 4)
    xs, us = np.empty((count, steps + 1, world.nx)), np.empty((count, steps, world.nu))
    xs[:, 0] = x
    for k in range(steps):
        lift = np.maximum(np.sin(phase + rate * k * world.dt) * diagonal, 0.0)
        us[:, k] = servo(xs[:, k, 7:19], xs[:, k, 25:], POSE + size * lift * bend)
        xs[:, k + 1] = world.step(xs[:, k], us[:, k])
    return x, us, xs
