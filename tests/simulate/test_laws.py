"""Every law at the state that a step returns, recomputed in NumPy: drives, dry friction, limits, contacts, and all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import Y, Z, body, link, pose
from condyle.simulate.contacts import contact_constraints, joint_constraints
from condyle.simulate.points import point_on

H, HINGES, STATES, DEPTH = 0.002, 3, 400, 2e-3
TOLERANCE = 1e-10  # of ok


@cache
def slider_and_hinges() -> cd.Robot:
    """A slider along z that carries hinges about y, one behind the other, each within +-0.5 rad."""
    links = [link("stand"), link("carriage", body(2.0, (0.0, 0.0, 0.0), (1e-2, 1e-2, 1e-2)))]
    joints = [JointSpec("slide", "prismatic", "stand", "carriage", pose(), np.array(Z), Limits(-10.0, 10.0))]
    for k in range(HINGES):
        links.append(link(f"link{k}", body(1.0 / (1 + k), (0.2, 0.0, 0.0), (1e-3, 1e-2, 1e-2))))
        parent, place = ("carriage", 0.0) if k == 0 else (f"link{k - 1}", 0.4)
        hinge = JointSpec(f"hinge{k}", "revolute", parent, f"link{k}", pose((place, 0.0, 0.0)), np.array(Y), Limits(-0.5, 0.5))
        joints.append(hinge)
    return cd.load(Description("arm", tuple(links), tuple(joints)))


@dataclass
class Case:
    """The tick of a loop from random states: what acted, and the state before and after."""

    loop: cd.Loop
    q: np.ndarray
    v: np.ndarray
    v1: np.ndarray
    contact_impulses: np.ndarray
    gains: dict[str, np.ndarray]
    target: np.ndarray
    residual: np.ndarray


def tick(acting: tuple[str, ...], seed: int = 0) -> Case:
    """A tick from random states in which the laws `acting` have a force."""
    robot, rng = slider_and_hinges(), np.random.default_rng(seed)
    n, shape = robot.nv, (STATES, robot.nv)
    # at the end of the last link, and where the links begin
    places = [("link2", (0.4, 0.0, 0.0)), ("link1", (0.0, 0.0, 0.0))]
    points = [point_on(robot.model, name, place, 0.0) for name, place in places]
    ground = cd.Plane(friction=0.6) if "contact" in acting else None
    world = cd.Simulation(robot, H, ground, points if ground else "none", limits="limit" in acting)
    names = world.control_names
    pd = cd.blocks.ImplicitPD(names, np.ones(n), np.ones(n), np.ones(n), name="pd")
    friction = cd.blocks.JointFriction(names, np.ones(n), name="friction")

    def function(x: Any, target: Any) -> Any:
        parts = [pd(target, x)] * ("drive" in acting) + [friction(x)] * ("dry friction" in acting)
        return cd.blocks.combined(*parts) if parts else np.zeros(n)

    loop = cd.Loop(world, function, target=n)
    names_of = [("pd.kp", 0, 4), ("pd.kd", -1, 2), ("pd.effort", -1, 2)] if "drive" in acting else []
    names_of += [("friction.coulomb", -2, 1)] if "dry friction" in acting else []
    gains = {name: 10.0 ** rng.uniform(low, high, shape) for name, low, high in names_of}
    q, v, target = (rng.normal(size=shape) for _ in range(3))
    # hinges at their limits and within them; the lowest point a little above the ground or in it
    shape = (STATES, HINGES)
    q[:, 1:] = rng.choice([-1.0, 1.0], shape) * (0.5 + rng.choice([-0.3, 1.0], shape) * rng.uniform(0.0, 0.02, shape))
    q[:, 0] = 0.0
    angles = np.cumsum(q[:, 1:], axis=1)
    heights = -np.cumsum(0.4 * np.sin(angles), axis=1)
    # of the last point, and of the one where the second link begins
    q[:, 0] = -np.minimum(heights[:, 2], heights[:, 0]) - rng.uniform(-DEPTH, DEPTH, STATES)
    record = ["q", "v", *(["contact_forces"] if ground else [])]
    out = loop.rollout(loop.state(q, v), target[:, None], 1, parameters=gains, record=record)
    assert out.status.ok.all()
    impulses = out["contact_forces"][:, -1] * H if ground else np.zeros((STATES, 0, 3))
    return Case(loop, q, v, out["v"][:, -1], impulses, gains, target, out.status.residual)


def laws_of(case: Case) -> dict[str, np.ndarray]:
    """The numbers of the laws of limits and contacts at the state before the step."""
    assert case.loop.world is not None
    world = case.loop.world.world

    def numbers(q: Any, v: Any) -> Any:
        found: dict[str, Any] = {}
        limits = [b for b in joint_constraints(world, q, v) if b.label[0] == "limit"]
        if limits:
            found["limits"] = np.array([[b.law.E[0, 0], b.law.kappa, b.label[1]] for b in limits], dtype=object)
        for k, b in enumerate(contact_constraints(world, q, v)):
            J = np.zeros((3, len(v)), dtype=object)
            J[:, list(b.path)] = b.J if b.C is None else b.C @ b.J
            found[f"J{k}"] = J
            found[f"C{k}"] = np.eye(3) if b.C is None else b.C
            found[f"law{k}"] = np.array([*b.law.D[:2], b.law.kappa, b.law.slip], dtype=object)
        return found or {"none": q}

    function = cd.function(numbers, q=case.q.shape[1], v=case.v.shape[1])
    values = function(case.q, case.v)
    values = values if isinstance(values, tuple) else (values,)
    return dict(zip([port.name for port in function.tape.outputs], values, strict=True))


def interval_law(E: np.ndarray, kappa: np.ndarray, u: np.ndarray) -> np.ndarray:
    """y with  E u = kappa (1/y - 1/(1 - y))."""
    ratio = E * u / kappa
    smaller = 2.0 / (np.sqrt(ratio * ratio + 4.0) + 2.0 + np.abs(ratio))
    return np.where(ratio > 0.0, smaller, 1.0 - smaller)


LAWS = ("drive", "dry friction", "limit", "contact")
SETS = [LAWS, ("drive", "contact"), ("drive", "dry friction", "limit"), ("limit", "contact")]


@pytest.mark.parametrize(("acting",), slow_except([(LAWS,)], [(laws,) for laws in SETS]), ids=", ".join)
def test_all_laws_hold_at_the_state_that_is_returned(acting: tuple[str, ...]) -> None:
    case = tick(acting)
    robot, q, v, v1 = slider_and_hinges(), case.q, case.v, case.v1
    numbers = laws_of(case)
    # what the motion takes
    left = H * robot.inverse_dynamics(q, v, (v1 - v) / H)
    scale, bound = np.abs(left), np.zeros_like(left)
    M = robot.mass_matrix(q)
    energy = np.einsum("ni,nij,nj->n", v, M, v) + np.einsum("ni,nij,nj->n", v1, M, v1)
    if "drive" in acting:
        kp, kd, effort = (case.gains[f"pd.{name}"] for name in ("kp", "kd", "effort"))
        impulse = H * np.clip(kp * (case.target - q - H * v1) - kd * v1, -effort, effort)
        assert 0.2 < (np.abs(impulse) >= H * effort).mean() < 0.95
        left, scale, bound = left - impulse, scale + np.abs(impulse), bound + H * effort
        # rounding errors of the terms of a drive
        scale = scale + H * (kp * (np.abs(q) + H * np.abs(v1)) + kd * np.abs(v1))
    if "dry friction" in acting:
        assert case.loop.world is not None
        S = H * case.gains["friction.coulomb"]
        inertia = np.array([joint.inertia for joint in case.loop.world.joint_forces])
        kappa = case.loop.world.world.smoothing * S * S / inertia
        y = interval_law(2.0 * S, kappa, v1)
        left, bound = left - S * (2.0 * y - 1.0), bound + S
        # how much a rounded velocity changes the force
        scale = scale + (4.0 * S * S / kappa) * np.minimum(y, 1.0 - y) ** 2 * (np.abs(v) + np.abs(v1))
    if "limit" in acting:
        for E, kappa, k in numbers["limits"].transpose(1, 2, 0):
            joint = int(k[0])
            y = np.where(E != 0.0, interval_law(E, kappa, v1[:, joint]), 0.0)
            left[:, joint] -= E * y
            # how much a rounded velocity changes the force
            stiff = E * E / kappa * np.minimum(y, 1.0 - y) ** 2
            scale[:, joint] += np.abs(E * y) + stiff * (np.abs(v[:, joint]) + np.abs(v1[:, joint]))
            bound[:, joint] += np.abs(E * y)
    if "contact" in acting:
        for k in range(case.contact_impulses.shape[1]):
            C, J, (S, muS, kappa, slip) = numbers[f"C{k}"], numbers[f"J{k}"], numbers[f"law{k}"].T
            impulse = np.einsum("nij,nj->ni", C, case.contact_impulses[:, k])
            u = np.einsum("nij,nj->ni", J, v1)
            touches = S > 0.0
            assert touches.mean() > 0.1 and np.all(impulse[~touches] == 0.0)
            D = np.stack([S, muS, muS], axis=1)
            y = impulse[touches] / D[touches]
            # inside the cone, and below its end
            assert np.all(y[:, 0] > np.hypot(y[:, 1], y[:, 2])) and np.all(y[:, 0] < 1.0)
            dual = D[touches] * (u[touches] + np.stack([slip, 0.0 * slip, 0.0 * slip], axis=1)[touches])
            z, few = dual.copy(), kappa[touches]
            z[:, 0] += few / (1.0 - y[:, 0])
            # the law in the cone's algebra, y z = 2 kappa e, in the norm of kinetic energy
            off = np.stack([np.sum(y * z, axis=1) - 2.0 * few, *(y[:, 0] * z[:, i] + z[:, 0] * y[:, i] for i in (1, 2))], axis=1)
            # near its bound a normal force that is right to TOLERANCE of it changes its barrier by more
            barrier = few * TOLERANCE / (1.0 - y[:, 0]) ** 2
            allowed = 10.0 * TOLERANCE * np.sqrt(energy[touches]) + barrier / np.sqrt(few)
            assert np.all(np.sqrt(np.sum(off * off, axis=1) / (2.0 * few)) <= allowed)
            assert np.abs(impulse[touches]).max() > 0.0
            pushes = np.einsum("nij,ni->nj", J, impulse)
            left, scale = left - pushes, scale + np.abs(pushes)
    # nothing else acts; rounding errors of momentum, too
    scale = scale + np.einsum("nij,nj->ni", np.abs(M), np.abs(v) + np.abs(v1))
    assert np.all(np.abs(left) <= TOLERANCE * bound + 1e-14 * scale)
