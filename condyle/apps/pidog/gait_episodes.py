"""PiDog walks under a policy in randomised episodes: in Condyle's kernel, or in MuJoCo, recorded for the metrics of its gait.

    for recording in episodes(file, Trial(1000, commands=((0.21, 0.0),))):
        gait(recording).lift

Every episode is a dog of its own: mass, friction, servos, IMU, slope and pushes as `training_robot.py` draws them, the
same dogs in both engines. A dog that falls starts again, so that it costs no time; its episode counts as a fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog import training_robot as dog
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.metrics import GaitMetrics, contact_velocities, gait_metrics
from condyle.apps.pidog.twin import Dogs
from condyle.closed_loop.episode import Episode
from condyle.closed_loop.loop import Loop
from condyle.closed_loop.tick import current_tick
from condyle.errors import ControlError
from condyle.methods.learn.env_arrays import TensorArrays, on_host
from condyle.methods.learn.policy_file import PolicyFile
from condyle.robot.library.pidog import FOOT_RADIUS

Array = np.ndarray

RECORD_EVERY = 4  # ticks between two rows of a recording
BLOCK, DEVICE_BLOCK = 128, 1024  # episodes that are simulated and measured together, so that recordings stay small; on a device
LOWEST, UPRIGHT = 0.055, 0.5  # m of the torso's origin, cosine of its tilt: below either it has fallen
SETTLING = 1.0  # s at the start that count for falls and heading only
ENGINES = ("condyle", "mujoco")


@dataclass(frozen=True)
class Trial:
    """What is asked of a policy: so many episodes of so many seconds; each has one of the commands (m/s, rad/s), in turn."""

    count: int = 1000
    seconds: float = 20.0
    seed: int = 0
    commands: tuple[tuple[float, float], ...] = ((0.21, 0.0),)
    randomize: bool = True

    def __post_init__(self) -> None:
        if self.count < 1 or not 2.0 * SETTLING <= self.seconds <= 600.0:
            raise ControlError(
                f"a trial has at least one episode of {2.0 * SETTLING:g} to 600 s, got {self.count} of {self.seconds:g} s"
            )
        if not self.commands or not np.all(np.isfinite(self.commands)):
            raise ControlError(f"a trial needs commands (m/s, rad/s) that are finite, got {self.commands!r:.60}")

    @property
    def ticks(self) -> int:
        """Ticks of an episode, whole frames."""
        return dog.EVERY * RECORD_EVERY * max(round(self.seconds / (dog.DT * dog.EVERY * RECORD_EVERY)), 1)

    def command_of(self, episodes: Array) -> Array:
        """(speed, turn) of these episodes, (n, 2)."""
        commands: Array = np.array(self.commands, dtype=float)[episodes % len(self.commands)]
        return commands

    def starts(self, numbers: Mapping[str, Any]) -> tuple[Array, Array]:
        """(q, phase of the controller's clock) of all episodes, (count, nq) and (count,): standing somewhere on the ground."""
        q, phase = np.repeat(dog.standing(numbers)[None], self.count, axis=0), np.zeros(self.count)
        if self.randomize:
            drawn = np.random.default_rng([self.seed, 1]).uniform(size=(self.count, 3))
            q[:, :2], phase = 2.0 * drawn[:, :2] - 1.0, drawn[:, 2]
            q[:, 2] += dog.rough(q[:, 0], q[:, 1]) + 0.003
        return q, phase

    def parameters(self) -> dict[str, Array]:
        """Of all episodes: what is random, and the commands."""
        commands = self.command_of(np.arange(self.count))
        drawn = dog.randomized(np.random.default_rng(self.seed), self.count) if self.randomize else {}
        return {**drawn, "command.speed": commands[:, 0], "command.turn": commands[:, 1]}


@dataclass(frozen=True)
class Recording:
    """Rows `dt` seconds apart of some episodes: q, v, normal forces on the feet, torques, actions, each (episodes, rows, ...)."""

    dt: float
    q: Array
    v: Array
    forces: Array
    torques: Array
    actions: Array
    fell: Array  # (episodes,)
    commands: Array  # (episodes, 2)
    mass: Array  # (episodes,)
    rough: bool


def episodes(
    file: PolicyFile, trial: Trial, engine: str = "condyle", block: int | None = None, device: str | None = None
) -> Iterator[Recording]:
    """Recordings of all episodes, `block` of them at a time. `device`: "cuda" simulates them on a GPU, to the same bits."""
    if engine not in ENGINES:
        raise ControlError(f"an engine is one of {', '.join(ENGINES)}; got {engine!r:.40}")
    if device is not None and engine != "condyle":
        raise ControlError(f"the engine '{engine}' runs on the processor only: leave the device out")
    block = block or (BLOCK if device is None else DEVICE_BLOCK)
    check_policy(file)
    drawn, (q, phase) = trial.parameters(), trial.starts(file.controller)
    run = _Kernel(file, trial, device) if engine == "condyle" else _Twin(file, trial)
    for start in range(0, trial.count, block):
        chosen = np.arange(start, min(start + block, trial.count))
        signals, fell = run(chosen, q[chosen], phase[chosen], {name: value[chosen] for name, value in drawn.items()})
        mass = total_mass({name: value[chosen] for name, value in drawn.items()}, len(chosen))
        command = trial.command_of(chosen)
        yield Recording(dog.DT * RECORD_EVERY, **signals, fell=fell, commands=command, mass=mass, rough=trial.randomize)


def check_policy(file: PolicyFile) -> None:
    """A ControlError unless the policy is one of PiDog's walking controller."""
    file.require_robot("pidog")
    file.require_observation(sum(size for _, size in controller.OBSERVATION))
    if tuple(file.action) != tuple(controller.ACTION):
        raise ControlError(
            f"this policy gives {len(file.action)} actions ({', '.join(file.action):.60}), and PiDog's walking controller takes "
            f"{len(controller.ACTION)} ({', '.join(controller.ACTION):.60}): give a policy of one of its walking tasks"
        )
    unknown = [name for name in controller.NUMBERS if name not in file.controller]
    if unknown:
        raise ControlError(f"the policy's controller lacks the number '{unknown[0]}': train it again with this version")


# ---- in the kernel


def has_fallen(x: Any) -> Any:
    """Whether the torso of a state of the loop is low, or tilted by more than 60 degrees."""
    return (x.q[2] < LOWEST) | (1.0 - 2.0 * (x.q[3] * x.q[3] + x.q[4] * x.q[4]) < UPRIGHT)


class _Kernel:
    """Episodes with the policy inside of the loop, in one kernel."""

    def __init__(self, file: PolicyFile, trial: Trial, device: str | None) -> None:
        self.trial, self.loop = trial, closed_loop(file, randomize=trial.randomize)
        self.tensors = None if device is None else TensorArrays(np.float32, device)
        block = self.loop.plan.blocks["policy"]
        # given with the call, so that another policy of the same size does not compile
        self.policy: dict[str, Any] = {p.name: p.default for p in block.parameters.values()}
        self.policy |= {w.name: w.default for w in block.tables.values()}

    def __call__(self, chosen: Array, q: Array, phase: Array, parameters: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
        x0 = self.loop.state(q, **{"controller.phase": phase[:, None]}).astype(np.float32)
        x0 = x0 if self.tensors is None else self.tensors.rows(x0)
        options: dict[str, Any] = {"every": RECORD_EVERY, "freeze": True, "seed": self.trial.seed, "robots": chosen}
        options["record"] = ["q", "v", "contact_forces", "servo.torque", "policy.output"]
        out = self.loop.rollout(x0, None, self.trial.ticks, parameters={**parameters, **self.policy}, **options)
        again = on_host(out.x[:, self.loop.layout["episode.count"][0].start] > 0.0)
        signals = {"q": out["q"], "v": out["v"], "forces": out["contact_forces"][..., 2]}
        signals |= {"torques": out["servo.torque"], "actions": out["policy.output"]}
        return {name: on_host(value) for name, value in signals.items()}, again | ~np.asarray(on_host(out.status.ok))


class _Twin:
    """Episodes in MuJoCo."""

    def __init__(self, file: PolicyFile, trial: Trial) -> None:
        ground = None if trial.randomize else dog.flat()
        self.file, self.trial, self.loop = file, trial, dog.dog_loop(dog.world(ground), numbers=file.controller)

    def __call__(self, chosen: Array, q: Array, phase: Array, parameters: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
        dogs = Dogs(self.file, self.loop, q, phase, parameters, seed=self.trial.seed + int(chosen[0]))
        rows: dict[str, list[Array]] = {name: [] for name in ("q", "v", "forces", "torques", "actions")}
        fell = np.zeros(len(chosen), dtype=bool)
        world = dogs.world
        for tick in range(self.trial.ticks):
            dogs.step()
            upright = 1.0 - 2.0 * (world.q[:, 3] ** 2 + world.q[:, 4] ** 2)
            fell |= (world.q[:, 2] < LOWEST) | (upright < UPRIGHT)
            if tick % RECORD_EVERY == RECORD_EVERY - 1:
                for name, value in zip(rows, (world.q, world.v, world.point_forces, world.torques, dogs.action), strict=True):
                    rows[name].append(np.array(value, dtype=np.float32))
        return {name: np.stack(values, axis=1) for name, values in rows.items()}, fell


def closed_loop(file: PolicyFile, *, randomize: bool = True) -> Loop:
    """The dog's loop with the policy inside; a dog that has fallen starts again."""
    inner = dog.dog_loop(dog.world(None if randomize else dog.flat()), numbers=file.controller)
    policy = file.policy.block(every=dog.EVERY, name="policy")
    seen, standing = inner.plan.blocks["controller"].states["seen"], dog.standing(file.controller)

    def closed(x: Any) -> Any:
        tick = current_tick()
        assert tick is not None
        # what the controller has seen in the last frame
        return inner.function(x, policy(tick.state("controller.seen", seen)))

    return Loop(inner.world, closed, episode=Episode(terminated=has_fallen, reset=lambda draw: {"q": standing}))


def total_mass(parameters: Mapping[str, Array], count: int) -> Array:
    """The mass of each dog, kg."""
    robot = dog.robot()
    torso = float(robot.parameter("torso.mass"))
    return np.broadcast_to(robot.mass - torso + np.asarray(parameters.get("torso.mass", torso)), (count,))


# ---- metrics


def gait(recording: Recording, device: str | None = None) -> GaitMetrics:
    """The metrics of each episode after its first SETTLING seconds; `device`: where kinematics are computed."""
    robot, begin = dog.robot(), round(SETTLING / recording.dt)
    q, v = (np.ascontiguousarray(each[:, begin:], dtype=np.float64) for each in (recording.q, recording.v))
    q_there, v_there = (each if device is None else TensorArrays(np.float64, device).moved(each) for each in (q, v))
    motions = [on_host(robot.frame_velocity(q_there, v_there, name)) for name in FEET]
    feet = np.stack([on_host(robot.frame_pose(q_there, name)[1]) for name in FEET], axis=-2)
    sliding = np.stack([contact_velocities(m[..., :3], m[..., 3:], FOOT_RADIUS) for m in motions], axis=-2)
    forces = np.zeros((*recording.forces[:, begin:].shape, 3))
    forces[..., 2] = recording.forces[:, begin:]
    return gait_metrics(
        recording.dt,
        feet,
        forces,
        q[..., :3],
        on_host(robot.frame_pose(q_there, "torso")[0]),
        mass=recording.mass,
        slip_velocities=sliding,
        torques=recording.torques[:, begin:],
        joint_velocities=v[..., 6:],
        ground_height=dog.rough(feet[..., 0], feet[..., 1]) if recording.rough else 0.0,
        foot_radius=FOOT_RADIUS,
    )
