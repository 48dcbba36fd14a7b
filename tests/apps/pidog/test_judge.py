"""Judged policies: a trot, a shuffle, another task, and errors of `condyle judge`."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner
from rich.console import Console

import condyle.commands.cli  # noqa: F401  (adds the commands)
from condyle.apps.pidog import controller
from condyle.apps.pidog.judge import score_parts
from condyle.commands.app import app
from condyle.commands.judge import show
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import load_task

OBSERVATIONS = sum(size for _, size in controller.OBSERVATION)


def still(observation: int = OBSERVATIONS, actions: int = len(controller.ACTION)) -> object:
    """A policy whose actions are next to nothing."""
    return initial_policy((observation, 8, actions), gain=1e-6)


def trot(**numbers: object) -> PolicyFile:
    given = {**controller.NUMBERS, **numbers}
    return PolicyFile(still(), "pidog", "walk", 50.0, controller.OBSERVATION, controller.ACTION, controller=given)


@pytest.fixture(scope="module")
def cart_pole() -> PolicyFile:
    task = load_task("cartpole", "balance")
    return PolicyFile(still(5, 1), "cartpole", "balance", 50.0, task.observation, task.action)


def run(*arguments: object) -> object:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def shown(found: dict[str, object]) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    show(found, console)
    return console.export_text()


@pytest.mark.slow
def test_command_judges_the_gait(tmp_path: Path) -> None:
    """A dozen dogs: the table, JSON and picture."""
    trot().save(tmp_path / "trot.cdp")
    found = run("judge", tmp_path / "trot.cdp", "--episodes", 12, "--seconds", 4, "--json", "-o", tmp_path / "trot.png")
    assert found.exit_code == 0, found.output
    walk = json.loads(found.stdout)
    assert walk["episodes"] == 12 and walk["commands"] == [[0.21, 0.0]] and len(walk["lift"]) == len(walk["duty"]) == 4
    assert 0.05 < walk["speed"] < 0.3 and min(walk["lift"]) > 0.004
    assert (tmp_path / "trot.png").read_bytes().startswith(b"\x89PNG")
    assert "cost of transport" in shown(walk) and "condyle deploy" in shown(walk) and f"{walk['score']:.1f}" in shown(walk)


def test_no_part_of_the_score_makes_up_for_another() -> None:
    good = {"speed_error": 0.0, "lift": [0.012] * 4, "slip": 0.05, "heading_error": 5.0, "cost_of_transport": 0.6, "shake": 0.8}
    bad = {"speed_error": 0.22, "lift": [0.0, *[0.02] * 3], "slip": np.nan, "heading_error": 60.0, "cost_of_transport": np.inf}
    bad["shake"] = 4.0
    for name in (None, *bad):
        found = {**good} if name is None else {**good, name: bad[name]}
        parts = score_parts({key: np.array([value]) for key, value in found.items()}, np.array([0.22]))
        assert np.prod(list(parts.values())) == (1.0 if name is None else 0.0), name
    # a shuffle: the speed, with feet that rise by 2 mm and slide
    shuffle = {key: np.array([value]) for key, value in {**good, "lift": [0.002] * 4, "slip": 0.3}.items()}
    assert np.isclose(np.prod(list(score_parts(shuffle, np.array([0.22])).values())), 0.1)


def test_command_judges_any_task(cart_pole: PolicyFile, tmp_path: Path) -> None:
    cart_pole.save(tmp_path / "p.cdp")
    found = run("judge", tmp_path / "p.cdp", "--episodes", 32, "--json")
    assert found.exit_code == 0, found.output
    numbers = json.loads(found.stdout)
    assert numbers["falls"] == 1.0 and 0.1 < numbers["seconds"] < 5.0 and 0.0 < numbers["measures"]["upright"] <= 1.0
    assert "ended early" in shown(numbers) and "32 of 32" in shown(numbers)


def test_errors_are_sentences(cart_pole: PolicyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(file: PolicyFile, *options: object, code: int = 2, cut: int = 0) -> str:
        path = file.save(tmp_path / "p.cdp")
        path.write_bytes(path.read_bytes()[: -cut or None])
        found = run("judge", path, *options)
        assert found.exit_code == code, found.output
        assert found.output.count("\n") == 1 and found.output.startswith("condyle: ")
        return found.output

    walk = trot()
    assert "truncated or damaged" in error(walk, cut=2000)
    assert "no tasks for the robot 'fish'" in error(replace(walk, robot="fish"))
    assert "'pidog' has no task 'dance'" in error(replace(walk, task="dance"))
    smaller = replace(walk, policy=still(9), observation=[("rate", 9)])
    assert f"takes 9 observations (rate 9), and {OBSERVATIONS} are given" in error(smaller)
    assert "gives 3 actions" in error(replace(walk, policy=still(actions=3), action=["a", "b", "c"]))
    assert "lacks the number" in error(replace(walk, controller={}))
    assert "takes 4 observations (all 4), and 5 are given" in error(
        replace(cart_pole, policy=still(4, 1), observation=[("all", 4)])
    )
    assert "one of condyle, mujoco; got 'bullet'" in error(walk, "--engine", "bullet")
    assert "only PiDog's walk has a twin" in error(cart_pole, "--engine", "mujoco")
    assert "--speed is a command of PiDog's walk" in error(cart_pole, "--speed", 1)
    assert "2 to 600 s, got 1000 of 0 s" in error(walk, "--seconds", 0)
    assert "up to 600 s" in error(cart_pole, "--seconds", -1)
    assert "commands (m/s, rad/s) that are finite" in error(walk, "--speed", "nan")
    assert "a picture is .png, .svg or .pdf, got p.txt" in error(walk, "-o", tmp_path / "p.txt")
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert "mjcf" in error(walk, "--engine", "mujoco", "--episodes", 2, code=3)
