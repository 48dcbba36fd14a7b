"""All exceptions: `except CondyleError` catches every error that Condyle raises deliberately."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any


class CondyleError(Exception):
    """Base class of all errors; the message says what was expected, what was given, where, and what to do."""


class TraceError(CondyleError):
    """A function cannot be traced: it used a traced value where a number is needed."""


class ShapeError(CondyleError, ValueError):
    """An array has the wrong shape, or a list the wrong length."""


class BackendError(CondyleError, RuntimeError):
    """A backend cannot run on this computer, cannot run this tape, or gave wrong bits."""


class RobotError(CondyleError, ValueError):
    """A robot description is wrong; `problems` lists all of them, one sentence each: where, what, and what to do."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class SimulationError(CondyleError, ValueError):
    """A simulation cannot be built or run: a ground, a contact point, a mesh or a state is wrong."""


class ControlError(CondyleError, ValueError):
    """No controller exists for the given system, or its costs are invalid."""


class FileError(CondyleError, OSError):
    """A file cannot be read or written, or its content is wrong."""


class ConnectError(CondyleError, RuntimeError):
    """Another program cannot be reached, has ended, does not respond, or sends what cannot be used."""


class MissingExtraError(CondyleError, ImportError):
    """An optional package is not installed; the message holds the pip command that installs it."""


class CondyleWarning(UserWarning):
    """Something that a program should know and that is no error: what a robot's file asks and a simulation does not do, or
    numbers that are unusual."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """The imported optional `module`, or a MissingExtraError naming the extra of Condyle that installs it.

    `purpose` completes the sentence "gmpy2 is needed for ...": `require("gmpy2", "precision", "the mpfr backend")`.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # a module missing inside the package is that package's own error
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(f"{package} is needed for {purpose}: {install_command(extra)}", name=module) from error


# modules whose copies and pickles hold functions themselves, not their names
BY_VALUE = ("copy", "cloudpickle", "cloudpickle_fast", "_dill")


def require_importable(what: str, *functions: Any) -> None:
    """Raise a CondyleError if a pickle cannot hold one of these functions, because no module has it by its name."""
    for function in functions:
        if not isinstance(function, FunctionType):
            continue
        found: Any = sys.modules.get(function.__module__)
        for name in function.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not function and not _takes_functions_by_value():
            code = function.__code__
            raise CondyleError(
                f"{what} uses {function.__qualname__} ({code.co_filename}:{code.co_firstlineno}): a pickle holds functions by "
                f"name, so define it by `def` at the top of a module, or make {what} in the process that needs it"
            )


def _takes_functions_by_value() -> bool:
    """Whether it is copy.deepcopy, or a pickler such as cloudpickle's, that asks for the parts of an object."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").rpartition(".")[2] in BY_VALUE:
            return True
        frame = frame.f_back
    return False


def install_command(*extras: str) -> str:
    """The command that installs extras of Condyle for the running Python, from the checkout if there is one."""
    from shlex import quote

    source = Path(__file__).resolve().parent.parent
    wanted = ",".join(extras)
    if not (source / "pyproject.toml").is_file():
        return f"pip install 'condyle[{wanted}]'"
    folder = "." if source == Path.cwd() else str(source)
    return f"{typed(sys.executable)} -m pip install -e {quote(f'{folder}[{wanted}]')}"


def typed(program: str) -> str:
    """The shortest text that runs a program in the shell: its name if that is on the PATH, else its path."""
    from shlex import quote
    from shutil import which

    found = which(os.path.basename(program))
    if found is not None and os.path.abspath(found) == os.path.abspath(program):
        return os.path.basename(program)
    path = os.path.relpath(program)
    return quote(os.path.abspath(program) if path.startswith(os.pardir) else path)
