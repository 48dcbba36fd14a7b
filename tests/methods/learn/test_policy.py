"""Policies, and the file they are kept in."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError, FileError
from condyle.methods.learn.checkpoint import load_checkpoint, save_checkpoint
from condyle.methods.learn.policy import Policy, initial_policy
from condyle.methods.learn.policy_file import PolicyFile


def policy(activation: str = "elu", **options) -> Policy:
    rng = np.random.default_rng(1)
    layers = tuple((rng.normal(size=s), rng.normal(size=s[0])) for s in ((6, 4), (5, 6), (2, 5)))
    return Policy(layers, activation, mean=rng.normal(size=4), std=rng.uniform(0.5, 2.0, 4), **options)


def kept(**options) -> PolicyFile:
    facts = {"robot": "pidog", "task": "walk", "rate": 50.0, "observation": [("rate", 3), ("phase", 1)], "action": ["a", "b"]}
    return PolicyFile(policy(), **(facts | options))


@pytest.mark.parametrize("activation", ["elu", "tanh", "relu"])
def test_a_policy_is_its_block(activation: str) -> None:
    p = policy(activation)
    observations = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float32) * 3
    block = p.block()
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01)
    loop = cd.Loop(world, lambda x, observation: block(observation), observation=4)
    out = loop.rollout(np.tile(loop.state(), (8, 1)), observations[:, None].astype(float), 1, record=["u"])
    assert np.allclose(p(observations), out["u"][:, 0], rtol=0, atol=5e-6)  # float32 against float64
    assert p(observations).dtype == np.float32 and p(observations[0]).shape == (2,)


def test_initial_policies_are_orthogonal_and_begin_near_zero() -> None:
    p = initial_policy((10, 32, 16, 3), std=0.5, seed=3)
    W0, W1 = p.layers[0][0], p.layers[1][0]
    assert np.allclose(W0.T @ W0, 2 * np.eye(10), atol=1e-5) and np.allclose(W1 @ W1.T, 2 * np.eye(16), atol=1e-5)
    assert np.abs(p(np.ones((5, 10)))).max() < 0.1 and np.allclose(np.exp(p.log_std), 0.5)
    again, other = initial_policy((10, 32, 16, 3), seed=3), initial_policy((10, 32, 16, 3), seed=4)
    assert np.array_equal(p.layers[0][0], again.layers[0][0]) and not np.array_equal(W0, other.layers[0][0])


def test_a_file_gives_the_policy_back(tmp_path: Path) -> None:
    first = kept(
        controller={"scale": np.float32(0.5), "foot": np.arange(2)}, commands={"speed": (0.0, 0.25)}, score={"fall": np.nan}
    )
    path = first.save(tmp_path / "walk.cdp")
    again = PolicyFile.load(path)
    assert again.hash == first.hash and again.policy.activation == "elu"
    assert all(np.array_equal(a, again.policy.arrays()[name]) for name, a in first.policy.arrays().items())
    assert again.controller == {"scale": 0.5, "foot": [0, 1]} and again.commands == {"speed": [0.0, 0.25]}
    assert again.observation == (("rate", 3), ("phase", 1)) and again.score == {"fall": None}
    assert again.save(tmp_path / "again.cdp").read_bytes() == path.read_bytes()


def test_errors_of_policies() -> None:
    with pytest.raises(ControlError, match=r"layer 0 of a policy has 6 outputs, and layer 1 takes 5"):
        Policy(((np.ones((6, 4)), np.ones(6)), (np.ones((2, 5)), np.ones(2))))
    with pytest.raises(ControlError, match="W1' of the policy has values that are not finite"):
        Policy(((np.ones((6, 4)), np.ones(6)), (np.full((2, 6), np.nan), np.ones(2))))
    with pytest.raises(ControlError, match="takes 4 observations, and is given an array of shape"):
        policy()(np.ones(5))
    with pytest.raises(ControlError, match=r"takes 4 observations, and its parts are rate 3, phase 2"):
        kept(observation=[("rate", 3), ("phase", 2)])
    with pytest.raises(ControlError, match=r"takes 4 observations \(rate 3, phase 1\), and 7 are given"):
        kept().require_observation(7)
    with pytest.raises(ControlError, match="trained for the robot 'pidog', not for 'anymal'"):
        kept().require_robot("anymal")
    with pytest.raises(ControlError, match="trained for the task 'walk', not for 'stand'"):
        kept().require_robot("pidog", "stand")


def test_errors_of_files(tmp_path: Path) -> None:
    path = kept().save(tmp_path / "walk.cdp")
    content = path.read_bytes()

    def changed(name: str, new: bytes) -> Path:
        other = tmp_path / "changed.cdp"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as file:
            for entry in old.namelist():
                file.writestr(entry, new if entry == name else old.read(entry))
        return other

    def facts(**new) -> bytes:
        with zipfile.ZipFile(path) as file:
            return json.dumps(json.loads(file.read("policy.json")) | new).encode()

    def error(content: bytes | Path) -> str:
        file = content if isinstance(content, Path) else tmp_path / "bad.cdp"
        if isinstance(content, bytes):
            file.write_bytes(content)
        with pytest.raises(FileError) as caught:
            PolicyFile.load(file)
        assert str(caught.value).count("\n") == 0
        return str(caught.value)

    assert "is not a policy file of Condyle" in error(b"hello") and "is not a policy file" in error(b"")
    assert "truncated or damaged" in error(content[: len(content) // 2])
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    assert "truncated or damaged" in error(bytes(flipped))
    assert "of version 2, and this Condyle reads version 1" in error(changed("policy.json", facts(version=2)))
    assert "knows mlp, lstm" in error(changed("policy.json", facts(kind="tree")))
    assert "'rate' is missing or has the wrong type" in error(changed("policy.json", facts(rate="fast")))
    assert "parts are rate 9" in error(changed("policy.json", facts(observation=[["rate", 9]])))
    assert "between 1 and 64 layers" in error(changed("policy.json", facts(layers=10**9)))
    assert "truncated or damaged" in error(changed("W0.npy", b"no array"))
    assert "cannot be read" in error(tmp_path / "none.cdp")


def test_a_flipped_bit_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.checkpoint"
    facts, arrays = {"iterations": 3}, {"memory": np.ones((2, 2), np.float32)}
    save_checkpoint(path, facts, arrays)
    wanted, content = load_checkpoint(path)[0], path.read_bytes()
    refused = 0
    # bits of the table of contents, and some of those before it
    table = content.index(b"PK\x01\x02")
    for bit in [*range(0, 8 * table, 71), *range(8 * table, 8 * len(content), 5)]:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found, read = load_checkpoint(path)
        except FileError:
            refused += 1
        else:
            assert found == wanted and read.keys() == arrays.keys()
            assert all(np.array_equal(read[name], value) for name, value in arrays.items())
    assert refused > 100
