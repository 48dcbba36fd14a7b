"""Forward kinematics: poses, velocities and accelerations of links and frames, the Jacobians of frames, wrenches on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Motion, Pose, cross, product


def poses(model: Model, q: Array) -> list[Pose]:
    """X_0i of every link: its frame in the world."""
    X: list[Pose] = []
    for _, link in model.outward():
        X_pi = link.pose(q)
        X.append(X[link.parent] @ X_pi if link.parent >= 0 else X_pi)
    return X


def root_poses(model: Model, q: Array) -> tuple[Pose, list[Pose]]:
    """(X_0F, X_Fi of every link) for the frame F that is inertial and coincides at this instant with the first link.

    What depends only on the shape of the robot is simplest there. A robot with several roots has F in the world's frame.
    """
    if sum(link.parent < 0 for link in model.links) != 1:
        return Pose.identity(), poses(model, q)
    X: list[Pose] = []
    for _, link in model.outward():
        p = link.parent
        X.append(X[p] @ link.placement @ link.kind.pose(q[link.q]) if p >= 0 else Pose.identity())
    return model.links[0].pose(q), X


def axes(model: Model, X: list[Pose]) -> list[Motion]:
    """The motion that a unit speed of each coordinate gives, in the frame of the poses X."""
    return [X[i] @ axis for i, link in model.outward() for axis in link.axes]


def velocities(model: Model, q: Array, v: Array) -> list[Motion]:
    """The velocity of every link, in its own frame."""
    V: list[Motion] = []
    for _, link in model.outward():
        vJ = link.velocity(v)
        V.append(link.pose(q).carry(V[link.parent]) + vJ if link.parent >= 0 else vJ)
    return V


def frame_pose(model: Model, q: Array, frame: str) -> Pose:
    """X_0f of a frame."""
    f = model.frame(frame)
    return poses(model, q)[f.link] @ f.pose if f.link >= 0 else f.pose


def frame_velocity(model: Model, q: Array, v: Array, frame: str, reference: str = "world_aligned") -> Motion:
    """The velocity of a frame, in the references of `jacobian`."""
    f = model.frame(frame)
    V = f.pose.carry(velocities(model, q, v)[f.link]) if f.link >= 0 else Motion.zero()
    return from_local(V, frame_pose(model, q, frame), reference)


def frame_acceleration(model: Model, q: Array, v: Array, a: Array, frame: str, reference: str = "world_aligned") -> Motion:
    """The classical acceleration of a frame: of the point at the reference's origin, and the angular one; no gravity in it.

    In "world_aligned" axes it is the time derivative of `frame_velocity`; "local" are the same vectors in the frame's axes.
    With the spatial velocity (v, w) and acceleration (a, w') of the frame, it is (a + w x v, w').
    """
    f = model.frame(frame)
    if f.link < 0:
        return Motion.zero()
    V, A = velocities(model, q, v), list[Motion]()
    for i, link in model.outward():
        A_i = link.velocity(a) + V[i].cross(link.velocity(v))
        A.append(link.pose(q).carry(A[link.parent]) + A_i if link.parent >= 0 else A_i)
    X_0f = frame_pose(model, q, frame)
    V_f, A_f = f.pose.carry(V[f.link]), f.pose.carry(A[f.link])
    if reference == "world":
        V_f, A_f = X_0f @ V_f, X_0f @ A_f
    classical = Motion(A_f.linear + cross(V_f.angular, V_f.linear), A_f.angular)
    return classical if reference == "world" else from_local(classical, X_0f, reference)


def from_local(motion: Motion, X_0f: Pose, reference: str) -> Motion:
    """A motion given in the axes and at the origin of a frame, in the chosen reference."""
    if reference == "local":
        return motion
    if reference == "world":
        moved: Motion = X_0f @ motion
        return moved
    return Motion(product(X_0f.R, motion.linear), product(X_0f.R, motion.angular))


def ancestors(model: Model, link: int) -> list[int]:
    """The links from the base to this one."""
    path = []
    while link >= 0:
        path.append(link)
        link = model.links[link].parent
    return path[::-1]


def jacobian(model: Model, q: Array, frame: str, reference: str = "world_aligned") -> Array:
    """J with (velocity of the frame) = J v, 6 x nv, linear rows first.

    `reference`: "local" in the frame's own axes; "world_aligned" about the frame's origin in world axes; "world" about the
    world's origin in world axes.
    """
    f = model.frame(frame)
    X = poses(model, q)
    X_0f = X[f.link] @ f.pose if f.link >= 0 else f.pose
    J = np.zeros((6, model.nv), dtype=object)
    for i in ancestors(model, f.link):
        for k, axis in enumerate(model.links[i].axes):
            J[:, model.links[i].v.start + k] = expressed(X[i] @ axis, X_0f, reference).vector()
    return J


def expressed(motion: Motion, X_0f: Pose, reference: str) -> Motion:
    """A motion given about the world's origin, in the chosen reference of a frame."""
    if reference == "world":
        return motion
    if reference == "local":
        seen: Motion = X_0f.carry(motion)
        return seen
    return Motion(motion.linear - cross(X_0f.p, motion.angular), motion.angular)


def jacobian_rate(model: Model, q: Array, v: Array, frame: str, reference: str = "world_aligned") -> Array:
    """The time derivative of `jacobian` along v."""
    f = model.frame(frame)
    X = poses(model, q)
    V = [X[i] @ V_i for i, V_i in enumerate(velocities(model, q, v))]
    X_0f = X[f.link] @ f.pose if f.link >= 0 else f.pose
    V_f = V[f.link] if f.link >= 0 else Motion.zero()
    J = np.zeros((6, model.nv), dtype=object)
    for i in ancestors(model, f.link):
        for k, axis in enumerate(model.links[i].axes):
            S = X[i] @ axis
            rate = V[i].cross(S)
            J[:, model.links[i].v.start + k] = _expressed_rate(S, rate, X_0f, V_f, reference).vector()
    return J


def _expressed_rate(S: Motion, rate: Motion, X_0f: Pose, V_f: Motion, reference: str) -> Motion:
    if reference == "world":
        return rate
    if reference == "local":
        seen: Motion = X_0f.carry(rate - V_f.cross(S))
        return seen
    origin_velocity = V_f.linear + cross(V_f.angular, X_0f.p)
    return Motion(rate.linear - cross(X_0f.p, rate.angular) - cross(origin_velocity, S.angular), rate.angular)


def link_forces(model: Model, q: Array, where: Sequence[tuple[str, str]], wrenches: Sequence[Array]) -> dict[int, Force]:
    """Link -> total force on it in its own frame, from wrenches (force, torque) at the origins of frames.

    `where`: (frame, axes) of each wrench; axes "local" are the frame's own, "world_aligned" those of the world.
    """
    X = poses(model, q)
    total: dict[int, Force] = {}
    for (name, reference), six in zip(where, wrenches, strict=True):
        frame = model.frame(name)
        if frame.link < 0:
            continue
        force = Force.of(six)
        if reference == "world_aligned":
            R = product(X[frame.link].R, frame.pose.R)
            force = Force(product(R.T, force.linear), product(R.T, force.angular))
        force = frame.pose @ force
        total[frame.link] = total[frame.link] + force if frame.link in total else force
    return total


def wrench_forces(model: Model, q: Array, where: Sequence[tuple[str, str]], wrenches: Sequence[Array]) -> Array:
    """J^T f: the joint forces of wrenches at frames, (nv,); arguments as those of `link_forces`."""
    tau, X = np.zeros(model.nv, dtype=object), poses(model, q)
    for i, force in link_forces(model, q, where, wrenches).items():
        F = X[i] @ force
        for j in ancestors(model, i):
            link = model.links[j]
            for k, axis in enumerate(link.axes):
                tau[link.v.start + k] = tau[link.v.start + k] + (X[j] @ axis).dot(F)
    return tau
