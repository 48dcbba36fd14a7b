"""A command line that cannot be read, in one sentence: what was wanted, what was given, and what to type instead."""

from __future__ import annotations

import re
from typing import Any

from condyle.robot.names import nearest
from condyle.tape.host_info import program

# how the reader of numbers calls what is wrong, and what was wanted
KINDS = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
BOUNDS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}


def is_usage(error: BaseException) -> bool:
    """Whether the reader of command lines raised it, and not only to show the help."""
    return hasattr(error, "exit_code") and hasattr(error, "format_message") and type(error).__name__ != "NoArgsIsHelpError"


def usage(error: Any, command: Any, verb: str | None, example: str) -> str:
    """The sentence about `error`, which was met while the words after `verb` were read for `command`."""
    name = f"{program()} {verb}" if verb else program()
    example = example.replace("condyle", program(), 1)
    helped = f"{name} --help tells all"
    kind, option = type(error).__name__, str(getattr(error, "option_name", ""))
    if kind == "MissingParameter" and error.param is not None:
        return f"{name} wants {_called(error.param)}, and none was given: try {example}; {helped}"
    if kind == "NoSuchOption":
        return f"{name} has no option {option:.60}{_near(option, command)}; {helped}"
    if kind == "BadOptionUsage":
        return f"{_wanted(option, command)}; {helped}"
    if kind == "BadParameter" and error.param is not None:
        return f"{_called(error.param)} {_misread(error)}; {helped}"
    if "No such command" in error.message and verb is None:
        word = error.message.partition("'")[2].partition("'")[0]
        return f"there is no verb '{word:.60}'{nearest(word, list(command.commands))}; {helped}"
    extra = re.fullmatch(r"(?s)Got unexpected extra argument\S* \((.*)\)", error.message)
    if extra:
        return f"{name} has no use for '{extra[1]:.60}': leave it out, or try {example}; {helped}"
    return f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}; {helped}"


def _called(param: Any) -> str:
    """--seconds, or ROBOT."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).upper().strip("[].")


def _near(option: str, command: Any) -> str:
    known = [each for param in command.params if param.param_type_name == "option" for each in param.opts if each[:2] == "--"]
    meant = nearest(option, known)
    return meant if "did you mean" in meant else ""


def _wanted(option: str, command: Any) -> str:
    """How many values an option takes."""
    param = next((p for p in command.params if option in p.opts), None)
    if param is None or getattr(param, "is_flag", False):
        return f"{option} stands alone: write it without a value"
    if param.nargs > 1:
        return f"{option} wants {param.nargs} values: write {option} {param.metavar or ' '.join(['NUMBER'] * param.nargs)}"
    return f"{option} wants a value: write one behind it"


def _misread(error: Any) -> str:
    """Behind the name of an option: what it takes, and what it got."""
    found = getattr(error.__cause__, "errors", list)()
    first = found[0] if found else {}
    kind, got = first.get("type"), f", got {str(first.get('input'))!r:.60}"
    if kind in KINDS:
        return f"wants {KINDS[kind]}{got}"
    if kind in BOUNDS:
        name, words = BOUNDS[kind]
        return f"must be {words} {first['ctx'][name]:g}{got}"
    return f"cannot be read: {error.message.rstrip('.')}"
