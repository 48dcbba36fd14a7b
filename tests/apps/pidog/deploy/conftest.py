"""Random policies of PiDog's controller, deployed once for all tests."""

from dataclasses import replace

import numpy as np
import pytest

from condyle.apps.pidog import controller
from condyle.apps.pidog.deploy.deploy import deploy
from condyle.apps.pidog.deploy.deployment import deployment
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.policy_file import PolicyFile

COMMANDS = {"speed": [0.0, 0.25], "turn": [-1.0, 1.0]}


def policy_file(seed=0, hidden=(64, 64), **changes):
    """A random policy of PiDog's controller, whose actions are as large as those of a trained one."""
    sizes = (sum(n for _, n in controller.OBSERVATION), *hidden, len(controller.ACTION))
    rng = np.random.default_rng(seed)
    mean, std = 0.1 * rng.standard_normal(sizes[0]), rng.uniform(0.3, 1.0, sizes[0])
    policy = replace(initial_policy(sizes, gain=0.5, seed=seed), mean=mean, std=std)
    fields = {"robot": "pidog", "task": "walk", "rate": 50.0, "observation": controller.OBSERVATION, "action": controller.ACTION}
    return PolicyFile(policy, controller=controller.NUMBERS, commands=COMMANDS, **{**fields, **changes})


@pytest.fixture(scope="session", name="policy_file")
def policy_file_fixture():
    return policy_file


@pytest.fixture(scope="session")
def file():
    return policy_file()


@pytest.fixture(scope="session")
def small():
    return policy_file(hidden=(4,))


@pytest.fixture(scope="session")
def made(file):
    return deployment(file)


@pytest.fixture(scope="session")
def folder(file, tmp_path_factory):
    path = tmp_path_factory.mktemp("deployed") / "dog"
    deploy(file, path)
    return path
