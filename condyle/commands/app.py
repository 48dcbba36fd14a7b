"""The program `condyle`: its commands in groups, its exit codes, and one sentence for every error."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperGroup

from condyle.errors import CondyleError, MissingExtraError, RobotError
from condyle.robot.names import nearest
from condyle.tape.host_info import program

# exit codes; 0 is success
FAILED, WRONG_INPUT, MISSING_EXTRA, BUG, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 70, 130, 141
TRACEBACK = "CONDYLE_TRACEBACK"  # environment variable: set, errors print their traceback

# all commands by group, in the order of --help
GROUPS = {
    "See": ("demo", "view", "info", "plot", "video"),
    "Run": ("sim", "replay", "export", "import"),
    "Check": ("doctor", "verify", "gradcheck"),
    "Measure": ("bench",),
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
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            typer.echo("condyle: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except CondyleError as error:
            _print_traceback()
            typer.echo(error_text(error), err=True)
            raise typer.Exit(MISSING_EXTRA if isinstance(error, MissingExtraError) else WRONG_INPUT) from None
        except OSError as error:
            _print_traceback()
            file = "" if error.filename is None else f"{error.filename}: "
            typer.echo(f"condyle: {file}{error.strerror or error}; check the path, its permissions and the disk", err=True)
            raise typer.Exit(WRONG_INPUT) from None
        except Exception as error:
            self._report_usage(error, ctx.invoked_subcommand)
            _print_traceback()
            typer.echo(f"condyle: {bug_report(error)}", err=True)
            raise typer.Exit(BUG) from None

    def _report_usage(self, error: Exception, name: str | None) -> None:
        """Exit with code 2 if `error` is about how the command line was written."""
        if is_usage_error(error):
            known = name if name in self.commands else None
            command: Any = self if known is None else self.commands[known]
            example = next(iter(EXAMPLES.get(known or "", ())), "")
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


def command(*examples: str) -> Callable[[CommandFunction], CommandFunction]:
    """Decorator that adds a function to the program by its name; its help is its docstring followed by the examples."""

    def add(function: CommandFunction) -> CommandFunction:
        word = function.__name__.rstrip("_")  # import_ is the command `import`
        group = next(group for group, names in GROUPS.items() if word in names)
        EXAMPLES[word] = examples
        text = "\n".join(f"  [not dim bold]{escape(example)}[/]" for example in examples)
        help_text = "\n".join(line.strip() for line in (function.__doc__ or "").strip().splitlines())
        full_help = f"{help_text}\n\nExample{'s' * (len(examples) > 1)}:\n{text}"
        app.command(word, rich_help_panel=group, help=full_help, epilog=None)(function)
        return function

    return add


# ---- errors


def error_text(error: CondyleError) -> str:
    """The message of an error, or the list of all problems of a file; unprintable characters are escaped."""
    problems = error.problems if isinstance(error, RobotError) else ()
    text = f"condyle: {error}"
    if len(problems) > 1:
        text = "\n  ".join([f"condyle: {len(problems)} problems", *problems])
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def bug_report(error: Exception) -> str:
    """One line about an unexpected exception, and how to report it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"this is a bug, {what}; please report it with the command you typed, `condyle version`, and what it prints with "
        f"{TRACEBACK}=1 in front"
    )


def _print_traceback() -> None:
    if os.environ.get(TRACEBACK):
        traceback.print_exc()


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
    return hasattr(error, "exit_code") and hasattr(error, "format_message") and type(error).__name__ != "NoArgsIsHelpError"


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
    if "No such command" in error.message and name is None:
        word = error.message.partition("'")[2].partition("'")[0]
        return f"there is no command '{word:.60}'{nearest(word, list(command.commands))}; {more}"
    extra = re.fullmatch(r"(?s)Got unexpected extra argument\S* \((.*)\)", error.message)
    if extra:
        return f"{typed} does not take '{extra[1]:.60}': leave it out, or try {example}; {more}"
    return f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}; {more}"


def _label(param: Any) -> str:
    """--seconds, or ROBOT."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).upper().strip("[].")


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
