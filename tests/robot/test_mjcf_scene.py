"""An MJCF scene: passive forces as MuJoCo has them, keyframes, start pose, ground, friction and contact bits, gravity, time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics.energy import potential_energy
from condyle.dynamics.manifold import integrate, random_configuration
from condyle.dynamics.passive import passive_forces
from condyle.dynamics.posture import posture_energy, posture_forces
from condyle.robot.build import build
from condyle.robot.conventions import q_to_mujoco, v_to_mujoco
from condyle.robot.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

# the same forces in float64
SAME = 1e-12

# springs with springref beside ref, on a slide and on ball joints; compensated bodies, one of them fixed to another; a free box
PASSIVE = """
<mujoco model="passive">
  <compiler angle="radian"/>
  <option gravity="0.3 0 -9.5"/>
  <worldbody>
    <body name="a" gravcomp="1">
      <joint name="a" axis="0 1 0" stiffness="3" springref="0.4" ref="0.1" damping="0.2" frictionloss="0.1" armature="0.05"/>
      <geom type="box" size="0.1 0.05 0.2" pos="0.2 0 0.1"/>
      <body name="fixed" pos="0.1 0.2 0" euler="0.3 0.2 0.1" gravcomp="0.5"><geom size="0.1" pos="0.1 0 0"/></body>
      <body name="b" pos="0.5 0 0" euler="0.1 0.5 -0.2">
        <joint name="b" type="ball" stiffness="2" damping="0.3"/>
        <geom type="capsule" size="0.05 0.2" pos="0 0.1 0.2"/>
        <body name="c" pos="0 0 0.5" gravcomp="0.3">
          <joint name="c" type="slide" axis="1 1 0" stiffness="50" springref="-0.1" damping="1"/>
          <geom type="ellipsoid" size="0.1 0.2 0.05"/>
        </body>
      </body>
    </body>
    <body name="box" pos="1 0 1" gravcomp="0.7"><freejoint/><geom type="box" size="0.1 0.2 0.1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("seed", range(3))
def test_passive_forces_are_those_of_mujoco(seed: int) -> None:
    rng, theirs, description = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(PASSIVE), read_mjcf(PASSIVE)
    assert description.gravity is not None
    model = build(description, gravity=description.gravity)
    q, v = random_configuration(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:] = q_to_mujoco(model, q), v_to_mujoco(model, q, v)
    mujoco.mj_forward(theirs, data)
    model = replace(model, links=tuple(replace(link, friction=0.0) for link in model.links))  # a constraint in MuJoCo
    found = v_to_mujoco(model, q, passive_forces(model, q, v).astype(float))
    np.testing.assert_allclose(found, data.qfrc_passive, atol=SAME * np.abs(data.qfrc_passive).max())

    # the forces are minus the gradient of their energy
    for k, e in enumerate(np.eye(model.nv)):
        up, down = (float(posture_energy(model, integrate(model, q, e * d).astype(float))) for d in (1e-6, -1e-6))
        assert float(posture_forces(model, q)[k]) == pytest.approx((down - up) / 2e-6, abs=1e-7 * abs(up))
    assert potential_energy(model, q) != 0.0


# a hinge and a ball joint with all of that, and nothing else
SMALL = PASSIVE[: PASSIVE.index('        <body name="c"')] + "</body></body></worldbody></mujoco>"
PLAIN: dict[str, Any] = {"joint_friction": False, "integrator": "explicit_euler"}


def test_passive_forces_act_in_a_simulation(tmp_path: Path) -> None:
    path = tmp_path / "small.xml"
    path.write_text(SMALL.replace('gravity="0.3 0 -9.5"', 'gravity="0.3 0 -9.5" timestep="1e-6"'))
    theirs = mujoco.MjModel.from_xml_path(str(path))
    theirs.dof_frictionloss[:] = 0.0
    simulation = cd.Simulation(cd.load(path), **PLAIN)
    model, rng = simulation.robot.model, np.random.default_rng(0)
    assert model.gravity == (0.3, 0.0, -9.5) and simulation.dt == 1e-6 and simulation.ground is None
    q, v = random_configuration(model, rng), rng.uniform(-1.0, 1.0, model.nv)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:] = q_to_mujoco(model, q), v
    mujoco.mj_forward(theirs, data)
    x1 = simulation.step(simulation.state(q, v), np.zeros(simulation.nu), backend="reference")
    # differences of velocities over a microsecond keep nine digits
    np.testing.assert_allclose((simulation.split(x1)[1] - v) / simulation.dt, data.qacc, atol=1e-7 * np.abs(data.qacc).max())


def test_derivatives_of_a_step_know_passive_forces(tmp_path: Path) -> None:
    path = tmp_path / "small.xml"
    path.write_text(SMALL)
    simulation = cd.Simulation(cd.load(path), dt=0.01, **PLAIN)
    robot, rng = simulation.robot, np.random.default_rng(1)
    q, v, u = random_configuration(robot.model, rng), rng.uniform(-1.0, 1.0, robot.nv), np.zeros(simulation.nu)
    _, A, _ = simulation.step(simulation.state(q, v), u, derivatives=True, backend="reference")
    for k, e in enumerate(np.eye(robot.nv)):
        near = [integrate(robot.model, q, e * d).astype(float) for d in (1e-6, -1e-6)]
        up, down = (simulation.split(simulation.step(simulation.state(n, v), u, backend="reference"))[1] for n in near)
        np.testing.assert_allclose(A[robot.nv :, k], (up - down) / 2e-6, atol=1e-7)
