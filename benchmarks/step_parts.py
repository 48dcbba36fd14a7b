"""Where the operations of a step are: counts of its parts, and the iterations that its solver takes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

import condyle as cd
from condyle.simulate import solver, step
from condyle.simulate.build import build_world
from condyle.simulate.kernels import Stepper, compiled
from condyle.simulate.step import Inputs, next_velocity, problem
from condyle.tape.ops import OPS
from condyle.tape.tape import Block

SLOW = ("div", "sqrt")
Count = tuple[int, int]  # (all operations, divisions and square roots)


def counted(block: Block) -> Count:
    """The operations of a block, without those of its loops."""
    names = [node.op for node in block.nodes if node.op in OPS]
    return len(names), sum(name in SLOW for name in names)


def operations(world: cd.Simulation) -> dict[str, Count]:
    """The operations of the parts of one step of the physics."""
    model, inner = world.robot.model, build_world(world.robot, world.config)
    sizes = {"q": model.nq, "v": model.nv, "u": world.nu}

    def dynamics(q: Any, v: Any, u: Any) -> Any:
        now = problem(inner, Inputs(q, v, u))
        return {"M": now.M, "p": now.p}

    def geometry(q: Any, v: Any, u: Any) -> Any:
        now = problem(inner, Inputs(q, v, u))
        constraints = {f"J{k}": b.J for k, b in enumerate(now.constraints) if b.J is not None}
        scales = {f"S{k}": [b.law.max_impulse, b.law.kappa, b.max_speed] for k, b in enumerate(now.constraints)}
        scales = {name: np.array(values, dtype=object) for name, values in scales.items()}
        return {"M": now.M, "p": now.p, **constraints, **scales}

    one, two = (counted(cd.function(f, **sizes).lowered().block) for f in (dynamics, geometry))
    full = compiled(Stepper(inner, world.integrator, world.substeps), "step", x=world.nx, u=max(world.nu, 1)).lowered().block
    # the attempts, in them the rounds with their iterations, and the last step
    attempts = _around(full, solver.ROUNDS)
    rounds, last = _with_count(attempts, solver.ROUNDS), _with_count(attempts, solver.REFINEMENTS)
    iteration = _with_count(rounds, solver.MAX_ITERATIONS)
    outside = [counted(block) for block in (attempts, rounds, last)]
    return {
        "M and p": one,
        "contact points and joint limits": _less(two, one),
        "the move": _less(counted(full), two),
        "the solver's start and residual": (sum(n for n, _ in outside), sum(n for _, n in outside)),
        "one iteration of the solver": counted(iteration),
    }


def iterations(world: cd.Simulation, x: np.ndarray, u: np.ndarray) -> dict[str, float]:
    """How many iterations the solver takes on these states: the mean, the mean over full vectors of the most, and the most."""
    found: list[Any] = []

    def counting(body: Any, start: Any, count: int, *, until: Any = None, body_keeps_tables: bool = False) -> Any:
        if count != solver.MAX_ITERATIONS:
            return body(0.0, start)  # the first attempt

        def both(k: Any, state: Any) -> Any:
            return body(k, state[0]), state[1] + 1.0

        state, n = cd.loop(both, (start, 0.0), count, until=lambda s: until(s[0]), body_keeps_tables=body_keeps_tables)
        found.append(n)
        return state

    def traced(x: Any, u: Any) -> Any:
        nq, nv = world.robot.nq, world.robot.nv
        next_velocity(build_world(world.robot, world.config), Inputs(x[:nq], x[nq : nq + nv], u))
        return {"n": found[0]}

    def without_rule(ancestor_dofs: Any, equations: Any, tolerance: float) -> Any:
        return solver.solve(ancestor_dofs, *equations, tolerance)

    # the derivative rule records the solver in a graph of its own
    with patch.object(solver, "loop", counting), patch.object(step, "solution", without_rule):
        function = cd.function(traced, x=world.nx, u=max(world.nu, 1))
    n = np.asarray(function(x, u)).ravel()
    lanes = function.lanes()
    vectors = n[: len(n) // lanes * lanes].reshape(-1, lanes)
    return {"mean": float(n.mean()), "lanes": float(vectors.max(axis=1).mean()), "most": int(n.max())}


def _with_count(block: Block, count: int) -> Block:
    """The body of the loop of a block that has this count."""
    return next(node.data.body for node in block.nodes if node.op == "loop" and node.data.count == count)


def _around(block: Block, count: int) -> Block:
    """The body of the loop of a block that has a loop with this count in it."""
    bodies = [node.data.body for node in block.nodes if node.op == "loop"]
    return next(body for body in bodies if any(node.op == "loop" and node.data.count == count for node in body.nodes))


def _less(a: Count, b: Count) -> Count:
    return a[0] - b[0], a[1] - b[1]
