"""Robots under the actuators of their files for some seconds, beside MuJoCo from the same state with the same controls.

python scripts/stand_beside_mujoco.py FILE... [--seconds 5] [--keyframe NAME] [--as-written] [--gain "*knee=2"]... [--csv FILE]

Files are MJCF, or URDF with a free base, of which MuJoCo gets the contact points that are here as spheres. A name such as
anymal_c is a published robot. Of each: the height of its base and its joints at the end in both, and the largest difference. A
free base of a file without a floor gets one in both. Joints that only have motors are held by the same PD control in both, in
MuJoCo as a spring and damper. MuJoCo's friction creeps under load, that of feet by centimetres in five seconds, and that of
joints until a robot falls that only dry friction holds; its loops open under load. All of it is computed nearly without slip
and gaps, in short steps, unless `--as-written`.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import filter as matching
from pathlib import Path
from time import perf_counter
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import condyle as cd
from condyle.blocks.actuators import ImplicitPD
from condyle.errors import CondyleError
from condyle.methods.control.stance import on_ground
from condyle.robot import presets
from condyle.robot.conventions import q_from_mujoco, q_to_mujoco
from condyle.robot.joints import Free

HEIGHT, JOINTS = 0.02, 0.02  # m, rad or m: differences at the end within which two simulations agree
FALLEN = 0.25  # of its height that a robot has lost when it has fallen
SHORTEST = 0.001  # s, of a step here
TINY = 1e-9  # kg m^2, and a part of the largest moment
POINT = 1e-4  # m, radius in MuJoCo of a contact point without one
THERE, THERE_WITH_LOOPS = 0.0005, 0.0002  # s, of a step in MuJoCo with dry friction, and with loops
STIFF = (0.9999, 0.9999, 0.001, 0.5, 2.0)  # solimp of dry friction that hardly creeps


@dataclass
class Result:
    """What came of one file."""

    file: str
    outcome: str = ""  # "agrees", "differs", "falls in both", "falls here", "falls there", or why it was not run
    points: int = 0  # of contact
    actuators: int = 0
    stance: str = ""
    start: float = 0.0  # height of the base, m
    ours: float = 0.0
    theirs: float = 0.0
    joints: float = 0.0  # largest difference of a joint
    worst: str = ""  # which
    moved: float = 0.0  # largest way of a joint from the stance, here
    seconds: float = 0.0  # of compiling and simulating here


def peer(path: Path, floor: bool, as_written: bool = False, world: cd.Simulation | None = None) -> Any:
    """MuJoCo's model of the file, with a floor if it is wanted and the file has none, and friction that does not creep."""
    spec = mujoco.MjSpec.from_file(str(path)) if path.suffix != ".urdf" or world is None else urdf_spec(path, world)
    planes = [g for g in spec.worldbody.geoms if g.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)]
    if floor and not planes:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0])
    model = spec.compile()
    if not as_written:
        model.opt.cone, model.opt.impratio, model.opt.noslip_iterations = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0, 5
        model.opt.iterations, model.opt.ls_iterations = 100, 50
        if np.any(model.dof_frictionloss):
            model.opt.timestep, model.opt.noslip_iterations = min(model.opt.timestep, THERE), 100
            model.dof_solref[:], model.dof_solimp[:] = (2.0 * model.opt.timestep, 1.0), STIFF
        if model.neq:
            # loops are exact here: soft ones open by millimetres, and a leg of them is less stiff
            model.opt.timestep = min(model.opt.timestep, THERE_WITH_LOOPS)
            model.eq_solref[:], model.eq_solimp[:] = (10.0 * model.opt.timestep, 1.0), STIFF
            model.geom_solref[:], model.geom_solimp[:] = (10.0 * model.opt.timestep, 1.0), (0.99, 0.999, 1e-4, 0.5, 2.0)
    return model


def urdf_spec(path: Path, world: cd.Simulation) -> Any:
    """MuJoCo's reading of a URDF file with a free base, and the contact points of the world for its shapes."""
    root = ElementTree.parse(path).getroot()
    for link in root.iter("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(shape)
        for inertia in link.iter("inertia"):
            x, y, z, xy, xz, yz = (float(inertia.get(name, 0.0)) for name in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
            if np.linalg.eigvalsh([[x, xy, xz], [xy, y, yz], [xz, yz, z]])[0] <= TINY * max(x, y, z):
                # MuJoCo refuses what has no inertia about some axis
                inertia.attrib |= {"ixx": f"{x or TINY}", "iyy": f"{y or TINY}", "izz": f"{z or TINY}"}
                inertia.attrib |= {"ixy": "0", "ixz": "0", "iyz": "0"}
    extension = ElementTree.SubElement(root, "mujoco")
    ElementTree.SubElement(extension, "compiler", fusestatic="false", balanceinertia="true")
    spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    spec.worldbody.first_body().add_freejoint()
    for point in world.contact_points:
        body = spec.body(world.robot.model.links[point.link].name)
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            pos=point.position,
            size=[max(point.radius, POINT), 0.0, 0.0],
            mass=0.0,
            contype=0,
            conaffinity=1,
        )
    return spec


def places(robot: cd.Robot, model: Any, path: Path) -> np.ndarray:
    """Where MuJoCo's qpos has each entry of ours: the same of an MJCF file, by the names of joints of a URDF file."""
    if path.suffix != ".urdf":
        return np.arange(robot.model.nq)
    found: list[int] = []
    for link in robot.model.links:
        first = 0 if isinstance(link.kind, Free) else int(model.joint(link.joint).qposadr[0])
        found += range(first, first + link.q.stop - link.q.start)
    return np.array(found)


def simulated_there(model: Any, stance: cd.Stance, qpos: np.ndarray, seconds: float) -> np.ndarray:
    """MuJoCo's qpos after some seconds of the same stance."""
    data = mujoco.MjData(model)
    if stance.servo is not None:
        P, D = stance.servo.kp.default, stance.servo.kd.default
        for name, target, kp, kd in zip(stance.servo.joints, stance.target, P, D, strict=True):
            joint = model.joint(name).id
            model.jnt_stiffness[joint] = kp
            model.qpos_spring[model.jnt_qposadr[joint]] = target
            model.dof_damping[model.jnt_dofadr[joint]] += kd
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data.qpos[:] = qpos
    if stance.u is not None:
        data.ctrl[:] = stance.u
    if stance.actuators is not None and stance.actuators.stateful:
        data.act[:] = stance.actuators.states["act"]
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return np.array(data.qpos)


def simulated_here(loop: cd.Loop, q: np.ndarray, seconds: float) -> np.ndarray:
    """q after some seconds of the stance."""
    steps = round(seconds / loop.dt)
    return loop.rollout(loop.state(q), steps=steps, record=(), every=steps).x[: loop.nq]


def compared(path: Path, seconds: float, keyframe: str | None, as_written: bool, gains: Sequence[str] = ()) -> Result:
    """The result of one file."""
    preset = presets.find(str(path)) if not path.suffix else None
    result = Result(path.name)
    path = path if preset is None or preset.path is None else preset.path
    begin = perf_counter()
    robot = cd.load(path, "free" if path.suffix == ".urdf" else None, package_dirs=() if preset is None else preset.package_dirs)
    floating = any(isinstance(link.kind, Free) for link in robot.model.links)
    under = robot.model.ground
    ground = cd.Plane(under.friction, offset=under.height) if under is not None else cd.Plane(1.0)
    world = cd.Simulation(robot, max(robot.model.timestep or 0.002, SHORTEST), ground if floating else None)
    theirs = peer(path, floating, as_written, world)
    stance = cd.stance(world, keyframe) if keyframe != "neutral" else cd.stance(world, q=on_ground(world, robot.neutral()))
    if stance.servo is not None and gains:
        names, pairs = stance.servo.joints, [gain.split("=") for gain in gains]
        factor = {name: float(f) for pattern, f in pairs for name in matching(names, pattern)}
        by = np.array([factor.get(name, 1.0) for name in names])
        effort = None if stance.servo.effort is None else stance.servo.effort.default
        P, D = (by * number.default for number in (stance.servo.kp, stance.servo.kd))
        stance.servo = ImplicitPD(names, P, D, effort, name="stance")
    result.points, result.actuators, result.stance = len(world.contact_points), len(robot.actuators), stance.source
    loop = cd.Loop(world, stance)
    end = simulated_here(loop, stance.q, seconds)
    result.seconds = perf_counter() - begin
    full, stood = (robot.lift(q, np.zeros(robot.nv))[0] for q in (end, stance.q))
    at, qpos = places(robot, theirs, path), np.array(theirs.qpos0)
    qpos[at] = q_to_mujoco(robot.model, stood)
    other = q_from_mujoco(robot.model, simulated_there(theirs, stance, qpos, seconds)[at])
    difference = {link.joint: float(abs(full - other)[link.q.start]) for link in robot.model.links if link.kind.nv == 1}
    result.worst = max(difference, key=lambda name: difference[name], default="")
    result.joints = difference.get(result.worst, 0.0)
    result.moved = max((float(abs(full - stood)[link.q.start]) for link in robot.model.links if link.kind.nv == 1), default=0.0)
    base = next((link.q.start + 2 for link in robot.model.links if isinstance(link.kind, Free)), None)
    if base is not None:
        result.start, result.ours, result.theirs = float(stood[base]), float(full[base]), float(other[base])
    result.outcome = verdict(result)
    return result


def verdict(result: Result) -> str:
    """Whether both hold, fall, or differ."""
    fallen = [height < (1.0 - FALLEN) * result.start for height in (result.ours, result.theirs)]
    if result.start > 0.0 and any(fallen):
        return {(True, True): "falls in both", (True, False): "falls here", (False, True): "falls there"}[tuple(fallen)]
    same = abs(result.ours - result.theirs) <= HEIGHT and result.joints <= JOINTS
    return "agrees" if same else "differs"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all agree, or fall in both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--keyframe", help="its name, or neutral: the pose in which the robot is loaded")
    parser.add_argument("--as-written", action="store_true")
    parser.add_argument("--gain", action="append", default=[], help="PATTERN=FACTOR of the gains of PD control of joints")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args(arguments)
    results, columns = [], (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(given.files))
        for path in given.files:
            progress.update(task, description=path.stem)
            try:
                results.append(compared(path, given.seconds, given.keyframe, given.as_written, given.gain))
            except (CondyleError, ValueError) as error:
                results.append(Result(path.name, f"{type(error).__name__}: {error}"[:160]))
            progress.advance(task)
    if given.csv is not None:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Result)])
            writer.writeheader()
            writer.writerows(map(asdict, results))
    table = Table(
        "file", "outcome", "points", "actuators", "base: start, here, there, m", "joints", "moved", "s", title="Stances"
    )
    for r in results:
        base = f"{r.start:.3f} {r.ours:.3f} {r.theirs:.3f}" if r.start else "fixed"
        apart = f"{r.joints:.4f} {r.worst}"
        table.add_row(r.file, r.outcome, str(r.points), str(r.actuators), base, apart, f"{r.moved:.3f}", f"{r.seconds:.0f}")
    Console(width=180).print(table)
    return 0 if all(r.outcome in ("agrees", "falls in both") for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
