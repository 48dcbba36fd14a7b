"""What a xacro file asks of its surroundings: $(arg x), $(find package), $(optenv ...), xacro.load_yaml(...), messages.

Files are read only from the allowed folders, and the environment is that of the arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from condyle.robot.expression_functions import TOKENIZE
from condyle.robot.expression_values import Function, Namespace, Value, dotted, text
from condyle.robot.expressions import Evaluator
from condyle.robot.names import nearest, quoted
from condyle.robot.paths import Places
from condyle.robot.report import Report
from condyle.robot.xml import Element
from condyle.robot.yaml_values import read_yaml

MAX_YAML_BYTES = 384 * 2**10  # in all YAML files
MAX_MESSAGE = 200  # characters of a message of the file's own
ENVIRONMENT = "env:"  # an argument with this prefix is a variable of the environment


class Failed(ValueError):
    """An expression that failed, with the innermost expression in its sentence."""

    def __init__(self, written: str, error: Exception) -> None:
        super().__init__(str(error) if isinstance(error, Failed) else f"in expression {quoted(written)}: {error}")


class Substitutions:
    """The arguments of a file, the folders it may read, and the notes on what it took from where."""

    def __init__(self, places: Places, arguments: Mapping[str, str], report: Report) -> None:
        self.places, self.report, self.evaluator = places, report, Evaluator()
        self.arguments = {name: value for name, value in arguments.items() if not name.startswith(ENVIRONMENT)}
        self.environment = {name[len(ENVIRONMENT) :]: value for name, value in arguments.items() if name.startswith(ENVIRONMENT)}
        self.defaults: dict[str, str] = {}  # of arguments that the file defines further below
        self.folders: dict[str, Path] = {}  # of each file, by the name its elements carry
        self.file = ""  # the file that is being expanded; a macro belongs to another
        self.element = Element("", {})  # the element whose text is being filled in
        self._yaml: dict[Path, Value] = {}
        self._yaml_bytes = 0
        own = {
            "load_yaml": Function("load_yaml", self._load_yaml),
            "abs_filename": Function("abs_filename", self._absolute),
            "dotify": Function("dotify", dotted),
        }
        known = {
            **own,
            "arg": Function("arg", self._argument),
            "tokenize": TOKENIZE,
            "fatal": Function("fatal", self._fatal),
            **{name: Function(name, self._message(name)) for name in ("message", "warning", "error", "print_location")},
        }
        self.functions: dict[str, Value] = {**own, "xacro": Namespace("xacro", known.__getitem__, lambda: list(known))}

    # -- $(...)

    def substitute(self, written: str) -> Value:
        """$(arg name), $(find package), $(dirname), $(eval expression), $(optenv name default)."""
        command, _, rest = written.strip().partition(" ")
        rest = rest.strip()
        if command == "arg":
            return self._argument(rest)
        if command == "find":
            return self._find(rest)
        if command == "dirname":
            return str(self.folders[self.element.file])
        if command == "eval":
            return self._evaluate(rest)
        if command in ("env", "optenv"):
            name, _, default = rest.partition(" ")
            return self._variable(name, default.strip() if command == "optenv" else None)
        if command == "cwd":
            raise ValueError("$(cwd) is refused: a robot must not depend on where a program was started; write $(dirname)")
        known = "$(arg x), $(find package), $(dirname), $(eval ...), $(optenv x default)"
        raise ValueError(f"$({quoted(written)[1:-1]}) is unknown: there are {known}")

    def _argument(self, name: Value) -> Value:
        if isinstance(name, str) and name not in self.arguments and name in self.defaults:
            self.report.ignored(
                self.element.where, f"argument {quoted(name)} is used above its <xacro:arg>: it has the default given there"
            )
            return self.defaults[name]
        if name in self.arguments:
            return self.arguments[name]
        raise ValueError(f"$(arg {text(name)[:200]}): there is no such argument{nearest(name, list(self.arguments))}")

    def _find(self, name: Value) -> str:
        name = text(name)
        found = [home for home in self.places.packages(name) if os.path.isdir(home)]
        if not found:
            renamed = self.places.renamed(name)
            if renamed is None:
                what = "the package is in none of the package folders: give its parent in `package_dirs`"
                raise ValueError(f"$(find {quoted(name)[1:-1]}): {what}")
            self.report.ignored(
                self.element.where, f"$(find {name}): no package has this name, the robot's own folder '{renamed.name}' is taken"
            )
            found = [renamed]
        return os.path.abspath(found[0])

    def _variable(self, name: Value, default: Value = None) -> Value:
        """A variable of the environment that was given in the arguments, else the default."""
        name = text(name)
        if name in self.environment:
            return self.environment[name]
        if default is None:
            advice = f"give it as the argument '{ENVIRONMENT}{name[:80]}', or use <xacro:arg>"
            raise ValueError(f"$(env {quoted(name)[1:-1]}) is refused: a robot must not depend on the environment: {advice}")
        what = f"environment variable {quoted(name)}, which is not looked at: the default {quoted(text(default))} is taken"
        self.report.ignored(self.element.where, what)
        return default

    def _evaluate(self, written: str) -> Value:
        from condyle.robot.xacro_text import literal

        values = {name: literal(value) for name, value in {**self.defaults, **self.arguments}.items()}
        functions = {
            "arg": Function("arg", lambda name: literal(self._argument(name))),
            "find": Function("find", self._find),
            "dirname": Function("dirname", lambda: str(self.folders[self.element.file])),
            "env": Function("env", self._variable),
            "optenv": Function("optenv", lambda name, default="": self._variable(name, default)),
        }
        try:
            return self.evaluator.evaluate(written, values.__getitem__, functions)
        except ValueError as error:
            raise Failed(written, error) from None

    # -- xacro.name(...)

    def locate(self, name: str) -> Path:
        """The file of this name, from the file that is being expanded, or from the one the element stands in."""
        own = self.folders[self.element.file]
        folders = dict.fromkeys([self.folders.get(self.file, own), own])
        problem: ValueError | None = None
        for folder in folders:
            try:
                path = self.places.find(name, folder)
            except ValueError as error:
                problem = problem or error
                continue
            if path is not None:
                return path
        if problem is not None:
            raise ValueError(f"file {quoted(name)}: {problem}") from None
        around = self.places.around_missing(name, own)
        raise FileNotFoundError(f"file {quoted(name)} is not found in the allowed folders{around}")

    def _load_yaml(self, filename: Value) -> Value:
        if not isinstance(filename, str):
            raise ValueError("load_yaml() takes the name of a file")
        try:
            path = self.locate(filename)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from None
        if path not in self._yaml:
            try:
                self._yaml_bytes += path.stat().st_size
                if self._yaml_bytes > MAX_YAML_BYTES:
                    raise ValueError(f"the YAML files have more than {MAX_YAML_BYTES:,} bytes in all")
                content = path.read_bytes()
            except OSError as error:
                raise ValueError(f"file {quoted(filename)} cannot be read: {error.strerror}") from None
            try:
                self._yaml[path] = read_yaml(content, self._plain)
            except ValueError as error:
                raise ValueError(f"file {quoted(path.name)}: {error}") from None
        return self._yaml[path]

    def _plain(self, written: str) -> Value:
        nothing: dict[str, Value] = {}
        return self.evaluator.evaluate(written, nothing.__getitem__, nothing)

    def _absolute(self, filename: Value) -> str:
        folder = self.folders.get(self.file, self.folders[self.element.file])
        return text(filename) if os.path.isabs(text(filename)) else str(folder / text(filename))

    def _message(self, name: str) -> Callable[..., Value]:
        def function(*parts: Value, **options: Value) -> str:
            said = " ".join(map(text, parts))
            if name != "print_location":
                note = self.report.ignored if name == "message" else self.report.kept
                note(self.element.where, f"xacro.{name}: {quoted(said[:MAX_MESSAGE])[1:-1]}")
            return ""

        return function

    def _fatal(self, *parts: Value) -> Value:
        raise ValueError("the file refuses: " + quoted(" ".join(map(text, parts))[:MAX_MESSAGE])[1:-1])
