"""HTML tables, and a robot as one for notebooks. Names come from files: they are escaped, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from condyle.robot.joints import Revolute

if TYPE_CHECKING:
    from condyle.multibody.robot import Robot
    from condyle.robot.model import Link

MOST_ROWS = 60
CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:middle"


def html_table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already; `head` is its first row."""
    titles = "".join(f'<th style="{CELL}">{title}</th>' for title in head)
    body = "".join(f"<tr>{''.join(f'<td style={CELL!r}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{titles}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def robot_html(robot: Robot) -> str:
    """The robot's joints, links, masses and limits as an HTML table; all names are escaped."""
    links = robot.model.links
    of = "" if robot.coordinate_map.identity else f" of {robot.model.nv}"
    head = (
        f"<b>{escape(robot.name)}</b>: {len(links)} joints, {robot.nq} coordinates, "
        f"{robot.nv}{of} velocities, {robot.mass:.6g} kg"
    )
    table = html_table((_row(link) for link in links[:MOST_ROWS]), ("joint", "kind", "limits", "moves", "mass, kg"))
    more = f"<div>and {len(links) - MOST_ROWS} more joints</div>" if len(links) > MOST_ROWS else ""
    report = robot.report
    items = "".join(f"<li>{escape(line)}</li>" for line in report[:MOST_ROWS])
    warnings = f"<details><summary>{len(report)} warnings</summary><ul>{items}</ul></details>" if report else ""
    return f"<div>{head}{table}{more}{warnings}</div>"


def _row(link: Link) -> tuple[str, ...]:
    """The cells of one joint."""
    kind = type(link.kind).__name__.lower()
    unit = "rad" if isinstance(link.kind, Revolute) else "m"
    ends = (link.limits.lower, link.limits.upper)
    limits = "" if ends == (None, None) else " to ".join("any" if end is None else f"{end:.4g}" for end in ends) + f" {unit}"
    return escape(link.joint), escape(kind), limits, escape(link.name), f"{float(link.inertia.mass):.4g}"
