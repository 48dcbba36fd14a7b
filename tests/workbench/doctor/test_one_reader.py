"""The doctor says that a file loads if and only if `condyle.load` loads it, and a corrected file is as it says, too."""

import random
import re
from pathlib import Path

import pytest
from workbench.doctor.arm import GOOD

import condyle as cd
from condyle.workbench.doctor.diagnose import FAILS, diagnose

MIMIC = '<mimic joint="elbow" multiplier="1" offset="0"/>'
ARM = GOOD.replace("</robot>", '<link name="tip"/><joint name="wrist" type="continuous"><parent link="base"/><child link="tip"/>')
ARM += f"{MIMIC}</joint></robot>"
MODEL = '<mujoco><option timestep="{}"/><worldbody><body><freejoint/><geom size="1"/></body></worldbody></mujoco>'
WORDS = (
    " *",
    "* ",
    "\t*",
    "\u00a0*",
    "*\n",
    "**",
    "",
    " ",
    "0",
    "-1",
    "nan",
    "inf",
    "1,2",
    "1e308",
    "1e400",
    "1e-320",
    "base",
    "elbow",
)


def slip(rng: random.Random, text: str) -> str:
    """The text with one attribute changed, or an element left out or twice."""
    if rng.random() < 0.8:
        begin, end = rng.choice([match.span(1) for match in re.finditer(r'="([^"]*)"', text)])
        return text[:begin] + rng.choice(WORDS).replace("*", text[begin:end]) + text[end:]
    begin, end = rng.choice([match.span() for match in re.finditer(r"<\w+[^<>]*/>", text)])
    return text[:begin] + text[begin:end] * rng.choice([0, 2]) + text[end:]


def loads(path: Path) -> bool:
    try:
        cd.load(path)
    except cd.CondyleError:
        return False
    return True


def require_one_verdict(path: Path, text: str) -> None:
    path.write_text(text)
    found = diagnose(path, fix=True)
    assert (found.verdict != FAILS) == loads(path), found.verdict
    if found.corrected is not None:
        path.write_text(found.corrected)
        assert (found.verdict_after != FAILS) == loads(path), found.verdict_after


@pytest.mark.parametrize("seed", range(4))
def test_the_verdict_is_the_loader_s(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = ARM
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            text = slip(rng, text)
        require_one_verdict(tmp_path / "arm.urdf", text)


@pytest.mark.parametrize("name", ["base", "elbow"])
@pytest.mark.parametrize("written", [" {}", "{} ", "\t{}"])
def test_blanks_around_a_declared_name_are_found_and_corrected(tmp_path: Path, name: str, written: str) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace(f'name="{name}"', f'name="{written.format(name)}"'))
    found = diagnose(path, fix=True)
    assert found.verdict == FAILS and not loads(path) and found.corrected is not None
    path.write_text(found.corrected)
    assert loads(path)


@pytest.mark.parametrize("timestep", ["0", "-0.001"])
def test_a_time_step_that_is_not_above_zero_is_refused(tmp_path: Path, timestep: str) -> None:
    path = tmp_path / "ball.xml"
    path.write_text(MODEL.format(timestep))
    with pytest.raises(cd.RobotError, match=rf"time step of the file is {timestep} s: it must be above zero"):
        cd.load(path)
    assert diagnose(path).verdict == FAILS
