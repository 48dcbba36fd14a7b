"""Where everything is and how it moves: poses, velocities, and the Jacobians of frames."""

from __future__ import annotations

import numpy as np

from condyle.robot.model import Model
from condyle.robot.spatial import Array, Motion, Pose, cross


def poses(model: Model, q: Array) -> list[Pose]:
    """X_0i of every link: its frame in the world."""
    X: list[Pose] = []
    for _, link in model.outward():
        X_pi = link.pose(q)
        X.append(X[link.parent] @ X_pi if link.parent >= 0 else X_pi)
    return X


def root_poses(model: Model, q: Array) -> tuple[Pose, list[Pose]]:
    """(X_0F, X_Fi of every link) for the frame F that coincides at this instant with the first link and stands still.

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
