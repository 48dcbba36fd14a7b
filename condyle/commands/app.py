"""The program `condyle`: its commands in groups, its exit codes, and one sentence for every error."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperGroup

from condyle.errors import CondyleError, CondyleWarning, MissingExtraError, RobotError
from condyle.robot.names import nearest
from condyle.tape.host_info import program

# exit codes; 0 is success
FAILED, WRONG_INPUT, MISSING_EXTRA, BUG, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 70, 130, 141
TRACEBACK = "CONDYLE_TRACEBACK"  # environment variable: set, errors print their traceback

# all commands by group, in the order of --help
GROUPS = {
    "See": ("demo", "view", "watch", "info", "robots", "plot", "video"),
    "Run": ("sim", "serve", "ros2", "pidog", "fly", "replay", "export", "import", "compile"),
    "Arm lab": ("lab", "tune"),
    "Learn": ("collect", "imitate", "train", "judge", "deploy"),
    "Check": ("doctor", "verify", "gradcheck"),
    "Measure": ("identify", "bench"),
    "About": ("version", "completion"),
}
EPILOG = (
    "Exit codes: 0 success; 1 a check failed, or runs differ; 2 wrong input, explained in one sentence; 3 an extra is not "
    "installed; 70 a bug in Condyle; 130 interrupted."
)

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., None])
EXAMPLES: dict[str, tuple[str, ...]] = {}  # of each command, as its --help shows them


class Commands(TyperGroup):
    """The group of all commands; every error becomes one sentence on the standard error and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of GROUPS."""
        return [name for names in GROUPS.values() for name in names]

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program; a pipe closed while help is printed gives exit code 141."""
        try:
            return super().main(*arguments, **options)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                _discard_output()
                raise SystemExit(BROKEN_PIPE) from None
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Arguments left after the options of the program itself."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            self._report_usage(error, None)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Result of the command; exceptions become exit codes."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", CondyleWarning)
                warnings.showwarning = _note(warnings.showwarning)
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except (Exception, KeyboardInterrupt) as error:
            if is_help(error):
                raise
            self._report_usage(error, ctx.invoked_subcommand)
            code, text = failure(error)
            if os.environ.get(TRACEBACK) and code != INTERRUPTED:
                traceback.print_exc()
            typer.echo(f"condyle: {text}", err=True)
            raise typer.Exit(code) from None

    def _report_usage(self, error: BaseException, name: str | None) -> None:
        """Exit with code 2 if `error` is about how the command line was written."""
        if is_usage_error(error):
            known = name if name in self.commands else None
            command: Any = self.commands.get(known or "", self)
            # an error of a command inside of a group
            inside = getattr(getattr(error, "ctx", None), "command", None)
            if known and inside is not None and inside in getattr(command, "commands", {}).values():
                command, known = inside, f"{known} {inside.name}"
            example = EXAMPLES[known][0] if known else ""
            typer.echo(f"condyle: {usage_text(error, command, known, example)}", err=True)
            raise typer.Exit(WRONG_INPUT) from None


app = typer.Typer(
    name="condyle",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(*examples: str, of: typer.Typer | None = None) -> Callable[[CommandFunction], CommandFunction]:
    """Decorator that adds a function to the program by its name; its help is its docstring followed by the examples.

    `of`: the group of commands that it belongs to, as `group` makes it.
    """

    def add(function: CommandFunction) -> CommandFunction:
        word = function.__name__.rstrip("_")  # import_ is the command `import`
        full_help = help_text(function.__doc__ or "", examples)
        if of is None:
            EXAMPLES[word] = examples
            app.command(word, rich_help_panel=panel(word), help=full_help, epilog=None)(function)
        else:
            EXAMPLES[f"{of.info.name} {word}"] = examples
            of.command(word, help=full_help, epilog=None)(function)
        return function

    return add


def group(name: str, summary: str, *examples: str) -> typer.Typer:
    """A command with commands of its own, such as `condyle lab run`; their functions are added by command(..., of=group)."""
    EXAMPLES[name] = examples
    made = typer.Typer(
        name=name,
        help=help_text(summary, examples),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_typer(made, name=name, rich_help_panel=panel(name))
    return made


def panel(word: str) -> str:
    """The box of the --help that a command is in."""
    return next(box for box, names in GROUPS.items() if word in names)


def help_text(text: str, examples: tuple[str, ...]) -> str:
    """The help of a command: its text, followed by examples."""
    lines = "\n".join(line.strip() for line in text.strip().splitlines())
    shown = "\n".join(f"  [not dim bold]{escape(example)}[/]" for example in examples)
    return f"{lines}\n\nExample{'s' * (len(examples) > 1)}:\n{shown}"


# ---- errors


def failure(error: BaseException) -> tuple[int, str]:
    """(exit code, what to print) of an exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, CondyleError):
        problems = error.problems if isinstance(error, RobotError) else ()
        text = "\n  ".join([f"{len(problems)} problems", *problems]) if len(problems) > 1 else str(error)
        code = MISSING_EXTRA if isinstance(error, MissingExtraError) else WRONG_INPUT
        return code, "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    if isinstance(error, OSError):
        file = "" if error.filename is None else f"{error.filename}: "
        return WRONG_INPUT, f"{file}{error.strerror or error}; check the path, its permissions and the disk"
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    how = f"please report it with the command you typed, `condyle version`, and what it prints with {TRACEBACK}=1 in front"
    return BUG, f"this is a bug, {what}; {how}"


def _note(others: Callable[..., None]) -> Callable[..., None]:
    """What prints a warning of Condyle as a note on the standard error; `others` prints those of other packages."""

    def show(message: Any, category: type[Warning], *rest: Any, **named: Any) -> None:
        if issubclass(category, CondyleWarning):
            typer.echo(f"note: {message}", err=True)
        else:
            others(message, category, *rest, **named)

    return show


def _discard_output() -> None:
    """Redirect the standard output to /dev/null: its reader has closed the pipe."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


# ---- errors of usage: what was expected, what was given, what to type instead

# types of validation errors, and the value that was expected
EXPECTED = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
BOUNDS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}


def is_usage_error(error: BaseException) -> bool:
    """Whether the parser of the command line raised it, and not only to print the help."""
    return hasattr(error, "exit_code") and hasattr(error, "format_message") and not is_help(error)


def is_help(error: BaseException) -> bool:
    """Whether the parser raised it to print the help of a group without arguments."""
    return type(error).__name__ == "NoArgsIsHelpError"


def usage_text(error: Any, command: Any, name: str | None, example: str) -> str:
    """The sentence about an error of usage of `command`, called `name`."""
    typed = f"{program()} {name}" if name else program()
    example = example.replace("condyle", program(), 1)
    more = f"see {typed} --help"
    kind, option = type(error).__name__, str(getattr(error, "option_name", ""))
    if kind == "MissingParameter" and error.param is not None:
        return f"{typed} needs {_label(error.param)}, and none was given: try {example}; {more}"
    if kind == "NoSuchOption":
        return f"{typed} has no option {option:.60}{_similar(option, command)}; {more}"
    if kind == "BadOptionUsage":
        return f"{_arity(option, command)}; {more}"
    if kind == "BadParameter" and error.param is not None:
        return f"{_label(error.param)} {_invalid(error)}; {more}"
    if "No such command" in error.message and hasattr(command, "commands"):
        word = error.message.partition("'")[2].partition("'")[0]
        whole = f"{name} {word}" if name else word
        return f"there is no command '{whole:.60}'{nearest(word, list(command.commands))}; {more}"
    extra = re.fullmatch(r"(?s)Got unexpected extra argument\S* \((.*)\)", error.message)
    if extra:
        return f"{typed} does not take '{extra[1]:.60}': leave it out, or try {example}; {more}"
    return f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}; {more}"


def _label(param: Any) -> str:
    """--seconds, or ROBOT."""
    name = max(param.opts, key=len) if param.param_type_name == "option" else (param.metavar or param.name).upper().strip("[].")
    return str(name)


def _similar(option: str, command: Any) -> str:
    known = [each for param in command.params if param.param_type_name == "option" for each in param.opts if each[:2] == "--"]
    found = nearest(option, known)
    return found if "did you mean" in found else ""


def _arity(option: str, command: Any) -> str:
    """How many values an option takes."""
    param = next((p for p in command.params if option in p.opts), None)
    if param is None or getattr(param, "is_flag", False):
        return f"{option} takes no value: write it alone"
    if param.nargs > 1:
        return f"{option} needs {param.nargs} values: write {option} {param.metavar or ' '.join(['NUMBER'] * param.nargs)}"
    return f"{option} needs a value: write it after the option"


def _invalid(error: Any) -> str:
    """After the name of an option: what it takes, and what was given."""
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    first = found[0] if found else {}
    kind, given = first.get("type"), f", got {str(first.get('input'))!r:.60}"
    if kind in EXPECTED:
        return f"needs {EXPECTED[kind]}{given}"
    if kind in BOUNDS:
        name, words = BOUNDS[kind]
        return f"must be {words} {first['ctx'][name]:g}{given}"
    return f"cannot be read: {error.message.rstrip('.')}"
