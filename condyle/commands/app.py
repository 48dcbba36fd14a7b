"""The program `condyle`: its groups of verbs, how it ends, and the terminal it writes to."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from condyle.errors import CondyleError, MissingExtraError, RobotError

# how the program ends
FINE, DIFFERENT, WRONG, MISSING, BUG, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 70, 130, 141
TRACEBACK = "CONDYLE_TRACEBACK"  # set to anything, a bug shows where it is

SEE, RUN, CHECK, MEASURE, ABOUT = PANELS = ("See", "Run", "Check", "Measure", "About")
EPILOG = (
    "Exit codes: 0 fine; 1 a check failed, or runs differ; 2 wrong input, one sentence says which; 3 an extra is not installed; "
    "70 a bug of Condyle; 130 interrupted."
)

Verb = TypeVar("Verb", bound=Callable[..., None])
EXAMPLES: dict[str, tuple[str, ...]] = {}  # of every verb, as its --help shows them


class Stop(Exception):
    """The command ends with this exit code; what there was to say has been said."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Commands(TyperGroup):
    """The verbs; however one ends, a person sees one sentence and a script sees an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """By group, and as they are written in each."""
        return sorted(self.commands, key=lambda name: PANELS.index(str(getattr(self.commands[name], "rich_help_panel", ABOUT))))

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().main(*arguments, **options)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # while a help was printed
                _stop_writing()
                raise SystemExit(NOBODY_READS) from None
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            self._refuse(error, None)
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except Stop as stop:
            raise typer.Exit(stop.code) from None
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            typer.echo("condyle: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _stop_writing()
            raise typer.Exit(NOBODY_READS) from None
        except CondyleError as error:
            _show_traceback()
            typer.echo(sentence(error), err=True)
            raise typer.Exit(MISSING if isinstance(error, MissingExtraError) else WRONG) from None
        except OSError as error:
            _show_traceback()
            place = "" if error.filename is None else f"{error.filename}: "
            typer.echo(f"condyle: {place}{error.strerror or error}; check the path, its permissions and the disk", err=True)
            raise typer.Exit(WRONG) from None
        except Exception as error:
            self._refuse(error, ctx.invoked_subcommand)
            _show_traceback()
            typer.echo(f"condyle: {bug(error)}", err=True)
            raise typer.Exit(BUG) from None

    def _refuse(self, error: Exception, verb: str | None) -> None:
        """Ends with a sentence if the words of the command line are the error."""
        from condyle.commands.usage import is_usage, usage

        if is_usage(error):
            known = verb if verb in self.commands else None
            command: Any = self if known is None else self.commands[known]
            typer.echo(f"condyle: {usage(error, command, known, next(iter(EXAMPLES.get(known or '', ())), ''))}", err=True)
            raise typer.Exit(WRONG) from None


def sentence(error: CondyleError) -> str:
    """What is told of an error: its sentence, or the list of a file's problems; what is not seen, such as an escape, is spelt."""
    problems = error.problems if isinstance(error, RobotError) else ()
    text = f"condyle: {error}"
    if len(problems) > 1:
        text = "\n  ".join([f"condyle: {len(problems)} problems", *problems])
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def bug(error: Exception) -> str:
    """One line about an error that nobody expected, and how to report it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"this is a bug, {what}; please report it with the command you typed, `condyle version`, and what it prints with "
        f"{TRACEBACK}=1 in front"
    )


def _show_traceback() -> None:
    if os.environ.get(TRACEBACK):
        traceback.print_exc()


def _stop_writing() -> None:
    """What is still to be written goes nowhere: its reader has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Terminal(Console):
    """A console that leaves a broken pipe to the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


def terminal(*, stderr: bool = False, wide: int = 130) -> Console:
    """The terminal as it is; a pipe has no width, and lines keep theirs."""
    return Terminal(stderr=stderr, width=None if (sys.stderr if stderr else sys.stdout).isatty() else wide)


app = typer.Typer(
    name="condyle",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def verb(panel: str, *examples: str, name: str | None = None) -> Callable[[Verb], Verb]:
    """Makes a function a verb of the group `panel`; its help is its docstring, then the examples."""

    def made(function: Verb) -> Verb:
        word = name or function.__name__
        EXAMPLES[word] = examples
        text = "\n".join(f"  [not dim bold]{escape(example)}[/]" for example in examples)
        help_text = "\n".join(line.strip() for line in (function.__doc__ or "").strip().splitlines())
        made_help = f"{help_text}\n\nExample{'s' * (len(examples) > 1)}:\n{text}"
        app.command(word, rich_help_panel=panel, help=made_help, epilog=None)(function)
        return function

    return made
