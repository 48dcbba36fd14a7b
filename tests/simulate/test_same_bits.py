"""The promise, for worlds: a step and all that follows has the same bits in any batch, lane, thread, process and chunk."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except
from tape.random_tapes import same_bits

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import Y, body, link, pose, sphere
from condyle.tape.backends import cpu

BATCH = 256
SOME = 8  # steps of a rollout that is one call of a kernel
H = 0.002


def biped() -> cd.Robot:
    """A body on two legs of one joint each: a free base, limits, damping, dry friction, weak motors, three contacts."""
    trunk = sphere(0.12, name="trunk")
    links, joints = [link("trunk", body(3.0, (0.01, 0.0, 0.02), (0.03, 0.02, 0.02)), [], [trunk])], []
    for name, side in (("left", 1.0), ("right", -1.0)):
        foot = sphere(0.04, (0.05, 0.0, -0.3), name=f"foot_{name}")
        links.append(link(f"leg_{name}", body(0.5, (0.02, 0.0, -0.15), (0.004, 0.004, 0.0005)), [], [foot]))
        place, limits = pose((0.0, 0.1 * side, -0.05)), Limits(-0.6, 0.8, None, 4.0)
        joints.append(JointSpec(f"hip_{name}", "revolute", "trunk", f"leg_{name}", place, np.array(Y), limits, 0.05, 0.1, 0.001))
    return cd.load(Description("biped", tuple(links), tuple(joints)), base="free")


def pushes(model: Any, q: Any, v: Any, t: Any) -> Any:
    """A force that knows the time."""
    return np.concatenate([np.zeros(6), 0.5 * np.sin(40.0 * t - q[7:])])


FLAT = cd.Plane(friction=0.7)
WORLDS: dict[str, dict[str, Any]] = {
    "flat": {"ground": FLAT, "joint_friction": False},
    "substeps": {"ground": FLAT, "joint_friction": False, "substeps": 3, "force": pushes},
    "slope with dry friction": {"ground": cd.Slope(12.0, friction=0.7)},
    "air with a wrench": {"ground": None, "wrenches": ("trunk",)},
    "pyramid": {"ground": FLAT, "joint_friction": False, "cone": 4},
    "rk4": {"ground": FLAT, "joint_friction": False, "integrator": "rk4", "limits": False},
}
SLOW = ("slope with dry friction", "pyramid", "rk4")  # to compile with derivatives


@cache
def world(name: str = "flat") -> cd.Simulation:
    return cd.Simulation(biped(), H, **WORLDS[name])


@cache
def states(count: int = BATCH, nx: int = 17) -> np.ndarray:
    """Standing, falling, sliding, lying, tumbling high above; packed."""
    rng = np.random.default_rng(7)
    x = np.zeros((count, nx))
    turn = rng.normal(size=(count, 4)) * [0.2, 0.2, 0.5, 0.0] + [0.0, 0.0, 0.0, 1.0]
    x[:, 2] = rng.uniform(0.3, 0.42, count)
    x[::7, 2] = 1.5
    x[::9, 2] = 0.11
    x[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    x[:, 7:9] = rng.uniform(-0.7, 0.9, (count, 2))
    x[:, 9:17] = rng.normal(size=(count, 8)) * np.repeat([0.5, 2.0, 4.0], [3, 3, 2])
    return x


@cache
def controls(steps: int = SOME, count: int = BATCH) -> np.ndarray:
    return np.random.default_rng(8).normal(size=(count, steps, 2)) * 4.0


def everything(w: cd.Simulation, x: np.ndarray, us: np.ndarray, *, second: bool = True, **options: Any) -> dict[str, np.ndarray]:
    """Every result of a world on a batch; nothing here may depend on how it is computed, for states that fail either."""
    u = us[..., 0, :]
    x1, A, B = w.step(x, u, derivatives=True, freeze=True, **options)
    assert w.status is not None
    found = {"x1": x1, "A": A, "B": B, "residual": w.status.residual, "xs": w.rollout(x, us, freeze=True, **options)}
    if second:
        found["H"] = w.step_hessian(x, u, np.linspace(-1.0, 1.0, w.ndx), **options)
    return found | {"forces": w.contact_forces(x, u, **options), "energy": w.energy(x, **options)}


@cache
def wanted() -> dict[str, np.ndarray]:
    """All states at once, in the default way."""
    return everything(world(), states(), controls())


def check_same(got: dict[str, np.ndarray], rows: Any, what: str) -> None:
    for name, array in got.items():
        assert same_bits(np.asarray(array), wanted()[name][rows]), f"{what}: {name} differs"


# ---- batches, lanes, threads, processors


@pytest.mark.parametrize("lanes", slow_except([4], [1, 2, 4, 8]))
def test_every_lane_width_and_batch_size(lanes):
    for count in (1, 3, 17, BATCH):
        # second derivatives take longest to compile: with one lane, and with a full vector, which is the default
        got = everything(world(), states()[:count], controls()[:count], second=lanes in (1, 8), lanes=lanes)
        check_same(got, slice(count), f"{lanes} lanes, batch of {count}")


def test_the_states_are_worth_it():
    forces, x1 = wanted()["forces"], wanted()["x1"]
    # some robots stand on both legs, some on one, some lie, some fly; some joints are at their limits
    touching = {tuple(row) for row in forces[..., 2] > 1e-6}
    assert len(touching) >= 5 and (False, False, False) in touching
    assert np.any(x1[:, 7:9] > 0.8) and np.any(x1[:, 7:9] < -0.6)
    assert wanted()["residual"].max() <= 1e-10


@settings(max_examples=25)
@given(rows=st.lists(st.integers(0, BATCH - 1), min_size=1, max_size=40), split=st.integers(1, 4))
def test_the_place_in_the_batch_does_not_matter(rows, split):
    rows = rows * split
    shape = (split, len(rows) // split)
    x, us = states()[rows], controls()[rows]
    got = everything(world(), x.reshape(*shape, -1), us.reshape(*shape, SOME, 2))
    check_same({name: a.reshape(len(rows), *a.shape[2:]) for name, a in got.items()}, rows, f"rows {rows}")


def test_a_single_state_has_the_bits_of_the_batch():
    for k in (0, 100, 255):
        check_same(everything(world(), states()[k], controls()[k]), k, f"state {k} alone")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_split_over_threads(monkeypatch, threads):
    monkeypatch.setattr(cpu, "THREAD_PAYS", 1e-9)
    check_same(everything(world(), states(), controls(), threads=threads), slice(None), f"{threads} threads")


@pytest.mark.slow
def test_the_reference_machine():
    # the interpreter takes seconds for second derivatives
    k = slice(8, 9)
    check_same(everything(world(), states()[k], controls()[k], backend="reference"), k, "interpreted")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS)[1:])
def test_other_worlds_too(name):
    w = world(name)
    x = np.zeros((24, w.nx))
    x[:, :17] = states()[:24]
    u = controls()[:24, 0]
    # worlds that take a wrench at a frame are given one
    extra = {"wrenches": np.linspace(-1.0, 1.0, 24 * 6).reshape(24, 1, 6)} if w._world.wrenches else {}
    few = {key: value[:2] for key, value in extra.items()}

    def results(**options: Any) -> tuple[np.ndarray, ...]:
        found = w.step(x, u, derivatives=name not in SLOW, freeze=True, **extra, **options)
        return found if isinstance(found, tuple) else (found,)

    first = results()
    assert all(same_bits(a, b) for a, b in zip(first, results(lanes=1), strict=True)), "one lane"
    assert same_bits(w.step(x, u, freeze=True, lanes=4, **extra), first[0]), "four lanes"
    assert same_bits(w.step(x[:2], u[:2], backend="reference", freeze=True, **few), first[0][:2])


# ---- in time


@pytest.mark.parametrize("name", ["flat", "substeps"])
@pytest.mark.parametrize("steps", [1, 7, 8, 63, 64, 65, 130])
def test_a_rollout_is_its_steps(name, steps):
    w = world(name)
    x = np.zeros((5, w.nx))
    x[:, :17] = states()[:5]
    us = controls(130)[:5, :steps]
    xs = w.rollout(x, us)
    assert same_bits(xs[:, 0], x)
    for k in range(steps):
        x = w.step(x, us[:, k])
        assert same_bits(xs[:, k + 1], x), f"step {k + 1} of {steps}"


def test_the_derivatives_of_a_rollout_are_those_of_its_steps():
    w, x, us = world(), states()[:3], controls()[:3]
    xs, As, Bs = w.rollout(x, us, derivatives=True, freeze=True)
    for k in range(SOME):
        _, A, B = w.step(xs[:, k], us[:, k], derivatives=True, freeze=True)
        assert same_bits(As[:, k], A) and same_bits(Bs[:, k], B)


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, 129), max_size=4), row=st.integers(0, BATCH - 1))
def test_a_rollout_may_be_cut_anywhere(cuts, row):
    w, us = world(), controls(130)[row]
    all_steps = w.rollout(states()[row], us)
    x, parts = states()[row], []
    edges = [0, *sorted(set(cuts)), 130]
    for a, b in pairwise(edges):
        parts.append(w.rollout(x, us[a:b])[1:])
        x = parts[-1][-1]
    assert same_bits(np.concatenate(parts), all_steps[1:])


# ---- neighbours that fail


@settings(max_examples=25)
@given(data=st.data())
def test_what_is_not_finite_leaves_its_neighbours_alone(data):
    w, n = world(), 16
    x, us = states()[:n].copy(), controls()[:n].copy()
    bad = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=4))
    for row in bad:
        spoiled = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e308]))
        if data.draw(st.booleans()):
            x[row, data.draw(st.integers(0, w.nx - 1))] = spoiled
        else:
            us[row, 0, data.draw(st.integers(0, 1))] = spoiled if spoiled != 1e308 else np.nan
    good = np.array(sorted(set(range(n)) - bad))
    x1 = w.step(x, us[:, 0], freeze=True)
    assert w.status is not None and np.all(w.status.ok[good])
    frozen = ~w.status.ok  # before anything else is asked of the simulation
    assert same_bits(x1[good], wanted()["x1"][good])
    assert same_bits(x1[frozen], x[frozen]), "a state that cannot go on stays as it is"
    xs = w.rollout(x, us, freeze=True)
    assert same_bits(xs[good], wanted()["xs"][good])
    with pytest.raises(cd.CondyleError, match="freeze"):
        w.step(np.where(np.isin(np.arange(n), list(bad))[:, None], np.nan, x), us[:, 0])


# ---- processes


def digest() -> str:
    """A hash of tapes and results, for another process to print."""
    w, out = world(), hashlib.sha256()
    x, us = states()[:20], controls()[:20]
    x1, A, B = w.step(x, us[:, 0], derivatives=True)
    for array in (x1, A, B, w.rollout(x, us), w.contact_forces(x, us[:, 0])):
        out.update(np.ascontiguousarray(array).tobytes())
    out.update(w.hash.encode() + w._function("rollout", ("x", "us"), ("cpu", None, None)).tape.hash.encode())
    return out.hexdigest()


def elsewhere(code: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs code which has the names of this file."""
    start = f"import sys, runpy; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); me = runpy.run_path({__file__!r})\n"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": {**os.environ, **environment}}
    return subprocess.Popen([sys.executable, "-c", start + code], **pipes)


def answer(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.strip()


@pytest.mark.slow
def test_hash_seeds_and_the_cache_change_nothing(tmp_path):
    code = "print(me['digest']())"
    # compiled here, compiled there, and there from the cache
    found = [digest(), answer(elsewhere(code, PYTHONHASHSEED="1", CONDYLE_CACHE=str(tmp_path / "one")))]
    assert list((tmp_path / "one").glob("*.cdo"))
    found.append(answer(elsewhere(code, PYTHONHASHSEED="5", CONDYLE_CACHE=str(tmp_path / "one"))))
    assert len(set(found)) == 1, found


RESUME = """
import condyle as cd
w, us, before = me['world']({name!r}), me['controls'](130)[0], cd.read_run({first!r})
with cd.Recorder(w, before.x[-1], {second!r}) as recorder:
    for u in us[50:]:
        recorder.step(u)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flat", "substeps"])
def test_another_process_resumes_from_a_run_file_bit_for_bit(tmp_path, name):
    w, us = world(name), controls(130)[0]
    x = np.zeros(w.nx)
    x[:17] = states()[0]
    all_steps = w.rollout(x, us)
    first, second = str(tmp_path / "first.cdl"), str(tmp_path / "second.cdl")
    with cd.Recorder(w, x, first) as recorder:
        for u in us[:50]:
            recorder.step(u)
    answer(elsewhere(RESUME.format(name=name, first=first, second=second), PYTHONHASHSEED="3"))
    assert same_bits(cd.read_run(second).x, all_steps[50:])


def test_one_kernel_for_rollouts_of_any_length(monkeypatch):
    """Rollouts of different lengths compile one kernel, and have the bits of steps."""
    compiled = []
    original = cpu.cached_kernel
    monkeypatch.setattr(cpu, "cached_kernel", lambda tape, *rest: compiled.append(tape.name) or original(tape, *rest))
    simulation = cd.Simulation(cd.load("wheeled-pendulum"), 0.01)
    x = simulation.state()
    for steps in (1, 7, 73):
        us = np.linspace(-1.0, 1.0, steps)[:, None] * np.ones(simulation.nu)
        xs = simulation.rollout(x, us)
        state = x
        for k in range(steps):
            state = simulation.step(state, us[k])
            assert np.array_equal(state, xs[k + 1])
    assert compiled.count("rollout") == 1
