"""The report: one HTML file with players, charts, checks, versions and hashes, that needs no network."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from condyle.apps.demos.charts import charts
from condyle.apps.demos.checks import Check
from condyle.apps.demos.registry import DEMOS, Demo
from condyle.tape.host_info import program
from condyle.workbench.runs.run import Run
from condyle.workbench.view.page import facts_html, html_page
from condyle.workbench.view.player import player_html
from condyle.workbench.view.plots import chart_html

if TYPE_CHECKING:
    from condyle.apps.demos.show import Result

MARKS = {
    True: '<span class="good">ok</span>',
    False: '<span class="bad">failed</span>',
    None: '<span class="skip">skipped</span>',
}
HEIGHT = 470  # pixels, of a player
NUMBERS = ("one", "two", "three", "four", "five", "six")


def section(demo: Demo, run: Run, checks: Sequence[Check], path: Path) -> str:
    """The robot's part of the page: its player beside its checks, its charts, and how to repeat it; `path`: of the run."""
    file = quote(str(path))
    verbs = [f"view {file}", f"replay {file} --check", f"verify {demo.name}"]
    commands = [f"{program()} {verb}" for verb in verbs]
    facts = {
        "robot": f"{run.robot.name}, {run.robot.nv} degrees of freedom, {run.robot.mass:.4g} kg",
        "run": f"{run.steps:,} steps of {1e3 * run.dt:g} ms, {run.t[-1]:.1f} s",
        "robot hash": run.about["robot_hash"],
        "world hash": run.about["world_hash"],
    }
    return "\n".join(
        [
            f'<section id="{escape(demo.name)}">',
            f"<h2>{escape(demo.title)} {_verdict(checks)}</h2>",
            f"<p>{escape(demo.summary)}</p>",
            f'<div class="pair"><div>{player_html(run, title=demo.title, height=HEIGHT)}</div>{_table(checks)}</div>',
            f'<div class="charts">{"".join(chart_html(each) for each in charts(demo.name, run))}</div>',
            f"<h3>Repeat it</h3><pre>{escape(chr(10).join(commands))}</pre>",
            facts_html(facts),
            "</section>",
        ]
    )


def page(results: Sequence[Result], errors: Mapping[str, str], versions: Mapping[str, Any], seconds: float) -> str:
    """The report as HTML."""
    checks = [check for result in results for check in result.checks]
    bad = sum(check.ok is False for check in checks) + len(errors)
    verdict = f'<span class="bad">{bad} of them failed</span>' if bad else '<span class="good">all passed</span>'
    links = "".join(f'<a href="#{r.name}">{escape(DEMOS[r.name].title)} {_verdict(r.checks)}</a>' for r in results)
    broken = "".join(
        f'<section><h2>{escape(DEMOS[name].title)} <span class="bad">failed</span></h2><p>{escape(why)}</p></section>'
        for name, why in errors.items()
    )
    number = len(results) + len(errors)
    count = f"{dict(enumerate(NUMBERS, start=1)).get(number, number)} robot{'s' * (number != 1)}"
    hashes = {f"{r.name}, run": r.hashes["states"] for r in results}
    header = f"""<h1>Condyle: {count}, simulated and checked</h1>
<p>Each was simulated on this computer and checked against closed forms, balances and published numbers:
{len(checks)} checks in {seconds:.0f} s, {verdict}. Drag in a player to turn the camera. The red line in a
chart is the time of its player; a click goes to another. This page needs no network.</p>
<p class="faint">{escape(made())}</p>
<nav>{links}</nav>"""
    footer = f"""<h2>Software and processor</h2>
{facts_html({name: _text(value) for name, value in versions.items()})}
<h3>Hashes</h3>
<p class="faint">SHA-256 of all states, controls and wrenches of a run. They do not depend on the number of lanes or threads:
compare them with those of another processor.</p>
{facts_html(hashes)}"""
    return html_page(f"Condyle: {count}", header, f"{broken}{''.join(r.html for r in results)}", footer)


def made() -> str:
    """When the report is made, and from which commit, where the package is in a checkout."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    found = commit(Path(__file__).resolve().parents[3])
    return f"Made {now}" + (f" from commit {found}." if found else ".")


def commit(folder: Path) -> str:
    """The commit of a checkout, with a word if files were changed since; "" without git, or outside of one."""
    git = ["git", "-C", str(folder)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10)
        if head.returncode or not (folder / ".git").exists():
            return ""
        status = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip() + (", with changes" if status.stdout.strip() else "")


def _verdict(checks: Sequence[Check]) -> str:
    failed = sum(check.ok is False for check in checks)
    kind, text = ("bad", f"{failed} of {len(checks)} failed") if failed else ("good", f"✓ {len(checks)}")
    return f'<span class="{kind}" style="font-size:15px">{text}</span>'


def _table(checks: Sequence[Check]) -> str:
    """The checks by group; where there is a detail, it takes the place of value and bound."""
    out, last = [], ""
    for check in checks:
        if check.group != last:
            out.append(f'<tr><th class="group" colspan="4">{escape(check.group)}</th></tr>')
        last = check.group
        if check.detail:
            cells = f'<td colspan="2" class="said">{escape(check.detail)}</td>'
        else:
            bound = check.bound.replace("at most", "≤").replace("at least", "≥").replace(" to ", " … ")
            cells = f'<td class="value">{escape(check.shown)}</td><td class="bound">{escape(bound)}</td>'
        out.append(f'<tr><td>{escape(check.name)}</td>{cells}<td class="mark">{MARKS[check.ok]}</td></tr>')
    return f'<div><div class="rows" tabindex="0" role="region" aria-label="checks"><table>{"".join(out)}</table></div></div>'


def _text(value: Any) -> str:
    return ", ".join(f"{n} of {kind}" for kind, n in value.items()) if isinstance(value, Mapping) else str(value)
