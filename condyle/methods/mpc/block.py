"""A solver as a block of a closed loop: it solves every few ticks, and its plan is part of the loop's state.

mpc = condyle.methods.mpc.SolverBlock(solver, x0, every=10)
loop = cd.Loop(world, lambda x, target: mpc(np.concatenate([x.q, x.v]), reference=target), target=3)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.methods.mpc.solver import Solver
from condyle.tape.array import array
from condyle.tape.table import Table


class SolverBlock(Block):
    """Model-predictive control inside of a loop: the state in, the first control of the plan out.

    `start`: the state, and `u` the control, that the first plan stays at. Data of the problem are inputs by name, with the
    defaults of the problem otherwise. A state that is not finite keeps the last plan, and `status` of the block says so.
    """

    def __init__(self, solver: Solver, start: Any, u: Any = None, *, name: str = "mpc", every: int = 1) -> None:
        super().__init__(name=name, every=every)
        if not isinstance(solver, Solver):
            raise ControlError(f"block '{name}' needs a solver, like problem.rti(); got {type(solver).__name__}")
        self.solver = solver
        plan = solver.start(start, u)
        if any(np.ndim(x) != len(solver.plan_shapes[key]) for key, x in plan.items()):
            raise ControlError(f"block '{name}': start is one state (nx,), without batch axes")
        for key, value in plan.items():
            self.state(key, value)
        self.state("status", 0.0)
        self.state("iterations", 0.0)

    def step(self, state: dict[str, Any], *inputs: Any, **data: Any) -> tuple[Any, dict[str, Any]]:
        """(control, next plan)."""
        (x,) = inputs
        solver, problem = self.solver, self.solver.problem
        unknown = [key for key in data if key not in problem.data]
        if unknown:
            raise ControlError(f"block '{self.name}': the problem has no data '{unknown[0]}'; it has {', '.join(problem.data)}")
        plan = {key: state[key] for key in solver.plan_shapes}
        given = {key: np.asarray(value, dtype=object) for key, value in data.items()}
        for key, value in given.items():
            shape = problem.data[key].shape
            given[key] = array(np.broadcast_to(value, shape))
        defaults = {key: p.default for key, p in problem.data.items() if key not in given}
        found = solver.solution(solver.function(x, *plan.values(), **given, **defaults))
        arrays = {key: value[:] if isinstance(value, Table) else value for key, value in found.plan.items()}
        return found.u, {**arrays, "status": found.status, "iterations": found.iterations}
