"""A policy file as a folder for the dog: dog.py, policy.c, policy.h, replay.c, policy.onnx, README.md."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from condyle.apps.pidog.deploy.c_file import c_files
from condyle.apps.pidog.deploy.deployment import Deployment, deployment
from condyle.apps.pidog.deploy.onnx_file import onnx_bytes
from condyle.apps.pidog.deploy.program import read_log
from condyle.apps.pidog.deploy.python_file import python_file
from condyle.apps.pidog.deploy.readme import readme
from condyle.atomic_write import file_errors
from condyle.errors import FileError
from condyle.methods.learn.policy_file import PolicyFile

FILES = ("dog.py", "policy.c", "policy.h", "replay.c", "policy.onnx", "README.md")
MADE = ("log.csv", "replay", "__pycache__")  # what using them leaves behind
FOLDER_ADVICE = "give a folder that can be written, with -o"


def deployed_files(deployment: Deployment, *, onnx: bool = True) -> dict[str, bytes]:
    """{name: content} of all files."""
    texts = {"dog.py": python_file(deployment), **c_files(deployment), "README.md": readme(deployment, onnx)}
    files = {name: text.encode() for name, text in texts.items()}
    return {**files, "policy.onnx": onnx_bytes(deployment)} if onnx else files


def deploy(policy: PolicyFile, folder: Path, *, onnx: bool = True, force: bool = False) -> dict[str, int]:
    """{name: bytes} of the files written into the folder: all of them, or none.

    A folder that holds other files is refused without `force`, which leaves them as they are.
    """
    check_folder(folder, force)
    files = deployed_files(deployment(policy), onnx=onnx)
    try:
        write_folder(folder, files)
    except OSError as error:
        raise FileError(f"{folder} cannot be written ({error.strerror or error}): {FOLDER_ADVICE}.") from error
    return {name: len(content) for name, content in files.items()}


def check_folder(folder: Path, force: bool) -> None:
    """FileError if the folder is a file, or holds files of others and `force` is not given."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file: {FOLDER_ADVICE}.")
    try:
        foreign = sorted(set(os.listdir(folder)) - {*FILES, *MADE}) if folder.exists() else []
    except OSError as error:
        raise FileError(f"{folder} cannot be read ({error.strerror}): {FOLDER_ADVICE}.") from error
    if foreign and not force:
        raise FileError(
            f"{folder} holds other files, such as {foreign[0]}: give another folder, or --force to write beside them."
        )


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """None; all files are written beside the folder first, and then moved into it."""
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    inside = folder if folder.exists() else folder.parent
    with tempfile.TemporaryDirectory(prefix=".condyle-", dir=inside) as temporary:
        for name, content in files.items():
            with open(Path(temporary, name), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        folder.mkdir(exist_ok=True)
        for name in files:
            os.replace(Path(temporary, name), folder / name)
        for name in set(FILES) - set(files):  # of an earlier policy
            (folder / name).unlink(missing_ok=True)


# ---- logs


def check_log(policy: PolicyFile, log: Path, folder: Path) -> list[tuple[str, bool | None, str]]:
    """(what, whether its pulses are those of the log, or None if it cannot run here, a sentence) of the kernel and the files."""
    made = deployment(policy)
    with file_errors(log, "read", "check its name"):
        recorded = read_log(log, made.data)
    pulses, degrees = made.replay(recorded["rate"], recorded["acceleration"], recorded["command"])
    steps = len(pulses)
    if steps == 0:
        raise FileError(f"{log} has no steps of the policy: the dog did not get as far as walking.")
    found = [_compared("kernel", pulses, recorded["pulses"])]
    if (folder / "dog.py").exists():
        found.append(_python("dog.py", folder, log))
    if (folder / "policy.onnx").exists():
        found.append(_python("policy.onnx", folder, log, "--onnx", str(folder / "policy.onnx")))
    if (folder / "policy.c").exists():
        found.append(_c(folder, log, pulses, degrees))
    return found


def _compared(name: str, pulses: np.ndarray, wanted: np.ndarray) -> tuple[str, bool | None, str]:
    differ = int((pulses != wanted).any(axis=1).sum())
    return (
        name,
        differ == 0,
        f"all pulses of {len(pulses)} steps" if not differ else f"other pulses in {differ} of {len(pulses)} steps",
    )


def _python(name: str, folder: Path, log: Path, *more: str) -> tuple[str, bool | None, str]:
    command = [sys.executable, str(folder / "dog.py"), "--replay", str(log), *more]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    text = (ran.stdout or ran.stderr).strip().splitlines()
    return name, None if "needs the package" in ran.stderr else ran.returncode == 0, text[-1] if text else "nothing"


def _c(folder: Path, log: Path, pulses: np.ndarray, degrees: np.ndarray) -> tuple[str, bool | None, str]:
    """The C program, compared with the kernel bit for bit."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return "policy.c", None, "there is no C compiler here"
    with tempfile.TemporaryDirectory() as temporary:
        program = Path(temporary, "replay")
        sources = [str(folder / name) for name in ("policy.c", "replay.c")]
        subprocess.run([compiler, "-std=c99", "-O2", *sources, "-lm", "-o", str(program)], check=True, capture_output=True)
        with open(log, "rb") as file:
            ran = subprocess.run([str(program)], stdin=file, capture_output=True, text=True, check=False)
    found, angles = c_output(ran.stdout)
    if len(found) != len(pulses):
        return "policy.c", False, f"{len(found)} steps of {len(pulses)}"
    name, same, text = _compared("policy.c", found, pulses)
    bits = angles.tobytes() == degrees.tobytes()
    return name, bool(same) and bits, f"{text}, {'the same bits as' if bits else 'angles that differ from'} the kernel"


def c_output(text: str) -> tuple[np.ndarray, np.ndarray]:
    """(pulses, degrees) that replay.c printed."""
    rows = [line.split(",") for line in text.splitlines()]
    pulses = np.array([[int(x) for x in row[:8]] for row in rows], dtype=int).reshape(-1, 8)
    return pulses, np.array([[float.fromhex(x) for x in row[8:]] for row in rows], dtype=float).reshape(-1, 8)
