"""Loops as published MJCF files write them: rods on ball joints, redundant and inexact closures, pinned bodies; beside MuJoCo.

The leg has the lengths, masses and springs of Agility's Cassie in agility_cassie/cassie.xml of the MuJoCo menagerie, with
inertias rounded: an achilles rod on a ball joint closes a spatial loop with two leaf springs in it, and a plantar rod a planar
one; at the written pose the plantar loop is at a dead centre, and outside of its joints' limits.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.robot.conventions import a_to_mujoco, q_to_mujoco, v_to_mujoco
from condyle.tape.function import Function
from condyle.tape.trace import trace
from condyle.workbench.doctor.diagnose import FAILS, diagnose

mujoco = pytest.importorskip("mujoco")

# one side solves with M and T, the other with M and J, in float64; accelerations of rods without load are up to 1e3
SOLVED = 1e-10

LEG = """<mujoco model="leg"><compiler autolimits="true"/><worldbody>
<body name="thigh" pos="0 0 1" xyaxes="0 0 -1 1 0 0"><inertial pos=".06 0 -.036" mass="5.52" diaginertia=".011 .03 .03"/>
 <joint name="hip" range="-50 80" damping="1" armature=".0934"/>
 <body name="achilles" pos="0 0 .045" xyaxes=".7922 -.60599 -.072096 .60349 .79547 -.054922">
  <inertial pos=".247 0 0" mass=".157" diaginertia="4e-6 .0045 .0045"/><joint name="achilles" type="ball"/></body>
 <body name="knee" pos=".12 0 .0045" xyaxes=".70711 -.70711 0 .70711 .70711 0">
  <inertial pos=".023 .032 -.0022" mass=".944" diaginertia=".0014 .0011 .0022"/>
  <joint name="knee" ref="-45" range="-164 -37" damping="1" armature=".0934"/>
  <body name="shin" pos=".06068 .04741 0"><inertial pos=".183 .0012 0" mass=".577" diaginertia=".0004 .0147 .0147"/>
   <joint name="shin" range="-20 20" stiffness="1500" damping=".1"/>
   <body name="tarsus" pos=".43476 .02 0" xyaxes=".52992 .84805 0 -.84805 .52992 0">
    <inertial pos=".11 -.031 -.0013" mass=".782" diaginertia=".0004 .0136 .0137"/>
    <joint name="tarsus" ref="58" range="50 170" damping=".1"/>
    <body name="heel" pos="-.01269 -.03059 .00092" xyaxes="-.91211 .40829 .036948 -.40992 -.90952 -.068841">
     <inertial pos=".081 .0022 0" mass=".126" diaginertia="3e-5 .00022 .0002"/><joint name="heel" stiffness="1250"/></body>
    <body name="crank" pos=".058 -.034 .02275"><inertial pos=".0049 0 -.0021" mass=".126" diaginertia="3e-5 5e-5 6e-5"/>
     <joint name="crank" range="-140 -30" damping="1"/>
     <body name="plantar" pos=".055 0 -.00791"><inertial pos=".178 0 0" mass=".119" diaginertia="3e-6 .0018 .0018"/>
      <joint name="plantar"/></body></body>
    <body name="foot" pos=".408 -.04 0"><inertial pos=".0047 .0275 0" mass=".15" diaginertia=".0003 .00017 .00033"/>
     <joint name="foot" range="-140 -30" damping="1" armature=".012"/></body>
</body></body></body></body></worldbody>
<equality><connect body1="plantar" body2="foot" anchor=".35012 0 0"/><connect body1="achilles" body2="heel" anchor=".5012 0 0"/>
</equality><actuator><motor joint="hip"/><motor joint="knee"/><motor joint="foot"/></actuator></mujoco>"""

# a four-bar whose pins are off by 19 nm across its plane, and whose last axis is parallel to the others but for its digits
FOUR_BAR = """<mujoco model="bars"><worldbody>
<body name="crank"><joint name="crank" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .25" size=".02"/>
 <body name="coupler" pos="0 0 .25"><joint name="coupler" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 1 0 .1" size=".02"/>
  <site name="end" pos="1 {off} .1"/></body></body>
<body name="rocker" pos="1 0 -.25"><joint name="rocker" axis="{axis}"/><geom type="capsule" fromto="0 0 0 0 0 .6" size=".02"/>
 <site name="top" pos="0 0 .6"/></body>
</worldbody><equality><{kind} name="ring" site1="end" site2="top"/></equality></mujoco>"""

PINNED = """<mujoco model="pinned"><worldbody>
<body name="rod" pos=".3 .1 1" quat=".9 .1 .3 .2"><freejoint name="rod"/>
<geom type="capsule" fromto="-.2 0 0 .3 0 0" size=".03"/></body>
</worldbody><equality><connect body1="rod" anchor="-.2 .01 0"/>{more}</equality></mujoco>"""
HINGED = PINNED.format(more='<connect body1="rod" anchor=".1 .05 .02"/>')


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def leg(tmp_path_factory: pytest.TempPathFactory) -> cd.Robot:
    return cd.load(written(tmp_path_factory.mktemp("leg") / "leg.xml", LEG))


def accelerations(robot: cd.Robot, y: np.ndarray, w: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """T rate + Tdot w."""

    def full(y: Any, w: Any, rate: Any) -> Any:
        return {"a": robot.coordinate_map.at(robot.model, y).acceleration(rate, w)}

    found: np.ndarray = Function(trace(full, y=len(y), w=len(w), rate=len(w)), "reference")(y, w, rate)
    return found


def multipliers(theirs: Any, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(accelerations, gaps) with M, c, J and Jdot of MuJoCo:  M a + c = J^T multipliers,  J a + Jdot v = 0."""
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(theirs, data)
    M, J, fast, gaps = np.zeros((theirs.nv, theirs.nv)), [], [], []
    mujoco.mj_fullM(theirs, data, M)
    for i in range(theirs.neq):
        ends = []
        for body, anchor in zip((theirs.eq_obj1id[i], theirs.eq_obj2id[i]), theirs.eq_data[i, :6].reshape(2, 3), strict=True):
            at = data.xpos[body] + data.xmat[body].reshape(3, 3) @ anchor
            jac, dot = np.zeros((3, theirs.nv)), np.zeros((3, theirs.nv))
            mujoco.mj_jac(theirs, data, jac, None, at, body)
            mujoco.mj_jacDot(theirs, data, dot, None, at, body)
            ends.append((jac, dot @ qvel, at))
        (a, da, pa), (b, db, pb) = ends
        J, fast, gaps = [*J, a - b], [*fast, da - db], [*gaps, pa - pb]
    A = np.vstack(J)
    # redundant rows have no multipliers of their own: those of the strong directions are enough
    U, s, _ = np.linalg.svd(A)
    rows = U[:, : int(np.sum(s > 1e-4 * s[0]))].T
    A, drift = rows @ A, rows @ np.concatenate(fast)
    n, k = theirs.nv, len(A)
    K = np.block([[M, A.T], [A, np.zeros((k, k))]])
    found = np.linalg.solve(K, np.concatenate([-data.qfrc_bias, -drift]))[:n]
    return found, np.concatenate(gaps)


def check_against_mujoco(robot: cd.Robot, text: str, seed: int = 0, spread: float = 0.2) -> None:
    """Closed poses and accelerations at random states near the first, beside MuJoCo's."""
    theirs, rng = mujoco.MjModel.from_xml_string(text), np.random.default_rng(seed)
    for _ in range(3):
        y, w = robot.integrate(robot.neutral(), spread * rng.standard_normal(robot.nv)), rng.standard_normal(robot.nv)
        q, v = robot.lift(y, w)
        qpos, qvel = q_to_mujoco(robot.model, q), v_to_mujoco(robot.model, q, v)
        expected, gaps = multipliers(theirs, qpos, qvel)
        rate = robot.forward_dynamics(y, w, np.zeros(robot.nv))
        mine = a_to_mujoco(robot.model, q, v, accelerations(robot, y, w, rate))
        assert np.max(np.abs(gaps)) < 1e-12
        assert np.max(np.abs(mine - expected)) < SOLVED * max(1.0, np.max(np.abs(expected)))


def test_a_rod_on_a_ball_joint_follows_in_part(leg: cd.Robot) -> None:
    # what is driven remains, and so do the springs and the spin of the rod
    assert leg.joint_names == ["hip", "achilles.spin", "knee", "shin", "heel", "foot"]
    assert leg.coordinate_map.passive >= {"achilles", "tarsus", "crank", "plantar"}
    # the first pose is within the limits, which the written one is not
    q, _ = leg.lift(leg.neutral(), np.zeros(leg.nv))
    for link in leg.model.links:
        if link.limits.lower is not None and link.limits.upper is not None:
            assert link.limits.lower <= q[link.q.start] <= link.limits.upper


@pytest.mark.slow
def test_the_leg_moves_as_with_multipliers(leg: cd.Robot) -> None:
    check_against_mujoco(leg, LEG, spread=0.1)


@pytest.mark.slow
def test_derivatives_of_the_leg_are_right(leg: cd.Robot) -> None:
    rng, step = np.random.default_rng(2), 1e-5
    y, w = leg.neutral(), 0.5 * rng.standard_normal(leg.nv)
    tau = np.where(np.array(leg.velocity_names) == "achilles.spin", 0.0, rng.standard_normal(leg.nv))
    by_y, by_w, _ = leg.forward_dynamics_derivatives(y, w, tau)
    moved = step * np.eye(leg.nv)
    up, down = (leg.forward_dynamics(y + d, w, tau).T for d in (moved, -moved))
    assert np.allclose(by_y, (up - down) / (2 * step), atol=1e-7 * np.max(np.abs(by_y)))
    up, down = (leg.forward_dynamics(y, w + d, tau).T for d in (moved, -moved))
    assert np.allclose(by_w, (up - down) / (2 * step), atol=1e-7 * np.max(np.abs(by_w)))


def test_the_leg_has_the_same_bits_on_the_reference_and_in_any_batch(leg: cd.Robot) -> None:
    rng = np.random.default_rng(3)
    y, w = leg.neutral() + 0.1 * rng.standard_normal((5, leg.nv)), rng.standard_normal((5, leg.nv))
    together = leg.forward_dynamics(y, w, 0.0 * w)
    assert np.array_equal(together[3], leg.forward_dynamics(y[3], w[3], 0.0 * w[3]))
    assert np.array_equal(together[:2], leg.forward_dynamics(y[:2], w[:2], 0.0 * w[:2], backend="reference"))


@pytest.mark.parametrize(("off", "axis"), [("1.9e-8", "0 1 0"), ("0", "1e-5 1 -2e-5"), ("1.9e-8", "1e-5 1 -2e-5")])
def test_a_redundant_closure_is_met_in_the_least_squares_sense(tmp_path: Path, off: str, axis: str) -> None:
    path = written(tmp_path / "bars.xml", FOUR_BAR.format(off=off, axis=axis, kind="connect"))
    robot = cd.load(path)
    assert robot.nv == 1
    assert "the least squares leave up to" in robot.report[-1]
    if axis == "0 1 0":
        assert "1.9e-08" in robot.report[-1]
    assert diagnose(path).verdict != FAILS


def test_loops_close_from_a_keyframe(tmp_path: Path) -> None:
    bars = FOUR_BAR.format(off="0", axis="0 1 0", kind="connect")
    text = bars.replace("</mujoco>", '<keyframe><key name="bent" qpos="0.5 -0.44 0.16"/></keyframe></mujoco>')
    assert abs(cd.load(written(tmp_path / "bars.xml", text)).neutral()[0]) > 0.3
    assert abs(cd.load(written(tmp_path / "bars.xml", bars)).neutral()[0]) < 0.1


def test_a_weld_of_a_planar_loop_with_a_free_turn_is_rigid(tmp_path: Path) -> None:
    path = written(tmp_path / "bars.xml", FOUR_BAR.format(off="0", axis="0 1 0", kind="weld"))
    with pytest.raises(cd.RobotError, match="rigid"):
        cd.load(path)
    assert diagnose(path).verdict == FAILS


@pytest.mark.slow
@pytest.mark.parametrize(("text", "freedoms"), [(PINNED.format(more=""), 3), (HINGED, 1)])
def test_a_free_body_pinned_to_the_world_swings(tmp_path: Path, text: str, freedoms: int) -> None:
    robot = cd.load(written(tmp_path / "pinned.xml", text))
    assert robot.nv == freedoms
    check_against_mujoco(robot, text)
