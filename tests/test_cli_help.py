"""The command line as a whole: groups, examples that parse, completion, exit codes, and how it ends."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import CliRunner
from typer.main import get_command

from condyle.commands import app as program
from condyle.commands import completion, version
from condyle.commands.cli import app
from condyle.errors import CondyleError, MissingExtraError, RobotError, install_command

COMMAND = get_command(app)
VERBS = list(COMMAND.list_commands(None))
GROUPS = program.GROUPS


def condyle(*arguments, **environment):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", **environment}, prog_name="condyle")


def spawned(*arguments, **environment):
    command = [sys.executable, "-m", "condyle", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "80", **environment}
    )


# ---- help


def test_verbs_are_grouped_in_order():
    text = condyle("--help").output
    places = [text.index(f"─ {group} ─") for group in GROUPS]
    assert places == sorted(places)
    for group, end in zip(GROUPS, [*places[1:], len(text)], strict=True):
        part = text[text.index(f"─ {group} ─") : end]
        assert set(re.findall(r"^│ ([a-z0-9]+) ", part, re.MULTILINE)) == set(GROUPS[group])
    assert set(VERBS) == set(COMMAND.commands)


def test_help_says_what_to_type_first_and_what_exit_codes_mean():
    text = condyle("--help").output
    for first in ("condyle demo", "condyle view ur3", "condyle sim my.urdf"):
        assert first in text
    for code in ("0 success", "1 a check failed", "2 wrong input", "3 an extra", "70 a bug", "130"):
        assert code in text.replace("\n ", "")
    assert condyle().output.strip() == text.strip(), "without a verb there is the same help"


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_fits_and_has_examples_that_parse(verb):
    done = condyle(verb, "--help")
    assert done.exit_code == 0 and max(map(len, done.output.splitlines())) <= 80
    examples = program.EXAMPLES[verb]
    assert examples
    said = " ".join(done.output.split())
    for example in examples:
        assert " ".join(example.split()) in said, "the help shows it"
        words = shlex.split(example.partition(" >> ")[0])
        assert words[:2] == ["condyle", verb]
        COMMAND.commands[verb].make_context(verb, words[2:])  # parsed, not run: wrong options raise


INSIDE = [(verb, word) for verb in VERBS for word in getattr(COMMAND.commands[verb], "commands", {})]


@pytest.mark.parametrize(("verb", "word"), INSIDE)
def test_every_help_inside_of_a_group_fits_and_has_examples_that_parse(verb, word):
    done = condyle(verb, word, "--help")
    assert done.exit_code == 0 and max(map(len, done.output.splitlines())) <= 80
    said = " ".join(done.output.split())
    for example in program.EXAMPLES[f"{verb} {word}"]:
        words = shlex.split(example)
        assert " ".join(example.split()) in said and words[:3] == ["condyle", verb, word]
        COMMAND.commands[verb].commands[word].make_context(word, words[3:])


def test_a_group_without_a_command_shows_its_help():
    done = condyle("lab")
    assert "Usage: condyle lab" in done.output and "bug" not in done.output


def test_summaries_are_short():
    for verb in VERBS:
        first = COMMAND.commands[verb].help.partition("\n")[0]
        assert 20 < len(first) <= 66 and first.endswith("."), f"{verb}: {first}"


def test_an_unknown_command_is_named():
    done = condyle("simm", "ur3")
    assert done.exit_code == 2 and "sim" in done.stderr


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    done = condyle("completion", shell)
    assert done.exit_code == 0 and "_CONDYLE_COMPLETE" in done.stdout and "condyle" in done.stdout


def test_completion_for_an_unknown_shell_is_a_sentence():
    done = condyle("completion", "csh")
    assert done.exit_code == 2 and "bash, zsh, fish" in done.stderr


def offered(line, cwd):
    """What bash would offer at the end of a line."""
    words = line.split(" ")
    environment = {**os.environ, "_CONDYLE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-c", "import sys; sys.argv = ['condyle']; from condyle.commands.cli import main; main()"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)
    assert not done.stderr, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_tab_completes_commands_robots_files_and_joints(tmp_path, monkeypatch):
    root = str(Path(__file__).resolve().parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    for name in ("mine.urdf", "mine.txt", "run.cdl"):
        (tmp_path / name).write_text("")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "arm.xacro").write_text("")
    assert offered("condyle ver", tmp_path) == ["verify", "version"]
    assert set(offered("condyle info m", tmp_path)) == {"mine.urdf", "more/"}
    assert offered("condyle sim ur3 --joint el", tmp_path) == ["elbow_joint="]
    # the rest without a process for each
    monkeypatch.chdir(tmp_path)
    assert completion.robots("ur3") == [("ur3", "a built-in robot")]
    assert completion.robots("more/") == [("more/arm.xacro", "a file")]
    assert completion.runs("r") == [("run.cdl", "a file")]


def test_what_is_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.cdl", ".hidden.cdl", "two\nlines.cdl"):
        (tmp_path / name).write_text("")
    assert completion.runs("") == [("a.cdl", "a file")], "no hidden files, none that would break a line"
    assert completion.tables("a") == [("a.csv", "a file")]
    assert completion.runs("nosuch/") == []


@pytest.mark.parametrize(
    ("name", "option", "start", "word"),
    [
        ("verify", "name", "pid", "pidog"),
        ("demo", "robots", "bi", "birotor"),
        ("sim", "controller", "sw", "swing"),
        ("sim", "integrator", "rk4", "rk4"),
        ("export", "kernel", "mass", "mass_matrix"),
        ("plot", "signals", "he", "height"),
    ],
)
def test_options_are_completed_from_the_tables_of_the_package(name, option, start, word):
    command = COMMAND.commands[name]
    (param,) = [param for param in command.params if param.name == option]
    found = param.shell_complete(command.make_context(name, ["x"], resilient_parsing=True), start)
    assert [item.value for item in found] == [word]


# ---- how it ends


def pretend(monkeypatch, error):
    """`condyle version` meets this."""

    def meet():
        raise error

    monkeypatch.setattr(version, "facts", meet)
    monkeypatch.setattr(version, "show", lambda console: meet())


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CondyleError("no such thing: try another"), 2, "condyle: no such thing: try another\n"),
        (RobotError(["a: one", "b: two"]), 2, "condyle: 2 problems\n  a: one\n  b: two\n"),
        (MissingExtraError("viser is needed: pip install 'condyle[viewer]'"), 3, "pip install 'condyle[viewer]'"),
        (KeyboardInterrupt(), 130, "condyle: interrupted\n"),
        (PermissionError(13, "Permission denied", "out.csv"), 2, "condyle: out.csv: Permission denied; check"),
        (ZeroDivisionError("float\n division"), 70, "this is a bug, ZeroDivisionError: float division; please report it"),
        (AssertionError(), 70, "CONDYLE_TRACEBACK=1"),
    ],
)
def test_every_end_has_its_exit_code_and_one_sentence(monkeypatch, error, code, said):
    pretend(monkeypatch, error)
    monkeypatch.delenv(program.TRACEBACK, raising=False)
    done = condyle("version")
    assert done.exit_code == code and said in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout


def test_a_bug_shows_where_it_is_when_asked(monkeypatch):
    pretend(monkeypatch, ZeroDivisionError("x"))
    done = condyle("version", CONDYLE_TRACEBACK="1")
    assert done.exit_code == 70 and "Traceback" in done.stderr and "test_cli_help.py" in done.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_recorded(tmp_path):
    run = tmp_path / "run.cdl"
    child = spawned("sim", "pendulum", "--joint", "swing=1", "--seconds", "10000", "-o", str(run))
    begun = time.monotonic()
    while not (run.exists() and run.stat().st_size > 20_000) and time.monotonic() - begun < 60.0:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "Traceback" not in err
    assert re.fullmatch(r"condyle: interrupted after [\d,]+ steps, which are kept\n", err), err
    assert "pendulum after" in out
    done = condyle("replay", str(run), "--check", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["lost"] is None and found["steps"] > 100 and found["replay"]["identical"]


def test_a_reader_that_leaves_is_no_error():
    child = spawned("info", "fourlimb", "--json")
    child.stdout.close()  # as `| head` does
    assert child.wait(timeout=60) == 141
    assert child.stderr.read() == ""
    child.stderr.close()


# ---- version


def test_version_lists_the_computer_and_the_extras():
    done = condyle("--version")
    assert done.exit_code == 0
    assert done.stdout == condyle("version").stdout
    for word in ("condyle", "llvm", "cpu", "threads", "cache", "os", "cores", "memory", "GiB", "extras"):
        assert word in done.stdout
    found = json.loads(condyle("version", "--json").stdout)
    assert found["cores"] >= 1 and found["memory"] > 2**28 and {"installed", "missing"} == set(found["extras"])


def test_version_says_how_to_install_what_is_missing(monkeypatch):
    monkeypatch.setattr(version, "find_spec", lambda name: None if name in ("viser", "pyarrow") else object())
    done = condyle("version")
    assert f"missing   viewer, export: {install_command('viewer', 'export')}" in done.stdout


def test_the_extras_are_those_of_the_package():
    import tomllib

    declared = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
    extras = set(declared["optional-dependencies"]) - {"test", "lint", "peers", "mpc", "docs", "robots"}  # for us, and data
    assert set(version.EXTRAS) == extras
