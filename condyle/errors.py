"""The one family of exceptions: `except CondyleError` catches whatever Condyle raises on purpose."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType


class CondyleError(Exception):
    """Anything Condyle refuses to do; the message says what was wanted, what was given, where, and what to do."""


class TraceError(CondyleError):
    """A function cannot be traced: it asked a traced value for something only a number can answer."""


class ShapeError(CondyleError, ValueError):
    """An array has the wrong shape, or a list the wrong length."""


class BackendError(CondyleError, RuntimeError):
    """A backend cannot run here, or cannot run this tape, or did not give the bits it promises."""


class RobotError(CondyleError, ValueError):
    """A robot description is wrong. `problems` has one sentence each: where, what, and what to do; a file gives all it has."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class SimulationError(CondyleError, ValueError):
    """A world cannot be simulated as given: a ground, a contact point or a mesh is wrong; one sentence says what to do."""


class ControlError(CondyleError, ValueError):
    """No controller exists for what was given, or its costs make no sense; the message names the mode or the number."""


class FileError(CondyleError, OSError):
    """A file cannot be saved or read, or is not what was saved; the message names it and says what to do."""


class MissingExtraError(CondyleError, ImportError):
    """An optional package is not installed; the message holds the pip command that installs it."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """The imported optional `module`, or a MissingExtraError naming the extra of Condyle that installs it.

    `purpose` completes the sentence "gmpy2 is needed for ...": `require("gmpy2", "precision", "the mpfr backend")`.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # a package that is there but lacks something of its own reports that itself
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(f"{package} is needed for {purpose}: {install_command(extra)}", name=module) from error


def install_command(*extras: str) -> str:
    """What to type to install extras of Condyle for the Python that runs it; a checkout of the source is installed from there."""
    from shlex import quote

    source = Path(__file__).resolve().parent.parent
    wanted = ",".join(extras)
    if not (source / "pyproject.toml").is_file():
        return f"pip install 'condyle[{wanted}]'"
    folder = "." if source == Path.cwd() else str(source)
    return f"{typed(sys.executable)} -m pip install -e {quote(f'{folder}[{wanted}]')}"


def typed(program: str) -> str:
    """A program as it is typed here: its name where the shell finds it by that, else its path."""
    from shlex import quote
    from shutil import which

    found = which(os.path.basename(program))
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return os.path.basename(program)
    path = os.path.relpath(program)
    return quote(os.path.abspath(program) if path.startswith(os.pardir) else path)
