"""Reference checks of the arm: equations, trajectory, stiffness, tracking, energy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from apps.demos.arm_model import model_checks
from apps.demos.facts import Arm as F

from condyle.apps.demos.arm import (
    DOWN,
    DT,
    PUSH,
    PUSHED_AT,
    PUSHED_FOR,
    TOOL,
    gravity_compensation,
    robot,
    tool_errors,
    trajectory,
    world,
)
from condyle.apps.demos.checks import Check, energy_residual, largest, near, replays
from condyle.closed_loop.loop import Loop
from condyle.dynamics.kinematics import frame_pose
from condyle.workbench.runs.run import Run

Array = np.ndarray

KP, KD, EFFORTS, SPEEDS = (np.array(numbers) for numbers in (F.KP, F.KD, F.EFFORTS, F.SPEEDS))
STEADY, STEADY_FOR = (0.1, 0.2, -0.1), 20.0  # N at the tool, s: a push that lasts until nothing moves
EARLY = 0.06  # s into the push, before the arm has moved far


def checks(done: Run, count: int = 100) -> Iterator[Check]:
    """All checks of a run; `count`: of random states."""
    yield from model_checks()
    yield from equations(count)
    yield from planned()
    yield from stiffness()
    yield from drawing(done)
    yield from accounts(done)


# -- the equations of motion


def tool_place(model: Any, q: Any) -> dict[str, Any]:
    return {"p": frame_pose(model, q, TOOL).p}


def equations(count: int) -> Iterator[Check]:
    """Identities that tie M, C, g and J together, on random states; derivatives are those of the compiler."""
    group, rng = f"equations, {count} random states", np.random.default_rng(0)
    q = robot().random_configuration(rng, count)
    v, a = rng.normal(size=(2, count, 6))
    M, C, g = robot().mass_matrix(q), robot().coriolis_matrix(q, v), robot().gravity_forces(q)
    rate = robot().function("mass_matrix").jvp()(q, v)
    skew = rate - 2.0 * C
    yield Check(group, "M' - 2 C, less its skew part", largest(skew + np.swapaxes(skew, -1, -2)) / largest(C), "", high=1e-12)
    left = times(C, v) + g - robot().bias_forces(q, v)
    yield Check(group, "C v + g, less the bias forces", largest(left) / largest(g), "", high=1e-12)
    gradient = robot().function("potential_energy").jacobian()(q)
    yield Check(group, "g, less the gradient of the potential energy", largest(g - gradient) / largest(g), "", high=1e-12)
    energy = robot().kinetic_energy(q, v)
    off = largest(np.sum(v * times(M, v), axis=-1) / 2.0 - energy)
    yield Check(group, "v M v / 2, less the kinetic energy", off / largest(energy), "", high=1e-12)
    moving = robot().function(tool_place).jvp()(q, v)
    J = robot().jacobian(q, TOOL)
    yield Check(
        group, "J v, less the rate of the tool's place", largest(times(J, v)[:, :3] - moving) / largest(moving), "", high=1e-12
    )
    tau = robot().inverse_dynamics(q, v, a)
    yield Check(
        group, "torques for an acceleration, and back", largest(robot().forward_dynamics(q, v, tau) - a), "rad/s^2", high=1e-9
    )


def times(A: Array, x: Array) -> Array:
    product: Array = np.sum(A * x[..., None, :], axis=-1)
    return product


# -- the plan


def planned() -> Iterator[Check]:
    group, plan = "the plan", trajectory()
    R, p = robot().frame_pose(plan.q[plan.drawing], TOOL)
    yield Check(group, "tool from its place, while drawing", largest(p - plan.position[plan.drawing]), "m", high=1e-11)
    yield Check(group, "tool from pointing down", largest(R - DOWN), "", high=1e-11)
    yield Check(group, "largest speed, by the joint's limit", largest(plan.v / SPEEDS), "", high=0.5, form=".2f")
    yield Check(group, "largest acceleration", largest(plan.a), "rad/s^2", high=F.ACCELERATION, form=".2f")
    # speeds and accelerations are those of the angles: differences of second order
    found = np.gradient(plan.q, plan.t, axis=0)[2:-2] - plan.v[2:-2]
    yield Check(group, "speeds, less the angles' differences", largest(found), "rad/s", high=1e-5)


# -- gains


def stiffness() -> Iterator[Check]:
    """A small force that lasts: the joints give way until  kp (q* - q) = -J^T F."""
    pose, control = np.array(F.READY), gravity_compensation(world(), F.READY)
    pushed = Loop(world(), lambda x: {**control(x), "wrenches": {TOOL: [*STEADY, 0.0, 0.0, 0.0]}})
    x = pushed.rollout(pushed.state(F.READY), None, round(STEADY_FOR / DT), record=[]).x
    J = robot().jacobian(x[:6], TOOL)
    wanted = np.sum(J[:3] * np.array(STEADY)[:, None], axis=0) / KP
    off = largest(x[:6] - pose - wanted) / largest(wanted)
    name = "angles under a steady push, less J^T F / kp, relative"
    yield Check("stiffness", name, off, "", high=1e-6)  # kd / kp is 1.2 s: after 20 s e^-17 of it is left
    # pan: the force to the side where the tool was before, by hand
    ahead, beside = F.ORIGINS[3][2] + F.ORIGINS[5][2], sum(F.ORIGINS[i][1] for i in range(5)) + F.TOOL[1]
    by_hand = 1e3 * (STEADY[1] * ahead - STEADY[0] * beside) / KP[0]
    name = "angle by which pan gives way; by hand, before it turned"
    yield near("stiffness", name, 1e3 * (x[0] - pose[0]), by_hand, 0.03 * by_hand, "mrad", ".2f")


def pushed_linear(seconds: float, steps: int = 2000) -> Array:
    """(steps + 1, 6): what the push does to the angles if M and J stay as they are:  M e'' + (kd + f) e' + kp e = J^T F."""
    q = trajectory().q[round(PUSHED_AT / DT)]
    inverse = robot().inverse_mass_matrix(q)
    force = np.sum(robot().jacobian(q, TOOL)[:3] * np.array(PUSH)[:, None], axis=0)
    e, rate, h = np.zeros((steps + 1, 6)), np.zeros(6), seconds / steps
    for k in range(steps):
        # friction and kd act with the rate after the step
        rate = np.linalg.solve(np.eye(6) + h * inverse * (KD + F.FRICTION), rate + h * times(inverse, force - KP * e[k]))
        e[k + 1] = e[k] + h * rate
    return e


# -- the run


def drawing(done: Run) -> Iterator[Check]:
    group, away, t = "drawing, pushed by 10 N for 0.2 s", 1e3 * tool_errors(done), done.t[:-1]
    before = t < PUSHED_AT
    mean = float(np.sqrt(np.mean(away[before] ** 2)))
    yield Check(group, "tool from its plan before the push, rms", mean, "mm", high=0.35, form=".2f")
    yield Check(group, "the same, at most", float(away[before].max()), "mm", high=0.8, form=".2f")
    yield from pushed(group, done, away)
    k = round((PUSHED_AT + EARLY) / DT)
    given, linear = done.q[k] - done.extras["reference"][k], pushed_linear(EARLY)[-1]
    off = largest(given - linear) / largest(given)
    yield Check(
        group, f"angles {1e3 * EARLY:.0f} ms into the push, less a linear estimate, relative", off, "", high=0.05, form=".3f"
    )
    yield Check(group, "tool from its plan in the end", float(away[-1]), "mm", high=0.1, form=".2f")
    yield Check(group, "largest torque, by the joint's limit", largest(done.u / EFFORTS), "", high=0.05, form=".3f")
    yield Check(group, "largest speed, by the joint's limit", largest(done.v / SPEEDS), "", high=0.75, form=".2f")


def pushed(group: str, done: Run, away: Array) -> Iterator[Check]:
    """What the push does to the tool, against the linear estimate of it, and how long it lasts."""
    end = round((PUSHED_AT + PUSHED_FOR) / DT)
    linear = pushed_linear(PUSHED_FOR)[-1]
    moved = np.sum(robot().jacobian(trajectory().q[round(PUSHED_AT / DT)], TOOL)[:3] * linear, axis=-1)
    # by then the arm has moved too far for M and J to be held: a quarter
    wanted = 1e3 * float(np.linalg.norm(moved))
    yield near(group, "pushed away when the push ends; by the estimate", float(away[end]), wanted, 0.25 * wanted, "mm", ".0f")
    # it goes on by its momentum; no formula, but what it was found to be, within a twentieth
    yield near(group, "pushed away, at most", float(away.max()), 174.0, 9.0, "mm", ".0f")


def accounts(done: Run) -> Iterator[Check]:
    """Energy is what motors and push gave, less friction."""
    left = energy_residual(world(), world(DT / 2.0), done.x, done.u, done.wrenches)
    kinetic = robot().kinetic_energy(done.q, done.v)
    group = "accounts"
    yield Check(group, "energy, less the work done, by the largest kinetic", largest(left) / float(kinetic.max()), "", high=5e-9)
    yield replays(group, done)
