"""The report: one HTML file with pictures, films, charts, checks, versions and hashes, that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from condyle.demos.charts import charts
from condyle.demos.row import Row
from condyle.demos.table import MACHINES, Machine
from condyle.runs.run import Run
from condyle.tape.host_info import program
from condyle.view.player import player_html
from condyle.view.plots import STYLE, chart_html

if TYPE_CHECKING:
    from condyle.demo.performance import Performance

# the page may use what is in it, and nothing else
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-src 'self'"
MARKS = {
    True: '<span class="good">ok</span>',
    False: '<span class="bad">failed</span>',
    None: '<span class="skip">skipped</span>',
}
HEIGHT = 470  # pixels, of a film


def section(machine: Machine, run: Run, rows: Sequence[Row], path: Path) -> str:
    """The machine's part of the page: its film beside its checks, its charts, and how to repeat it; `path`: of the run."""
    file = quote(str(path))
    verbs = [f"view {file}", f"replay {file} --check", f"verify {machine.name}", *machine.next]
    commands = [f"{program()} {verb}" for verb in dict.fromkeys(verbs)]
    facts = {
        "robot": f"{run.robot.name}, {run.robot.nv} degrees of freedom, {run.robot.mass:.4g} kg",
        "run": f"{run.steps:,} steps of {1e3 * run.dt:g} ms, {run.t[-1]:.1f} s",
        "robot hash": run.about["robot_hash"],
        "world hash": run.about["world_hash"],
    }
    return "\n".join(
        [
            f'<section id="{escape(machine.name)}">',
            f"<h2>{escape(machine.title)} {_verdict(rows)}</h2>",
            f"<p>{escape(machine.story)}</p>",
            f'<div class="pair"><div>{player_html(run, title=machine.title, height=HEIGHT)}</div>{_table(rows)}</div>',
            f'<div class="charts">{"".join(chart_html(chart) for chart in charts(machine.name, run))}</div>',
            f"<h3>Repeat it, and go on</h3><pre>{escape(chr(10).join(commands))}</pre>",
            _facts(facts),
            "</section>",
        ]
    )


def page(done: Sequence[Performance], failures: Mapping[str, str], versions: Mapping[str, Any], seconds: float) -> str:
    """The whole page."""
    rows = [row for performance in done for row in performance.rows]
    made, skipped = sum(row.counts for row in rows), sum(row.value is None for row in rows)
    bad = sum(row.passed is False for row in rows) + len(failures)
    more = f" {skipped} that take longer are made by <code>condyle verify</code>." if skipped else ""
    verdict = f'<span class="bad">{bad} of them failed</span>' if bad else '<span class="good">all passed</span>'
    style = f"{files('condyle.demo').joinpath('report.css').read_text()}{STYLE}"
    links = "".join(f'<a href="#{p.name}">{escape(MACHINES[p.name].title)} {_verdict(p.rows)}</a>' for p in done)
    broken = "".join(
        f'<section><h2>{escape(MACHINES[name].title)} <span class="bad">failed</span></h2><p>{escape(why)}</p></section>'
        for name, why in failures.items()
    )
    hashes = {f"{p.name}, states": p.hashes["states"] for p in done}
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>Condyle: five machines</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>Condyle: five machines, and what is known about them</h1>
<p>Each was simulated on this machine a moment ago and checked against formulas and published numbers:
{made} checks in {seconds:.0f} s, {verdict}.{more} The films can be turned with the mouse. This page needs no network.</p>
<nav>{links}</nav>
</header>
<main>
{broken}{"".join(p.html for p in done)}
</main>
<footer>
<h2>What computed this</h2>
{_facts({name: _text(value) for name, value in versions.items()})}
<h3>The bits</h3>
<p class="faint">SHA-256 of every bit of states, controls and pushes. They depend on no number of lanes or threads; compare them
with those of another processor.</p>
{_facts(hashes)}
</footer>
</body>
</html>
"""


def _verdict(rows: Sequence[Row]) -> str:
    failed = sum(row.passed is False for row in rows)
    made = sum(row.counts for row in rows)
    kind, text = ("bad", f"{failed} of {made} failed") if failed else ("good", f"✓ {made}")
    return f'<span class="{kind}" style="font-size:15px">{text}</span>'


def _table(rows: Sequence[Row]) -> str:
    """The checks by group; what says a sentence has no bound."""
    out, last = [], ""
    for row in rows:
        if row.group != last:
            out.append(f'<tr><th class="group" colspan="4">{escape(row.group)}</th></tr>')
        last = row.group
        mark = MARKS[row.passed]
        if row.said:
            cells = f'<td colspan="2" class="said">{escape(row.said)}</td>'
        else:
            bound = row.bound.replace("at most", "≤").replace("at least", "≥").replace(" to ", " … ")
            cells = f'<td class="value">{escape(row.shown)}</td><td class="bound">{escape(bound)}</td>'
            mark = "" if row.told and row.value is not None else mark
        out.append(f'<tr><td>{escape(row.check)}</td>{cells}<td class="mark">{mark}</td></tr>')
    box = f'<div class="rows" tabindex="0" role="region" aria-label="checks"><table>{"".join(out)}</table></div>'
    return f'<div>{box}<p class="more">{sum(row.counts for row in rows)} checks: scroll to see them all</p></div>'


def _facts(facts: Mapping[str, Any]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>' for k, v in facts.items())}</dl>"


def _text(value: Any) -> str:
    return ", ".join(f"{n} of {kind}" for kind, n in value.items()) if isinstance(value, Mapping) else str(value)
