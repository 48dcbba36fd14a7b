"""How a world is stepped: which integrator, how many steps of the physics make one step, and what a packed state holds."""

from __future__ import annotations

from dataclasses import dataclass

from condyle.simulate.world import World

INTEGRATORS = ("semi_implicit_euler", "explicit_euler", "rk2", "rk4", "backward_euler")


@dataclass(frozen=True)
class Setup:
    """A world with the way it is stepped: `substeps` of the physics make one step."""

    world: World
    integrator: str
    substeps: int

    @property
    def nq(self) -> int:
        return self.world.reduced.nq

    @property
    def nx(self) -> int:
        """q, v, and the count of steps of the physics if forces depend on time."""
        return self.nq + self.world.nv + self.world.timed
