"""Hashes of the tapes of many robots, for processes that believe to run on other processors.

The robots are texts, drawn with Python's own generator, so that their numbers are the same wherever they are read.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import condyle as cd
from condyle.constraints import reduced_dynamics as physics
from condyle.multibody.robot import Robot
from condyle.tape.trace import trace


def urdf(seed: int, joints: int, *, tree: bool) -> str:
    """A robot with oblique axes, turned placements and full inertias; a chain, or a tree that branches anywhere."""
    rng = random.Random(seed)

    def numbers(count: int, reach: float) -> str:
        return " ".join(f"{rng.uniform(-reach, reach):.17g}" for _ in range(count))

    links, connections = [], []
    for k in range(joints + 1):
        # heavy enough on the diagonal to be an inertia that a body can have
        diagonal = {name: rng.uniform(0.5, 0.6) for name in ("ixx", "iyy", "izz")}
        beside = {name: rng.uniform(-0.03, 0.03) for name in ("ixy", "ixz", "iyz")}
        entries = " ".join(f'{name}="{value!r}"' for name, value in (diagonal | beside).items())
        links.append(
            f'<link name="l{k}"><inertial><origin xyz="{numbers(3, 0.1)}" rpy="{numbers(3, 3.0)}"/>'
            f'<mass value="{rng.uniform(1.0, 2.0)!r}"/><inertia {entries}/></inertial></link>'
        )
    for k in range(joints):
        kind = rng.choice(["continuous", "continuous", "prismatic"])
        parent = rng.randrange(k + 1) if tree else k
        limit = '<limit lower="-1" upper="1" effort="9" velocity="9"/>' if kind == "prismatic" else ""
        connections.append(
            f'<joint name="j{k}" type="{kind}"><origin xyz="{numbers(3, 0.5)}" rpy="{numbers(3, 3.0)}"/>'
            f'<parent link="l{parent}"/><child link="l{k + 1}"/><axis xyz="{numbers(3, 1.0)}"/>{limit}</joint>'
        )
    return f'<robot name="random{seed}">{"".join(links)}{"".join(connections)}</robot>'


def robots(folder: Path, others: list[str]) -> dict[str, tuple[Robot, list[str]]]:
    """Name -> robot, and the functions to trace; `others`: files of robots."""
    most = ["forward_dynamics", "inverse_dynamics", "mass_matrix", "coriolis_matrix", "potential_energy", "momentum"]
    texts = {"arm": urdf(1, 7, tree=False), "tree": urdf(2, 9, tree=True), "chain": urdf(3, 50, tree=False)}
    found: dict[str, tuple[Robot, list[str]]] = {}
    for name, text in texts.items():
        (folder / f"{name}.urdf").write_text(text)
        found[name] = cd.load(folder / f"{name}.urdf"), most[:1] if name == "chain" else most
    found["floating arm"] = cd.load(folder / "arm.urdf", base="free"), ["forward_dynamics", "inverse_dynamics_derivatives"]
    found["ur3"] = cd.load("ur3"), most
    found["two_wheeled"] = cd.load("two_wheeled"), most[:1]
    return found | {Path(path).stem: (cd.load(path), most[:1]) for path in others}


def hashes(folder: Path, others: list[str]) -> dict[str, str]:
    """The hash of every tape, by robot and function."""
    found: dict[str, str] = {}
    for name, (robot, functions) in robots(folder, others).items():
        for function in functions:
            found[f"{name} {function}"] = robot.function(function).tape.hash
        known, frame = physics.FRAME_FUNCTIONS["jacobian"], robot.frame_names[-1]

        def traced(q: Any, known: Any = known, frame: str = frame, robot: Robot = robot) -> Any:
            return known.physics(robot.system, q, frame, "world_aligned")

        found[f"{name} jacobian"] = trace(traced, q=robot.nq).hash
    # a step on oblique ground
    robot = cd.load("wheeled_pendulum", base="free", constraints=False)
    simulation = cd.Simulation(robot, 0.002, cd.Plane(normal=(0.1, -0.2, 0.9)))
    found["step"] = trace(lambda x, u: simulation.step(x, u), x=simulation.nx, u=simulation.nu).hash
    return found
