"""PiDog stands, and walks its manufacturer's gait on the ground.

done = run()                              # stands, walks two cycles, stands: 3,000 steps of 2 ms
done.x, done.u, done.extras["reference"]  # states, torques, commands of the servos

The robot, its loop and the references are those of condyle/apps/pidog.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, Progress, largest, near, recorded, replays, silent
from condyle.apps.pidog.gaits import ideal_advance, walk
from condyle.apps.pidog.kinematics import foot_position, leg_angles
from condyle.apps.pidog.plant import DT, attitude, loop, robot, standing_state, world
from condyle.apps.pidog.poses import POSES, STAND
from condyle.apps.pidog.servos import servo_torque
from condyle.apps.pidog.trajectories import CYCLES, REST, SPEED, timetable, walking
from condyle.robot.library.pidog import FOOT_FRICTION
from condyle.workbench.runs.run import Run

Array = np.ndarray

STEPS = 3000


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """It stands for 0.8 s, walks two cycles, and stands: 6 s."""
    x0 = standing_state(world())
    here = loop(world(), x0)
    about = {"gait": "walk", "speed": SPEED, "cycles": CYCLES, "rest": REST}
    named: dict[str, Any] = {"title": "PiDog stands and walks", "controller": "walk", "about": about}
    references = {"reference": walking(world(), x0, cycles=CYCLES)}
    return recorded(here, here.state(world().split(x0)[0]), path, STEPS, references, progress=progress, **named)


# -- checks

# mm: of the manufacturer's library, which the model has, and of the common URDF
LENGTHS = {
    "upper leg": (42.0, 47.0),
    "lower leg": (76.0, 63.9),
    "hip, from the middle to the front": (58.5, 53.15),
    "hip, from the middle to the side": (49.0, 40.5),
}


def lengths() -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Each length, that of the model in mm, and those of both sources."""
    hip, knee, foot = (robot().frame_pose(robot().neutral(), f"lf_{name}")[1] for name in ("hip", "knee", "foot"))
    found = (np.linalg.norm(knee - hip), np.linalg.norm(foot - knee), hip[0], hip[1])
    for (what, sources), length in zip(LENGTHS.items(), found, strict=True):
        yield what, 1e3 * float(length), sources


def checks(run: Run) -> Iterator[Check]:
    """Published mass, leg angles and gait, and how it stands and walks."""
    yield near("model", "mass: the sum of its parts", robot().mass, 0.629, 1e-9, "kg", ".3f")
    for what, length, (ours, other) in lengths():
        yield near(
            "model",
            f"{what}: library {ours:g}, common URDF {other:g}",
            length,
            ours,
            1e-9,
            "mm",
            ".2f",
        )
    angles = np.array(POSES["stand"][:2])
    yield Check("model", "leg angles standing - published 40.61, 15.54", largest(angles - (40.61, 15.54)), "deg", high=0.005)
    error = largest(foot_position(leg_angles(STAND)) - STAND)
    yield Check("model", "inverse kinematics of the legs", error, "mm", high=1e-10)
    yield near("model", "advance of a cycle without slip", ideal_advance(walk()), 91.4, 0.05, "mm", ".2f")
    k, weight, forces = round(REST / DT) - 1, robot().mass * 9.81, run.contact_forces
    yield near("standing", "force of the ground / weight", forces[k, :, 2].sum() / weight, 1.0, 1e-3, "", ".5f")
    lean = -float(np.degrees(np.arctan2(95.0 - 90.0, 2.0 * 58.5 + 15.0 + 5.0)))  # front legs reach 5 mm lower
    yield near("standing", "pitch", np.degrees(attitude(run.x[k])[1]), lean, 0.25, "deg", ".2f")
    knee = weight / 4.0 * (42.0 * np.sin(np.radians(40.61)) + 15.0) / 1e3  # a quarter of the weight about a front knee
    yield near("standing", "largest torque of a knee", largest(run.u[k, 1:8:2]), knee, 0.1 * knee, "N m", ".3f")
    ends = [round(t / DT) for t in timetable()]
    advance = 1e3 * float(run.x[ends[-1], 0] - run.x[ends[-2], 0])
    yield near("walking", f"advance of cycle {CYCLES}", advance, 91.4, 0.05 * 91.4, "mm", ".1f")
    mean = float(forces[ends[-2] : ends[-1], :, 2].sum(axis=1).mean()) / weight
    yield near("walking", "mean force of the ground in a cycle / weight", mean, 1.0, 1e-3, "", ".4f")
    law = servo_torque(run.extras["reference"][:, :8], run.q[:-1, 7:15])
    yield Check("servos", "torques of the legs - those of the law", largest(run.u[:, :8] - law), "N m", high=1e-12)
    slip = np.hypot(forces[..., 0], forces[..., 1]) - FOOT_FRICTION * forces[..., 2]
    yield Check("walking", "friction beyond the cone, by the weight", float(slip.max()) / weight, "", high=1e-9)
    for name, angle, bound in zip(("roll", "pitch"), np.degrees(np.abs(attitude(run.x)).max(axis=0)), (3.5, 3.0), strict=False):
        yield Check("walking", f"largest {name}", float(angle), "deg", high=bound, form=".2f")
    yield Check("walking", "lateral drift", 1e3 * largest(run.x[: ends[-1], 1]), "mm", high=7.0, form=".1f")
    yield Check("walking", "fastest servo", largest(run.v[:, 6:]), "rad/s", high=8.5, form=".2f")
    yield replays("run", run)
