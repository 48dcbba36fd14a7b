"""Passivity-based and adaptive control: the storage decays as in the proof, and the estimate predicts the true torques."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics.regressor import inertial_parameters
from condyle.errors import ControlError
from condyle.methods.control.adaptive import AdaptiveControl, PassivityControl, natural_metric, pseudo_inertia
from condyle.methods.planning.profiles import Sample
from condyle.robot.spatial import Inertia

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])


class Sines:
    """A sum of three sines in every joint, at rest in position at t = 0."""

    def __init__(self, start: np.ndarray, seed: int, size: float) -> None:
        rng = np.random.default_rng(seed)
        self.start, self.omega = start, 2.0 * np.pi * np.array([0.3, 0.5, 0.8])
        self.size = size * rng.uniform(-1.0, 1.0, (3, len(start))) * (self.omega[0] / self.omega)[:, None]
        self.phase = rng.uniform(0.0, 2.0 * np.pi, (3, len(start)))

    def at(self, t: Any) -> Sample:
        q, v, a = self.start - (self.size * np.sin(self.phase)).sum(axis=0), 0.0, 0.0
        for omega, size, phase in zip(self.omega, self.size, self.phase, strict=True):
            s, c = np.sin(omega * t + phase), np.cos(omega * t + phase)
            q, v, a = q + size * s, v + size * omega * c, a - size * omega**2 * s
        return Sample(q, v, a)

    def rows(self, times: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.array(part) for part in zip(*[self.at(t) for t in times], strict=True))


def with_load(robot: cd.Robot, link: str, mass: float, com: Any, size: float) -> cd.Robot:
    """The robot with a ball of this mass and moment of inertia on a link."""
    load = Inertia.about_com(mass, np.array(com), size * np.eye(3))
    links = [replace(each, inertia=each.inertia + load) if each.name == link else each for each in robot.model.links]
    return cd.Robot(replace(robot.model, links=tuple(links)))


def test_the_storage_of_passivity_control_decays_as_in_the_proof() -> None:
    """1/2 s^T M s loses just the integral of s^T Kd s, to first order in the time step."""
    robot = cd.load("ur3")
    misses = []
    for h in (1e-3, 5e-4):
        world = cd.Simulation(robot, dt=h, damping=False, threads=1)
        law = PassivityControl(world)
        motion = Sines(READY, 4, 0.4)
        loop = _loop(world, law, motion)
        out = loop.rollout(loop.state(READY + 0.3), steps=round(0.3 / h), record=["q", "v", "passivity_control.s"])
        s, q = out["passivity_control.s"], np.concatenate([READY[None] + 0.3, out["q"]])[:-1]
        V = robot.kinetic_energy(q, s)
        lost = np.cumsum((law.kd.default * s * s).sum(axis=1)) * h
        assert np.all(np.diff(V) <= 1e-6 * V[0])
        misses.append(np.abs(V[0] - V[1:] - lost[:-1]).max() / V[0])
    assert misses[1] < 0.03 and 1.6 < misses[0] / misses[1] < 2.4


def _loop(world: cd.Simulation, law: Any, motion: Any) -> cd.Loop:
    return cd.Loop(world, lambda x: law(x, motion.at(x.t)))


def test_the_storage_of_adaptive_control_never_grows() -> None:
    """1/2 s^T M s + 1/(2 gain) tr((P_0^-1 (P - P_true))^2), summed over the links of an arm with a load."""
    nominal = cd.load("ur3")
    true = with_load(nominal, "wrist_3", 0.3, (0.0, 0.05, 0.0), 1e-4)
    world = cd.Simulation(true, dt=2e-4, damping=False, threads=1)
    law, motion = AdaptiveControl(world, model=nominal), Sines(READY, 2, 0.35)
    loop, start = _loop(world, law, motion), motion.at(0.0)
    record = ["q", "v", "adaptive_control.s", "adaptive_control.estimate"]
    out = loop.rollout(loop.state(start.position, start.velocity), steps=10_000, record=record)
    q, s, p = out["q"][:-1], out["adaptive_control.s"][1:], out["adaptive_control.estimate"][:-1]
    away = p - inertial_parameters(true.model).astype(float)
    parameters = sum(
        np.einsum("ni,ij,nj->n", away[:, 10 * k : 10 * k + 10], law.inverse_metrics[k], away[:, 10 * k : 10 * k + 10])
        for k in range(6)
    )
    V = true.kinetic_energy(q, s) + parameters / (2.0 * float(law.adaptation.default))
    lost = np.cumsum((law.kd.default * s * s).sum(axis=1)) * world.dt
    assert np.all(np.diff(V) <= 1e-5 * lost[-1])
    np.testing.assert_allclose(V[0] - V[1:], lost[:-1], rtol=0.0, atol=0.03 * lost[-1])


@pytest.mark.slow
def test_adaptation_finds_a_hidden_load() -> None:
    """34 % error of the torques before, below 1 % after 30 s, on a motion that it has not seen; and the arm follows."""
    nominal = cd.load("ur3")
    true = with_load(nominal, "wrist_3", 1.0, (0.0, 0.12, 0.0), 1e-3)
    world = cd.Simulation(true, dt=1e-3, threads=1)
    law, motion, other = AdaptiveControl(world, model=nominal), Sines(READY, 1, 0.35), Sines(READY, 7, 0.35)
    loop, start = _loop(world, law, motion), motion.at(0.0)
    x0 = np.tile(loop.state(start.position, start.velocity), (2, 1))
    gains = {"adaptive_control.gain": np.array([0.0, float(law.adaptation.default)])}
    out = loop.rollout(x0, steps=30_000, every=10, parameters=gains, record=["q", "adaptive_control.estimate"])
    e = np.abs(out["q"] - motion.rows(0.01 * np.arange(1, 3001))[0]).max(axis=2)
    fixed, adapted = e[:, -500:].max(axis=1)
    assert adapted < 0.1 * fixed
    q, v, a = other.rows(np.linspace(0.0, 10.0, 300))
    tau = true.inverse_dynamics(q, v, a) + 0.01 * v
    before, after = (
        np.linalg.norm(law.predicted(q, v, a, p) - tau) / np.linalg.norm(tau) for p in out["adaptive_control.estimate"][:, -1]
    )
    assert before > 0.3 and after < 0.01
    # without adaptation it is the passivity-based law
    fixed_law = PassivityControl(world, model=nominal)
    plain = _loop(world, fixed_law, motion)
    same = plain.rollout(plain.state(start.position, start.velocity), steps=200).x
    none = loop.rollout(x0[0], steps=200, parameters={"adaptive_control.gain": 0.0}).x
    np.testing.assert_allclose(none[:12], same[:12], rtol=1e-9, atol=1e-9)


def test_adaptation_finds_friction() -> None:
    nominal = cd.load("pendulum")
    links = tuple(replace(link, damping=0.15, friction=0.3) for link in nominal.model.links)
    world = cd.Simulation(cd.Robot(replace(nominal.model, links=links)), dt=1e-3, threads=1)
    law = AdaptiveControl(world, model=nominal, estimate_friction=True)
    motion = Sines(np.zeros(1), 3, 1.5)
    loop, start = _loop(world, law, motion), motion.at(0.0)
    x0 = loop.state(start.position, start.velocity)
    out = loop.rollout(x0, steps=40_000, every=40_000, record=["adaptive_control.estimate"])
    q, v, a = Sines(np.zeros(1), 8, 1.5).rows(np.linspace(0.0, 10.0, 200))
    tau = nominal.inverse_dynamics(q, v, a) + 0.15 * v + 0.3 * np.tanh(v / 0.01)
    before, after = (np.abs(law.predicted(q, v, a, p) - tau).mean() for p in (law.start, out["adaptive_control.estimate"][-1]))
    assert before > 0.4 and after < 0.4 * before


@pytest.fixture(scope="module")
def pendulum() -> cd.Simulation:
    return cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1)


def test_the_estimate_stays_within_its_limit_and_leaks_back(pendulum: cd.Simulation) -> None:
    law = AdaptiveControl(pendulum, links="rod_2", limit=3.0)
    loop = cd.Loop(pendulum, lambda x: law(x, Sample(np.array([1.0, -0.5]), 0.0, 0.0)))
    assert AdaptiveControl(pendulum).limit.default == 5.0
    gains = {"adaptive_control.gain": np.array([1e3, 1e3]), "adaptive_control.leakage": np.array([0.0, 1e2])}
    x0 = np.tile(loop.state(), (2, 1))
    away = loop.rollout(x0, steps=500, parameters=gains, record=["adaptive_control.estimate"])["adaptive_control.estimate"]
    away = away - law.start
    sizes = np.sqrt(np.einsum("rni,ij,rnj->rn", away, law.inverse_metrics[0], away))
    assert away.shape[-1] == 10 and 2.9 < sizes[0].max() < 3.0 + 1e-5
    assert sizes[1, -1] < 0.1 * sizes[0, -1]


def test_the_metric_is_that_of_pseudo_inertias() -> None:
    """G takes the gradient y of tr(L P) to the parameters of P_0 L P_0, whatever the units."""
    p = inertial_parameters(cd.load("ur3").model).astype(float)[10:20]
    G, inverse = natural_metric(p)
    P = pseudo_inertia(p)
    assert np.linalg.eigvalsh(P).min() > 0.0
    y = np.random.default_rng(0).normal(size=10)
    basis = np.array([pseudo_inertia(e) for e in np.eye(10)])
    # L is symmetric, with tr(L basis_k) = y_k
    symmetric = [np.eye(4)[[i]].T @ np.eye(4)[[j]] for i in range(4) for j in range(i + 1)]
    symmetric = [E + E.T for E in symmetric]
    weights = np.linalg.lstsq(np.array([[np.trace(E @ B) for E in symmetric] for B in basis]), y, rcond=None)[0]
    L = sum(w * E for w, E in zip(weights, symmetric, strict=True))
    np.testing.assert_allclose(pseudo_inertia(G @ y), P @ L @ P, rtol=1e-6, atol=1e-7 * np.abs(P @ L @ P).max())
    D = np.linalg.solve(P, pseudo_inertia(y))
    np.testing.assert_allclose(y @ inverse @ y, np.trace(D @ D), rtol=1e-6)


def test_links_are_named(pendulum: cd.Simulation) -> None:
    with pytest.raises(ControlError, match=r"no moving link 'rod_3'.*rod_2"):
        AdaptiveControl(pendulum, links="rod_3")
    with pytest.raises(ControlError, match="names no link"):
        AdaptiveControl(pendulum, links=[])
