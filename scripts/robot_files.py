"""Count which robot files load, and why the others are refused, over folders of URDF, xacro and MJCF files.

    python scripts/robot_files.py FOLDER... [--physics] [--quick] [--csv FILE] [--only PART] [--every 1] [--seconds 60]

A file counts if it is a robot to its own reader (Pinocchio for URDF, the reference xacro, MuJoCo for MJCF) and has a joint that
moves; fragments, files that their reader refuses, and second copies are skipped, and counted as such. Every file is read in a
process of its own, with limits of time and memory. `--physics`: mass matrix, bias and passive forces of the tree, beside the
same peer.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import multiprocessing
import os
import re
import resource
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import mujoco
import numpy as np
import pinocchio
import xacro
import xacro.substitution_args
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import condyle as cd
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.passive import passive_forces
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.conventions import a_to_mujoco, q_from_mujoco, v_to_mujoco
from condyle.robot.load import is_mjcf
from condyle.robot.report import matters
from condyle.simulate.build import chosen_contacts
from condyle.workbench.doctor.diagnose import FAILS, diagnose

KINDS = ("URDF", "xacro", "MJCF")
AGREES = 1e-10  # relative difference of mass matrix and forces to the peer's, where the numbers are the same
# what the report says of a file whose forces differ
NAMED = {
    "M": ("inertia of tendons",),
    "bias": ("armature of a free joint", "inertia of tendons", "flex", "plugins"),
    "passive": ("density", "viscosity", "wind", "tendon", "springs of free joints", "nonlinear", "yielding", "flex", "plugins"),
}
SHOWN = 4  # files named for each reason
PATIENCE = 10  # seconds of the clock for one of the processor


@dataclass
class Outcome:
    """What came of one file."""

    file: str
    kind: str
    outcome: str = "died"  # "loads", "refused", "broken" (no sentence), "died", or "skipped"
    reason: str = ""
    doctor: str = ""  # "agrees" where the doctor and the loader say the same
    joints: int = 0
    coordinates: int = 0  # of the robot as loaded: less than joints where some follow
    points: int = 0  # of contact, by default, with the base that the file has
    free_points: int = 0  # with a free base
    notes: int = 0
    warnings: int = 0
    physics: str = ""  # "agrees", "differs: bias 1e-3", or why it is not compared


def kind_of(path: Path) -> str | None:
    """URDF, xacro, MJCF, or none of them."""
    if path.suffix == ".xacro":
        return "xacro"
    if path.suffix not in (".urdf", ".xml", ".mjcf"):
        return None
    content = path.read_bytes()
    if path.suffix == ".urdf":
        return "URDF"
    return "MJCF" if is_mjcf(content) else None


def found(folders: list[Path], only: str) -> Iterator[tuple[Path, Path, str]]:
    """(file, folder, kind) of all robot files."""
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file() and only in str(path) and (kind := kind_of(path)) is not None:
                yield path, folder, kind


def homes(path: Path, folder: Path) -> list[Path]:
    """The folders that may hold the packages of a file: all above it, up to the one around the given folder."""
    top = folder.resolve().parent if folder.is_dir() else folder.resolve().parent.parent
    return [p for p in path.resolve().parents if p == top or top in p.parents]


# ---- in the process of one file


def peer_of(path: Path, kind: str, packages: list[Path]) -> Any:
    """The model of the file's own reader; a str says why there is none."""
    if kind == "MJCF":
        model = mujoco.MjModel.from_xml_path(str(path))
        return model if model.njnt else "no joints"
    text = path.read_text(errors="replace")
    if kind == "xacro" or "<xacro:" in text:
        xacro.substitution_args._eval_find = lambda package: found_package(package, packages)
        text = xacro.process_file(str(path)).toxml()
    if "<link" not in text or "<joint" not in text:
        return "only macros" if kind == "xacro" else "no joints"
    model = pinocchio.buildModelFromXML(text)
    return model if model.nv else "no joints"


def found_package(package: str, packages: list[Path]) -> str:
    """The folder of a package, for $(find ...)."""
    for home in packages:
        for candidate in (home / package, home):
            if candidate.name == package and candidate.is_dir():
                return str(candidate)
    raise ValueError(f"package {package} is not here")


def examine(path: Path, folder: Path, row: Outcome, options: argparse.Namespace, pipe: Connection) -> None:
    """Send what is known of a file so far, and again when more is known."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(tempfile.gettempdir())  # MuJoCo writes its log where it is
    packages = homes(path, folder)
    row.outcome, row.reason = "skipped", "its own reader died"
    pipe.send(row)
    try:
        peer = peer_of(path, row.kind, packages)
    except BaseException as error:
        row.reason = f"its own reader refuses it: {type(error).__name__}"
        pipe.send(row)
        return
    if isinstance(peer, str):
        row.reason = peer
        pipe.send(row)
        return

    row.outcome, row.reason = "died", "the process ended, or ran out of time or memory"
    pipe.send(row)
    robot = None
    try:
        robot = cd.load(path, package_dirs=packages)
        row.outcome, row.reason = "loads", ""
    except cd.CondyleError as error:
        row.outcome, row.reason = "refused", str(error).partition("\n")[0]
    except BaseException as error:
        row.outcome, row.reason = "broken", f"{type(error).__name__}: {error}".partition("\n")[0]
    if robot is not None:
        model = robot.model
        row.joints, row.coordinates = sum(bool(link.joint) for link in model.links), robot.nv
        row.notes, row.warnings = len(model.notes), sum(map(matters, model.notes))
    pipe.send(row)
    if not options.quick:
        examine_again(path, packages, row, robot)
        pipe.send(row)
    if robot is None:
        return
    if options.physics:
        try:
            row.physics = compared(robot.model, peer)
        except BaseException as error:
            row.physics = f"{type(error).__name__}: {error}"[:80]
        pipe.send(row)
    if not options.quick:
        row.points = points(robot)
        pipe.send(row)
        row.free_points = free_points(path, packages, row.kind)
        pipe.send(row)


def examine_again(path: Path, packages: list[Path], row: Outcome, robot: cd.Robot | None) -> None:
    """None; the row knows whether the doctor says what the loader says."""
    try:
        row.doctor = "agrees" if (diagnose(path, package_dirs=packages).verdict == FAILS) == (robot is None) else "differs"
    except BaseException as error:
        row.doctor = type(error).__name__


def free_points(path: Path, packages: list[Path], kind: str) -> int:
    """The contact points with a free base, which an MJCF file has itself."""
    try:
        return 0 if kind == "MJCF" else points(cd.load(path, package_dirs=packages, base="free"))
    except BaseException:
        return -1


def points(robot: cd.Robot) -> int:
    """How many contact points the robot has on a plane by default; -1 where choosing them fails."""
    try:
        return len(chosen_contacts(robot, cd.Plane(), None))
    except Exception:
        return -1


def compared(model: Any, peer: Any) -> str:
    """How mass matrix, bias forces and, beside MuJoCo, passive forces of the tree agree with the peer's, at random states."""
    rng, worst = np.random.default_rng(0), dict[str, float]()
    for _ in range(3):
        found = _beside_mujoco(model, peer, rng) if isinstance(peer, mujoco.MjModel) else _beside_pinocchio(model, peer, rng)
        if found is None:
            return "not compared: other joints"
        q, v, theirs = found
        ours = {
            "M": mass_matrix(model, q),
            "bias": inverse_dynamics(model, q, v, np.zeros(model.nv)),
            "passive": passive_forces(model, q, v, opposed=np.zeros(model.nv)),
        }
        # forces in terms of what moves the robot by 1 rad/s^2 and gravity, so that forces of zero have a scale
        scale = max(float(np.max(np.abs(theirs["M"]))), float(np.max(np.abs(theirs["bias"]))), 1e-9)
        for name, value in theirs.items():
            size = float(np.max(np.abs(value))) if name == "M" else max(scale, float(np.max(np.abs(value))))
            apart = float(np.max(np.abs(np.asarray(ours[name], dtype=float) - value))) / max(size, 1e-9)
            worst[name] = max(worst.get(name, 0.0), apart)
    bad = {name: apart for name, apart in worst.items() if not apart <= AGREES}
    said = " ".join(note.what for note in model.notes)
    named = all(any(word in said for word in NAMED.get(name, ())) for name in bad)
    numbers = ", ".join(f"{name} {apart:.1e}" for name, apart in bad.items())
    return "agrees" if not bad else f"differs as the report says: {numbers}" if named else f"differs: {numbers}"


State = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


def _beside_mujoco(model: Any, peer: Any, rng: np.random.Generator) -> State | None:
    """(q, v, MuJoCo's matrix and forces there) in our coordinates; None if the joints are others."""
    if peer.nv != model.nv or peer.nq != model.nq:
        return None
    data, M = mujoco.MjData(peer), np.zeros((peer.nv, peer.nv))
    mujoco.mj_integratePos(peer, data.qpos, 0.7 * rng.standard_normal(peer.nv), 1.0)
    q, v = q_from_mujoco(model, data.qpos), rng.uniform(-1.0, 1.0, model.nv)
    data.qvel[:] = v_to_mujoco(model, q, v)
    peer.opt.gravity[:] = model.gravity
    mujoco.mj_forward(peer, data)
    mujoco.mj_fullM(peer, data, M)
    bias = data.qfrc_bias + M @ a_to_mujoco(model, q, v, np.zeros(model.nv))
    # the columns are our unit velocities as MuJoCo has them
    T = np.column_stack([v_to_mujoco(model, q, unit) for unit in np.eye(model.nv)])
    return q, v, {"M": T.T @ M @ T, "bias": T.T @ bias, "passive": T.T @ data.qfrc_passive}


def _beside_pinocchio(model: Any, peer: Any, rng: np.random.Generator) -> State | None:
    """(q, v, Pinocchio's matrix and forces there) in our order of joints; None if the joints are others."""
    q, order, q_peer = np.zeros(model.nq), list[int](), pinocchio.neutral(peer)
    for link in model.links:
        if link.kind.nv != 1 or not peer.existJointName(link.joint):
            return None
        joint = peer.joints[peer.getJointId(link.joint)]
        angle = float(rng.uniform(-1.0, 1.0))
        q[link.q.start] = angle
        q_peer[joint.idx_q : joint.idx_q + joint.nq] = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
        order.append(joint.idx_v)
    if len(order) != peer.nv:
        return None
    data, v, v_peer = peer.createData(), rng.uniform(-1.0, 1.0, model.nv), np.zeros(peer.nv)
    v_peer[order] = v
    M = pinocchio.crba(peer, data, q_peer)
    M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)] + np.diag([link.armature for link in model.links])
    return q, v, {"M": M, "bias": pinocchio.rnea(peer, data, q_peer, v_peer, np.zeros(peer.nv))[order]}


def limited(path: Path, folder: Path, row: Outcome, pipe: Connection, options: argparse.Namespace) -> None:
    """`examine` with limits of memory and processor time."""
    resource.setrlimit(resource.RLIMIT_AS, (int(options.gigabytes * 2**30),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(options.seconds), int(options.seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    examine(path, folder, row, options, pipe)


def result(path: Path, folder: Path, kind: str, options: argparse.Namespace) -> Outcome:
    """The last that the process of a file said."""
    row = Outcome(str(path), kind)
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe(duplex=False)
    process = context.Process(target=limited, args=(path, folder, row, far, options))
    process.start()
    far.close()
    try:
        # on a busy computer the limit of processor time is reached late
        while near.poll(PATIENCE * options.seconds):
            row = near.recv()
    except EOFError:
        pass
    if process.is_alive():
        process.kill()
    process.join()
    return row


# ---- what is printed


def reason_class(reason: str) -> str:
    """A sentence without its file, names and numbers."""
    text = re.sub(r"^(?:\S*?[^\s:]+\.\w+(?::\d+)?: )", "", reason)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>", "'..'", text)
    text = re.sub(r"(/[\w.+-]+){2,}", "PATH", text)
    return re.sub(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", "#", text)[:150]


def show(rows: list[Outcome], console: Console, physics: bool) -> None:
    """All counts."""
    table = Table(title="robot files")
    for name in ("kind", "robots", "loads", "refused", "broken", "died", "doctor agrees", "with contacts", "with a free base"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    if physics:
        table.add_column("physics agrees", justify="right")
    for kind in (*KINDS, "all"):
        here = [row for row in rows if kind in (row.kind, "all") and row.outcome != "skipped"]
        loads = [row for row in here if row.outcome == "loads"]
        cells = [kind, str(len(here)), *(str(sum(r.outcome == o for r in here)) for o in ("loads", "refused", "broken", "died"))]
        cells += [str(sum(r.doctor == "agrees" for r in here)), str(sum(r.points > 0 for r in loads))]
        free = [row for row in loads if row.kind != "MJCF"]
        cells += [f"{sum(r.free_points > 0 for r in free)} of {len(free)}"]
        if physics:
            asked = [row for row in loads if not row.physics.startswith("not compared")]
            named = sum(row.physics.startswith("differs as") for row in asked)
            cells += [
                f"{sum(r.physics == 'agrees' for r in asked)} of {len(asked)}" + (f", {named} not, as noted" if named else "")
            ]
        table.add_row(*cells)
    console.print(table)

    skipped = Counter(f"{row.kind}: {row.reason}" for row in rows if row.outcome == "skipped")
    console.print("skipped:", ", ".join(f"{count} {reason}" for reason, count in skipped.most_common()), highlight=False)
    loads = [row for row in rows if row.outcome == "loads"]
    noted = sum(row.notes > 0 for row in loads)
    console.print(f"notes: {noted} of {len(loads)} have some, {sum(row.warnings > 0 for row in loads)} a warning among them")

    groups: dict[str, list[Outcome]] = defaultdict(list)
    for row in rows:
        if row.outcome in ("refused", "broken", "died"):
            groups[f"{row.kind} {row.outcome}: {reason_class(row.reason)}"].append(row)
        elif row.physics not in ("", "agrees") and not row.physics.startswith("not compared"):
            groups[f"{row.kind} physics"].append(row)
        if row.outcome != "skipped" and row.doctor not in ("agrees", ""):
            groups[f"{row.kind}: loader {row.outcome}, doctor {row.doctor}"].append(row)
    for reason, same in sorted(groups.items(), key=lambda item: -len(item[1])):
        console.print(f"\n{len(same):4d}  {reason}", markup=False, highlight=False, soft_wrap=True)
        for row in same[:SHOWN]:
            what = row.physics if reason.endswith("physics") else row.reason
            console.print(f"      {row.file}\n        {what[:300]}", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Read the options, go through all files, and print."""
    parser = argparse.ArgumentParser(description="Count which robot files load, and why the others are refused.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--physics", action="store_true", help="compare mass matrix and forces with Pinocchio or MuJoCo")
    parser.add_argument("--quick", action="store_true", help="leave the doctor and the contact points out")
    parser.add_argument("--csv", type=Path, help="write one line per file")
    parser.add_argument("--only", default="", help="only files with this in their path")
    parser.add_argument("--every", type=int, default=1, help="only every so many files")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor, for one file")
    parser.add_argument("--gigabytes", type=float, default=6.0, help="address space of one process")
    options = parser.parse_args()
    if missing := [str(folder) for folder in options.folders if not folder.exists()]:
        parser.error(f"there is no {missing[0]}")

    files = list(found([folder.resolve() for folder in options.folders], options.only))
    files = [file for k, file in enumerate(files) if k % options.every == 0]
    rows: list[Outcome] = []
    seen: set[tuple[str, str]] = set()
    table = options.csv.open("w", newline="") if options.csv else None
    writer = csv.DictWriter(table, [field.name for field in fields(Outcome)]) if table else None
    if writer:
        writer.writeheader()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("robot files", total=len(files))
        for path, folder, kind in files:
            progress.update(task, advance=1, description=path.name[:40].ljust(40))
            key = kind, hashlib.sha256(path.read_bytes()).hexdigest()
            if key in seen:
                rows.append(Outcome(str(path), kind, "skipped", "second copies"))
            else:
                rows.append(result(path, folder, kind, options))
                # a copy may lie where more of its files are
                if rows[-1].outcome != "skipped" or rows[-1].reason in ("no joints", "only macros"):
                    seen.add(key)
            if writer and table:
                writer.writerow(asdict(rows[-1]))
                table.flush()
    show(rows, Console(width=180), options.physics)
    if table:
        table.close()


if __name__ == "__main__":
    main()
