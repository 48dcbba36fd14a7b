"""The next state depends on state, controls and parameters alone: not on the call that computes it, nor on what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_sphere
from simulate.test_same_bits import biped
from tape.test_export_c import COMPILERS, MODES, build, call

import condyle as cd
from condyle.tape import link
from condyle.tape.backends import cpu
from condyle.tape.cache import ObjectCache
from condyle.tape.export.c import c_source
from condyle.tape.passes import lower

TICKS, H = 64, 0.002


def a_tree() -> cd.Robot:
    """An arm on a base that moves freely."""
    return cd.load("ur3", base="free")


SIMULATIONS: dict[str, Callable[[], cd.Simulation]] = {
    "ball": lambda: cd.Simulation(a_sphere(), H, cd.Plane(friction=0.7), actuated=a_sphere().joint_names),
    "biped": lambda: cd.Simulation(biped(), H, cd.Plane(friction=0.7)),
    "wheels": lambda: cd.Simulation(cd.load("wheeled_pendulum"), H),  # rolls without slip
    "pidog": lambda: cd.Simulation(cd.load("pidog"), H, cd.Plane(friction=0.5), "*_foot"),  # has limbs
    "arm": lambda: cd.Simulation(a_tree(), H, None),
}


@cache
def case(name: str) -> tuple[cd.Simulation, np.ndarray, np.ndarray, np.ndarray]:
    """(simulation, first state, controls, the states that `step` gives one after the other)."""
    s, rng = SIMULATIONS[name](), np.random.default_rng(0)
    if s.ground is not None and name != "wheels":
        x = s.stand()
    else:
        x = s.state(s.robot.random_configuration(rng), rng.normal(size=s.robot.nv))
    us = 0.05 * rng.normal(size=(TICKS, s.nu))
    return s, x, us, one_by_one(s.step, x, us)


def one_by_one(step: Callable[..., Any], x: np.ndarray, us: np.ndarray) -> np.ndarray:
    xs = [x]
    for u in us:
        xs.append(step(xs[-1], u))
    return np.array(xs)


def looped(s: cd.Simulation, x: np.ndarray, us: np.ndarray, record: list[str]) -> np.ndarray:
    """The last state of a loop whose outputs are products of its state."""

    def products(x: Any, u: Any) -> dict[str, Any]:
        return {"u": u, "qq": np.outer(x.q, x.q).ravel(), "vv": np.outer(x.v, x.v).ravel()}

    loop = cd.Loop(s, products, u=s.nu)
    return loop.rollout(loop.state(*s.split(x)), us, TICKS, record=record).x[: s.nx][None]


def exported(s: cd.Simulation, x: np.ndarray, us: np.ndarray, folder: Path) -> np.ndarray:
    """The states that the step gives as C."""
    tape = lower(s.step_function().tape, "f64")
    library = build(c_source(tape, "f64", "step"), folder, MODES[0])
    return one_by_one(lambda x, u: call(library, "step", tape, [x[None], u[None]])[0][0], x, us)


FORMS: dict[str, Callable[..., np.ndarray]] = {
    "rollout": lambda s, x, us, _: s.rollout(x, us),
    "derivatives": lambda s, x, us, _: one_by_one(lambda x, u: s.step(x, u, derivatives=True)[0], x, us),
    "loop": lambda s, x, us, _: looped(s, x, us, []),
    "loop, q and v recorded": lambda s, x, us, _: looped(s, x, us, ["q", "v"]),
    "loop, products recorded": lambda s, x, us, _: looped(s, x, us, ["qq", "vv"]),
    "traced": lambda s, x, us, _: one_by_one(cd.function(s.step, x=s.nx, u=s.nu), x, us),
    "traced rollout": lambda s, x, us, _: cd.function(s.rollout, x=s.nx, us=us.shape)(x, us),
    "step_function": lambda s, x, us, _: one_by_one(lambda x, u: s.step_function()(x, u)[0], x, us),
    "C": exported,
}


def combinations() -> list[Any]:
    """All robots in all forms."""
    out = []
    for name in SIMULATIONS:
        for form in FORMS:
            marks = [pytest.mark.slow] if name not in ("ball", "wheels") else []
            marks += [pytest.mark.skipif(not COMPILERS, reason="no C compiler")] if form == "C" else []
            out.append(pytest.param(name, form, marks=marks, id=f"{name}: {form}"))
    return out


@pytest.mark.parametrize(("name", "form"), combinations())
def test_every_form_gives_the_bits_of_a_step(name: str, form: str, tmp_path: Path) -> None:
    s, x, us, wanted = case(name)
    found = FORMS[form](s, x, us, tmp_path)
    assert np.array_equal(found, wanted[-len(found) :])


def test_the_first_client_alone_compiles_the_physics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Step, rollout, loops with any record, and a trace with derivative rules link the same code, for one state."""
    cache = ObjectCache(tmp_path / "cache")
    for module in (cpu, link):
        monkeypatch.setattr(module, "shared_cache", lambda: cache)
    monkeypatch.setattr(link, "LINKED", 1)
    texts: list[str] = []
    compile_object = cpu.object_code
    monkeypatch.setattr(cpu, "object_code", lambda text: texts.append(text) or compile_object(text))
    s = SIMULATIONS["ball"]()
    x, us = s.stand(), np.zeros((TICKS, s.nu))
    s.step(x, us[0])
    physics = [text for text in texts if "define void @subroutine_" in text]
    assert len(physics) == 1
    for form in ("rollout", "loop", "loop, products recorded", "traced", "step_function"):
        before = len(texts)
        FORMS[form](s, x, us, tmp_path)
        new = texts[before:]
        assert (new or form == "rollout") and not any("define void @subroutine_" in text for text in new), form
