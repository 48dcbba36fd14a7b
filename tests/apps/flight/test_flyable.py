"""What cannot be flown is said before the flight, a flight that is lost fails, and the quadrotor spins as published."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.apps.flight.flyable import require_flyable
from condyle.commands.cli import app

LINK = """<link name="{name}"><inertial><mass value="{mass}"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
FIXED = '<joint name="{name}" type="fixed"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/></joint>'
TURNS = """<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>
  <axis xyz="{axis}"/><limit lower="-1.5" upper="1.5" effort="6" velocity="3"/></joint>"""


def part(name: str, mass: float = 0.5) -> str:
    return LINK.format(name=name, mass=mass)


def fixed(name: str, parent: str, child: str, at: str) -> str:
    return FIXED.format(name=name, parent=parent, child=child, at=at)


def turns(name: str, parent: str, child: str, at: str, axis: str) -> str:
    return TURNS.format(name=name, parent=parent, child=child, at=at, axis=axis)


def chain(*, pitch: bool, gimbals: bool) -> str:
    """Four links in a row with a rotor each: joined about the vertical, with `pitch` about the lateral axis, too; on two-axis
    gimbals or fixed."""
    parts = []
    for k in range(1, 5):
        parts.append(part(f"link{k}"))
        parent = f"link{k - 1}"
        if k > 1 and pitch:
            parts += [part(f"cross{k}", 0.05), turns(f"joint{k}_pitch", parent, f"cross{k}", "0.6 0 0", "0 1 0")]
            parts.append(turns(f"joint{k}_yaw", f"cross{k}", f"link{k}", "0 0 0", "0 0 1"))
        elif k > 1:
            parts.append(turns(f"joint{k}", parent, f"link{k}", "0.6 0 0", "0 0 1"))
        holder = f"link{k}"
        if gimbals:
            parts += [part(f"roll{k}", 0.1), turns(f"gimbal{k}_roll", f"link{k}", f"roll{k}", "0.3 0 0", "1 0 0")]
            parts += [part(f"pitch{k}", 0.1), turns(f"gimbal{k}_pitch", f"roll{k}", f"pitch{k}", "0 0 0", "0 1 0")]
            holder = f"pitch{k}"
        parts += [f'<link name="thrust_{k}"/>', fixed(f"rotor{k}", holder, f"thrust_{k}", "0 0 0.1" if gimbals else "0.3 0 0.1")]
    return f'<robot name="chain">{"".join(parts)}</robot>'


def copter(places: list[str], mass: float = 1.0, tilt: str = "", rotors: str = "") -> str:
    """A body with fixed rotors, or on gimbals about an axis."""
    parts = [part("body", mass)]
    for k, at in enumerate(places, start=1):
        holder = "body"
        if tilt:
            parts += [part(f"arm{k}", 0.05), turns(f"tilt{k}", "body", f"arm{k}", at, tilt)]
            holder, at = f"arm{k}", "0 0 0"
        parts += [f'<link name="thrust_{k}"/>', fixed(f"rotor{k}", holder, f"thrust_{k}", at)]
    return f'<robot name="copter">{"".join(parts)}{rotors}</robot>'


SQUARE = ["0.2 0.2 0", "0.2 -0.2 0", "-0.2 -0.2 0", "-0.2 0.2 0"]
ROW = ["0.4 0 0", "0.1 0 0", "-0.1 0 0", "-0.4 0 0"]
WEAK = "".join(f'<rotor name="thrust_{k}" thrust="0 2"/>' for k in range(1, 5))
CASES = {
    "hydrus": (chain(pitch=False, gimbals=False), ["no gimbals", "'joint2', 'joint3', 'joint4'"]),
    "dragon": (chain(pitch=True, gimbals=True), ["no gimbals", "'gimbal1_roll'", "'joint2_pitch'", "and 6 more"]),
    "row": (copter(ROW), ["cannot give an upward force and three torques"]),
    "upright gimbals": (copter(SQUARE, tilt="0 0 1"), ["no gimbals", "'tilt1', 'tilt2', 'tilt3', 'tilt4'"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_flown_is_a_sentence(tmp_path: Path, name: str) -> None:
    text, said = CASES[name]
    path = tmp_path / f"{name}.urdf"
    path.write_text(text)
    with pytest.raises(cd.ControlError) as error:
        require_flyable(cd.flight.airframe(path))
    assert all(each in str(error.value) for each in said), str(error.value)
    done = CliRunner().invoke(app, ["fly", str(path), "--seconds", "0.1", "--controller", "geometric"])
    assert done.exit_code == 2 and "cannot be flown: " in done.stderr and "\n" not in done.stderr.strip()


def test_thrusts_below_the_weight_are_said(tmp_path: Path) -> None:
    path = tmp_path / "heavy.urdf"
    path.write_text(copter(SQUARE))
    frame = cd.flight.airframe(path)
    require_flyable(frame)
    weak = cd.flight.airframe(path, thrust=(0.0, 2.0))
    with pytest.raises(cd.ControlError, match=r"its rotors give 8 N together, and it weighs 9.81 N"):
        require_flyable(weak)
    uneven = cd.flight.airframe(path, thrust=[(0.0, 2.0), (0.0, 9.0), (0.0, 9.0), (0.0, 9.0)])
    with pytest.raises(cd.ControlError, match=r"to hover level, rotor 'thrust_1' gives 2.45\d* N, with limits 0 and 2"):
        require_flyable(uneven)


@pytest.mark.parametrize("name", ["birotor", "trirotor", "quadrotor", "hexarotor", "crazyflie"])
def test_built_in_airframes_are_flyable(name: str) -> None:
    require_flyable(cd.flight.airframe(name))


def test_locked_links_fly(tmp_path: Path) -> None:
    path = tmp_path / "hydrus.urdf"
    path.write_text(chain(pitch=False, gimbals=False))
    bent = cd.load(path, "free")
    q = bent.neutral()
    q[7:] = 1.5
    require_flyable(cd.flight.airframe(bent.lock(["joint2", "joint3", "joint4"], q)))


def test_a_flight_that_is_lost_fails() -> None:
    done = CliRunner().invoke(app, ["fly", "birotor", "--controller", "geometric", "--seconds", "3", "--weak-rotor", "0"])
    assert done.exit_code == 1 and "birotor, multibody: the flight diverged: it is " in done.stderr, done.output


def test_the_quadrotor_spins_as_published() -> None:
    frame = cd.flight.airframe("quadrotor")
    for place, rotor in zip(frame.positions, frame.rotors, strict=True):
        assert rotor.direction == np.sign(place[0] * place[1])
    # more thrust of the rotors at (+, +) and (-, -), whose dr is +1, turns it about -z
    body = cd.flight.single_body(frame)
    more = np.where(body.spin_directions > 0.0, 8.0, 6.0)
    torque = np.asarray(body.wrench(more, np.zeros(body.n_g))[1], dtype=float)
    assert torque[2] == pytest.approx(-0.0153 * (2 * 8.0 - 2 * 6.0), rel=1e-12)


def test_a_step_leaves_the_quaternion_as_the_method_has_it() -> None:
    body = cd.flight.single_body(cd.flight.airframe("quadrotor"))
    x = body.state(attitude=(0.5, 0.5, 0.5, 0.5))
    x[10:13] = 8.0, -3.0, 5.0
    u = body.trim()

    def derivative(x: np.ndarray) -> np.ndarray:
        return np.asarray(body.derivative(x, u), dtype=float)

    h = 0.02
    k1 = derivative(x)
    k2 = derivative(x + 0.5 * h * k1)
    k3 = derivative(x + 0.5 * h * k2)
    k4 = derivative(x + h * k3)
    published = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    np.testing.assert_allclose(np.asarray(body.step(x, u, dt=h), dtype=float), published, atol=1e-14)
    unit = np.asarray(replace(body, unit_quaternion=True).step(x, u, dt=h), dtype=float)
    assert abs(np.linalg.norm(published[6:10]) - 1.0) > 1e-9 and np.linalg.norm(unit[6:10]) == pytest.approx(1.0, abs=1e-15)
