"""Two arms and what the tests of their controllers share: poses away from singularities, references, pushes."""

from functools import cache
from typing import Any

import numpy as np

import condyle as cd
from condyle.methods.control.arm_controller import ToolSample

READY = np.array([0.3, -1.2, 1.6, -2.0, -1.57, 0.2])
TOOL = {"ur3": "tool", "panda": "panda_hand_tcp"}


@cache
def arm(name: str = "ur3") -> Any:
    """The arm; the Panda with its fingers locked."""
    robot = cd.load(name)
    return robot.lock(["panda_finger"]) if name == "panda" else robot


def regular_poses(name: str, count: int, seed: int = 0, sigma: float = 0.01) -> np.ndarray:
    """Random configurations within the limits whose tool is away from singularities: least squared mobility of J M^-1 J^T."""
    robot, rng = arm(name), np.random.default_rng(seed)
    middle = READY if name == "ur3" else 0.5 * (robot.lower + robot.upper)
    found: list[np.ndarray] = []
    while len(found) < count:
        q = middle + rng.uniform(-1.0, 1.0, (64, robot.nv))
        J = robot.jacobian(q, TOOL[name])
        A = J @ robot.inverse_mass_matrix(q) @ np.swapaxes(J, 1, 2)
        S = np.array([1.0, 1.0, 1.0, 0.15, 0.15, 0.15])
        found += list(q[1.0 / np.trace(np.linalg.inv(A * np.outer(S, S)), axis1=1, axis2=2) > sigma])
    return np.array(found[:count])


def pose_rows(name: str, q: np.ndarray) -> dict[str, np.ndarray]:
    """References R (n, 1, 9) and p (n, 1, 3) where the tools are."""
    R, p = arm(name).frame_pose(q, TOOL[name])
    return {"R": R.reshape(len(q), 1, 9), "p": p[:, None]}


def here(R: Any, p: Any) -> ToolSample:
    """The reference of two arrays of a loop."""
    return ToolSample(R.reshape(3, 3), p)


def random_pushes(count: int, seed: int = 0) -> np.ndarray:
    """(count, 4, 6): nothing, a push, another push, nothing; up to 20 N and 2 N m."""
    rng = np.random.default_rng(seed)
    pushes = rng.normal(size=(count, 4, 6)) * np.array([10.0] * 3 + [1.0] * 3)
    pushes[:, [0, 3]] = 0.0
    return pushes
