"""Robots of a simulation in MuJoCo: the same links, feet, ground and drives of joints, each robot with its own numbers.

Settings that stay stable and slide little: steps of at most 0.5 ms, the integrator implicitfast, elliptic friction cones with
impratio 10, and contacts with solref (0.002, 5) and solimp (0.95, 0.99, 0.001). Condyle's contact is inelastic: at MuJoCo's usual
damping ratio of 1 a foot rebounds with 15 % of its velocity, at 5 with 1 %. Each contact point has a plane of its own, which
is moved under it once a tick: the tangent plane of the ground where the point is, so that rough ground is the same in both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from condyle.errors import require
from condyle.robot.conventions import q_from_mujoco, q_to_mujoco, rotate, v_from_mujoco, v_to_mujoco
from condyle.simulate.parameters import parameterized
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import FEW, Heights
from condyle.simulate.world import World
from condyle.workbench.compare.to_mujoco import mujoco_compiled, mujoco_spec

Array = np.ndarray

LONGEST_STEP = 0.0005  # s
SOLREF, SOLIMP, IMPRATIO = (0.002, 5.0), (0.95, 0.99, 0.001, 0.5, 2.0), 10.0
SMALLEST = 1e-4  # m: the radius of a contact point that has none


class MujocoWorld:
    """As many robots as `parameters` have rows, in MuJoCo: `q` and `v` are theirs in our coordinates.

    `joints`: names of the joints that have a drive. `parameters`: {name: value, or one value for each robot} of the simulation.
    """

    def __init__(
        self,
        simulation: Simulation,
        joints: Sequence[str],
        count: int,
        parameters: Mapping[str, Array] | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        self.mujoco = require("mujoco", "mjcf", "the twin of a robot in MuJoCo")
        self.rollouts = require("mujoco.rollout", "mjcf", "the twin of a robot in MuJoCo")
        self.model, self.count, self.dt = simulation.robot.model, count, simulation.dt
        self.joints, self.steps = tuple(joints), ceil(simulation.dt / LONGEST_STEP - 1e-9)
        world = simulation.world
        given = {name: np.asarray(value, dtype=float) for name, value in (parameters or {}).items()}
        self.worlds = [
            parameterized(world, {name: _of_robot(value, k, count) for name, value in given.items()}) for k in range(count)
        ]
        self.models = [self._model(each) for each in self.worlds]
        self.drives = [(each.actuator_biasprm, each.actuator_forcerange) for each in self.models]
        wanted = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = min(threads or wanted, count)
        self.data = [self.mujoco.MjData(self.models[0]) for _ in range(self.threads)]
        self.pool = self.rollouts.Rollout(nthread=self.threads)
        states = self.mujoco.mjtState
        self.inputs = int(states.mjSTATE_XFRC_APPLIED | states.mjSTATE_MOCAP_POS | states.mjSTATE_MOCAP_QUAT)
        self.points = len(world.points)
        self.same_ground = all(not name.startswith("ground.") or name == "ground.friction" for name in given)
        self.rough = any(isinstance(each.ground, Heights) for each in self.worlds)
        self.sensors = np.zeros((count, self.models[0].nsensordata))
        self.place(np.repeat(simulation.robot.neutral()[None], count, axis=0), np.zeros((count, self.model.nv)))

    def place(self, q: Array, v: Array) -> None:
        """Put the robots at configurations (count, nq) with velocities (count, nv), ours."""
        self.q, self.v = np.array(q, dtype=float), np.array(v, dtype=float)
        if self.points:
            self.planes = self.planes_at(self._point_positions())

    def step(self, drives: Mapping[str, Array], wrenches: Array | None = None) -> None:
        """One tick of all robots under drives that are held: stiffness, damping, target, force, effort, each (count, joints).

        `wrenches`: (count, 6), force then torque on the base at its origin, world axes.
        """
        K, B = drives["stiffness"], drives["damping"]
        bias = np.stack([K * drives["target"] + drives["force"], -K, -B], axis=-1)
        effort = np.stack([-drives["effort"], drives["effort"]], axis=-1)
        for (law, bound), now, most in zip(self.drives, bias, effort, strict=True):
            law[:, :3], bound[:] = now, most
        if self.rough:
            self.planes = self.planes_at(self.point_positions)
        control = self._inputs(wrenches)
        time = np.zeros((self.count, 1))
        state = np.concatenate([time, q_to_mujoco(self.model, self.q), v_to_mujoco(self.model, self.q, self.v)], axis=1)
        states, sensors = self.pool.rollout(
            self.models, self.data, state, control[:, None], control_spec=self.inputs, nstep=self.steps
        )
        last, nq = states[:, -1], self.model.nq
        self.q = q_from_mujoco(self.model, last[:, 1 : 1 + nq])
        self.v = v_from_mujoco(self.model, self.q, last[:, 1 + nq :])
        self.sensors = sensors[:, -1]

    # ---- measured in the last step

    @property
    def point_positions(self) -> Array:
        """Where the contact points are, m, (count, points, 3)."""
        return self.sensors[:, : 3 * self.points].reshape(self.count, self.points, 3)

    @property
    def point_forces(self) -> Array:
        """The normal force on each contact point, N, (count, points)."""
        return self.sensors[:, 3 * self.points : 4 * self.points]

    @property
    def torques(self) -> Array:
        """The torque of each drive, N m, (count, joints)."""
        return self.sensors[:, 4 * self.points :]

    # ---- inside

    def planes_at(self, positions: Array) -> tuple[Array, Array]:
        """(positions, quaternions w x y z) of the tangent planes of the ground under points: (count, points, 3) and (..., 4)."""
        shape = positions.shape[:2]
        distance, normal = np.zeros(shape), np.zeros((*shape, 3))
        # one call where all robots have the same ground
        for rows in [slice(None)] if self.same_ground else [slice(k, k + 1) for k in range(self.count)]:
            ground = self.worlds[rows.start or 0].ground
            assert ground is not None
            points = positions[rows].reshape(-1, 3)
            # so many points that the terrain's function is compiled
            d, n = ground.distance(np.resize(points, (max(len(points), FEW + 1), 3)).T)
            d, n = (np.asarray(d, dtype=float), [np.asarray(each, dtype=float) for each in n])
            distance[rows] = d[: len(points)].reshape(-1, shape[1])
            for axis, each in enumerate(n):
                normal[rows, :, axis] = each if each.ndim == 0 else each[: len(points)].reshape(-1, shape[1])
        # the shortest rotation that takes z to the normal
        w = np.sqrt(0.5 * (1.0 + normal[..., 2]))
        turn = np.stack([w, -normal[..., 1] / (2.0 * w), normal[..., 0] / (2.0 * w), np.zeros(shape)], axis=-1)
        return positions - distance[..., None] * normal, turn

    def _inputs(self, wrenches: Array | None) -> Array:
        """Wrenches on bodies and poses of planes, in the order of MuJoCo's state."""
        applied = np.zeros((self.count, self.models[0].nbody, 6))
        if wrenches is not None:
            # MuJoCo applies it at the centre of mass
            com = np.array([np.asarray(world.model.links[0].inertia.com, dtype=float) for world in self.worlds])
            torque = wrenches[:, 3:] - np.cross(rotate(self.q[:, 3:7], com), wrenches[:, :3])
            base = self.models[0].body(self.model.links[0].name).id
            applied[:, base] = np.concatenate([wrenches[:, :3], torque], axis=1)
        parts = [applied.reshape(self.count, -1)]
        if self.points:
            parts += [each.reshape(self.count, -1) for each in self.planes]
        return np.concatenate(parts, axis=1)

    def _point_positions(self) -> Array:
        """Where the contact points are, by the kinematics of our model."""
        data, found = self.data[0], np.zeros((self.count, self.points, 3))
        places = q_to_mujoco(self.model, self.q)
        for k, model in enumerate(self.models):
            data.qpos[:] = places[k]
            self.mujoco.mj_kinematics(model, data)
            found[k] = [data.geom(f"point {n}").xpos for n in range(self.points)]
        return found

    def _model(self, world: World) -> Any:
        """mujoco.MjModel of one robot with its own numbers."""
        mj, model = self.mujoco, world.model
        spec = mujoco_spec(model)
        spec.compiler.degree = False
        option = spec.option
        option.timestep, option.integrator = self.dt / self.steps, mj.mjtIntegrator.mjINT_IMPLICITFAST
        option.cone, option.impratio = mj.mjtCone.mjCONE_ELLIPTIC, IMPRATIO
        for link in model.links:
            if link.kind.nv != 1:
                continue
            forces, joint = world.joints[link.v.start], spec.joint(link.joint)
            joint.damping, joint.frictionloss = _first(joint.damping, forces.damping), _first(joint.frictionloss, forces.friction)
            if forces.lower is not None and forces.upper is not None:
                joint.limited, joint.range = True, [float(forces.lower), float(forces.upper)]
        for n, point in enumerate(world.points):
            body, radius = spec.body(model.links[point.link].name), max(float(point.radius), SMALLEST)
            free: dict[str, Any] = {"contype": 0, "conaffinity": 0}
            body.add_geom(
                name=f"point {n}", type=mj.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], pos=point.position, mass=0.0, **free
            )
            below = spec.worldbody.add_body(name=f"ground {n}", mocap=True)
            below.add_geom(name=f"plane {n}", type=mj.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **free)
            assert world.ground is not None
            friction = float(world.ground.friction if point.friction is None else point.friction)
            spec.add_pair(
                geomname1=f"plane {n}",
                geomname2=f"point {n}",
                condim=3,
                friction=[friction, friction, 0.005, 0.0001, 0.0001],
                solref=SOLREF,
                solimp=SOLIMP,
            )
        for name in self.joints:
            motor = spec.add_actuator(name=name, target=name, trntype=mj.mjtTrn.mjTRN_JOINT)
            motor.gaintype, motor.biastype = mj.mjtGain.mjGAIN_FIXED, mj.mjtBias.mjBIAS_AFFINE
            motor.gainprm[0] = 0.0
            motor.forcelimited, motor.forcerange = True, [-1.0, 1.0]
        self._sensors(spec, len(world.points))
        return mujoco_compiled(spec)

    def _sensors(self, spec: Any, points: int) -> None:
        """Positions of contact points, their normal forces, torques of the drives."""
        mj = self.mujoco
        for n in range(points):
            spec.add_sensor(type=mj.mjtSensor.mjSENS_FRAMEPOS, objtype=mj.mjtObj.mjOBJ_GEOM, objname=f"point {n}")
        for n in range(points):
            link = spec.geom(f"point {n}").parent
            size = 1.5 * spec.geom(f"point {n}").size[0]
            link.add_site(name=f"point {n}", type=mj.mjtGeom.mjGEOM_SPHERE, size=[size, 0, 0], pos=spec.geom(f"point {n}").pos)
            spec.add_sensor(type=mj.mjtSensor.mjSENS_TOUCH, objtype=mj.mjtObj.mjOBJ_SITE, objname=f"point {n}")
        for name in self.joints:
            spec.add_sensor(type=mj.mjtSensor.mjSENS_ACTUATORFRC, objtype=mj.mjtObj.mjOBJ_ACTUATOR, objname=name)


def _of_robot(value: Array, k: int, count: int) -> Any:
    """The value of the k-th robot."""
    one = value[k] if value.ndim and len(value) == count else value
    return float(one) if np.ndim(one) == 0 else one


def _first(now: Any, value: Any) -> Any:
    """`value` in the form that a field of the specification has: a number, or several of which the first one counts."""
    if np.ndim(now) == 0:
        return float(value)
    out = np.array(now, dtype=float)
    out[0] = float(value)
    return out
