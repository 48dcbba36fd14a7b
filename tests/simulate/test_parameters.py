"""Parameters of a world: the list of them, values against worlds built with them, derivatives, sweeps, impossible values."""

from __future__ import annotations

from typing import Any

import pytest
from simulate import bodies

import condyle as cd
from condyle.simulate.kernels import KERNELS, Stepper
from condyle.simulate.parameters import parameterized, world_parameters
from condyle.tape.trace import trace

HINGE = {"damping": 0.1, "friction": 0.2, "armature": 0.01, "limits": (-1.0, 2.0), "effort": 3.0}


def pendulum(**options: Any) -> cd.Simulation:
    """A damped pendulum with dry friction, limits, a spring and an effort limit."""
    return cd.Simulation(bodies.a_pendulum(**HINGE), 0.002, springs={"hinge": (5.0, 0.3)}, **options)


def tape(simulation: cd.Simulation, kernel: str, values: dict[str, Any]) -> Any:
    """The tape of a kernel of the world with these numbers."""
    world = parameterized(simulation._world, values)
    stepper = Stepper(world, simulation.integrator, simulation.substeps)
    return trace(lambda **arrays: KERNELS[kernel](stepper, **arrays), x=simulation.nx, u=max(simulation.nu, 1))


# ---- the list


def test_the_list_has_units_defaults_and_bounds() -> None:
    known = world_parameters(pendulum()._world)
    assert known["hinge.damping"].default == 0.1 and known["hinge.damping"].unit == "N m s/rad"
    assert known["hinge.stiffness"].default == 5.0 and known["rod.stiffness"] is known["hinge.stiffness"]
    assert known["gravity"].shape == (3,) and known["rod.inertia"].shape == (3, 3)
    assert known["rod.mass"].minimum == 0.0 and known["dt"].default == 0.002
    lines = repr(known).splitlines()
    assert lines[0].split() == ["parameter", "unit", "default"] and len(lines) == len(known) + 1
    assert any(line.split() == ["hinge.friction", "N", "m", "0.2"] for line in lines)
    feet = world_parameters(cd.Simulation(cd.load("pidog"), 0.004, cd.Plane(), ["*_foot"])._world)
    # a frame and a contact point have the same name
    assert {"lf_foot.position", "contact:lf_foot.position", "lf_foot.friction", "ground.slope"} <= set(feet)


@pytest.mark.parametrize("kernel", ["step", "jacobians"])
def test_default_numbers_give_the_same_tape(kernel: str) -> None:
    """Numbers that are not traced are constants: no operation is added."""
    rounded = ("com", "inertia", "rpy", "slope", "azimuth")  # computed from the numbers of the world, and back
    for simulation in (pendulum(), bodies.box_on(cd.Plane(), 0.002)):
        known = world_parameters(simulation._world)
        values = {name: spec.default for name, spec in known.items() if name.rpartition(".")[2] not in rounded}
        assert tape(simulation, kernel, values).hash == tape(simulation, kernel, {}).hash
