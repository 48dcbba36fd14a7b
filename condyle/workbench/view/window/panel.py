"""The panel at the side: errors, callbacks that show their errors, check boxes of a view, and text from files as text.

viser runs the HTML and Markdown that it is given, so all text passes `paragraph` or `table`, which escape it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from condyle.multibody.robot import Robot
from condyle.workbench.view.scene import FORCE, PLAN, PUSH, TRAIL

if TYPE_CHECKING:
    from condyle.workbench.view.window.objects import Environment, RobotNode

ALERT = "#e03131"
LAYERS = {
    "visuals": "robot",
    "collisions": "collision shapes",
    "frames": "frames",
    "inertias": "inertia ellipsoids",
    "center": "centre of mass",
    "contacts": "contact forces",
    "pushes": "pushes and thrusts",
    "plan": "plan",
    "trail": "trail",
}
CENTER = (0.95, 0.77, 0.06)
LAYER_COLORS = {"contacts": FORCE, "pushes": PUSH, "plan": PLAN, "trail": TRAIL, "center": CENTER}
MAX_LETTERS = 400  # of one value
MAX_DEPTH = 3  # of nested facts
MAX_ROWS = 80
MAX_WARNINGS = 50
_CELL = "padding:1px 8px 1px 0;vertical-align:top;overflow-wrap:anywhere"


class Panel:
    """The top of the panel, and callbacks whose errors are shown there."""

    def __init__(self, server: Any, wake: Callable[[], None]) -> None:
        self.gui, self.wake = server.gui, wake
        self._message = self.gui.add_html("", visible=False)
        self.error: str | None = None

    def title(self, text: str) -> None:
        """Set the title of the page, which viser calls by its own name; a script of ours reads it as text."""
        said = escape(f"{short(text, 80)} - Condyle", quote=True)
        act = "document.title=this.dataset.title"
        self.gui.add_html(f'<img src="data:," alt="" style="display:none" data-title="{said}" onerror="{act}">')

    def fail(self, error: Exception) -> None:
        """Show an error."""
        text = str(error) or type(error).__name__
        if self.error != text:
            self.error = text
            self._message.content = paragraph(text, color=ALERT)
            self._message.visible = True

    def clear(self) -> None:
        """Hide the last error."""
        if self.error is not None:
            self.error = None
            self._message.visible = False

    def callback(self, act: Callable[[], object]) -> Callable[[Any], None]:
        """A callback of an input: it acts, wakes the render loop, and shows its error if it has one.

        Values that the program itself sets come without a client, and are ignored.
        """

        def called(event: Any) -> None:
            if event.client is None:
                return
            try:
                act()
                self.clear()
            except Exception as error:  # shown, whatever it is
                self.fail(error)
            self.wake()

        return called

    def button(self, label: str, act: Callable[[], object]) -> Any:
        """A button that acts when it is clicked."""
        made = self.gui.add_button(label)
        made.on_click(self.callback(act))
        return made

    def buttons(self, label: str, acts: Mapping[str, Callable[[], object]]) -> Any:
        """A row of buttons by name."""
        made = self.gui.add_button_group(label, tuple(acts))
        made.on_click(self.callback(lambda: acts[made.value]()))
        return made

    def linked(self, made: Any, act: Callable[[Any], object]) -> Any:
        """The input, with `act(value)` called when the user changes it."""
        made.on_update(self.callback(lambda: act(made.value)))
        return made

    def about_robot(self, robot: Robot, warnings: Sequence[str], more: Sequence[tuple[object, object]] = ()) -> None:
        """A table of facts about a robot, and what its file left open."""
        total = "" if robot.coordinate_map.identity else f" of {robot.model.nv}"
        facts = {
            "robot": robot.name,
            "mass": f"{robot.mass:.6g} kg",
            "links that move": len(robot.model.links),
            "coordinates": f"nq {robot.nq}, nv {robot.nv}{total}",
            "frames": len(robot.model.frames),
            "gravity": f"{' '.join(f'{x:g}' for x in robot.model.gravity)} m/s²",
        }
        self.gui.add_html(table([*facts.items(), *more]))
        lines = [*robot.report, *warnings]
        if lines:
            with self.gui.add_folder(f"warnings ({len(lines)})"):
                self.gui.add_html(paragraph(*lines[:MAX_WARNINGS], small=True))


class View:
    """Robots in an environment, with a panel: what a window shows. A view is one of its subclasses."""

    def __init__(self, server: Any, panel: Panel, nodes: Sequence[RobotNode], environment: Environment) -> None:
        self.panel, self.nodes, self.environment, self._server = panel, nodes, environment, server
        self._changed = True

    def draw(self, elapsed: float) -> bool:
        """Draw what changed, after so many seconds; whether more is to come."""
        raise NotImplementedError

    def show(self, layer: str, on: bool) -> None:
        """Show or hide one of LAYERS of every robot."""
        for node in self.nodes:
            node.show(layer, on)

    def add_layers(self, *left_out: str) -> None:
        """Add check boxes for all LAYERS but some, and for the environment."""
        panel, gui = self.panel, self.panel.gui
        gui.add_html(legend((css(color), LAYERS[name]) for name, color in LAYER_COLORS.items() if name not in left_out))
        for layer, label in LAYERS.items():
            if layer not in left_out:
                box = gui.add_checkbox(label, any(layer in node.shown for node in self.nodes))
                panel.linked(box, partial(self.show, layer))
        panel.linked(gui.add_checkbox("grid", self.environment.grid_on), self.environment.show_grid)
        panel.linked(gui.add_checkbox("dark", self.environment.dark), self.environment.paint)
        if "contacts" not in left_out:
            panel.linked(gui.add_slider("arrow length", 0.1, 5.0, 0.1, 1.0), self._stretch)

    def _stretch(self, factor: float) -> None:
        for node in self.nodes:
            node.stretch = factor


def short(value: object, most: int = MAX_LETTERS) -> str:
    """A value as text on one line, cut where it is too long, without unprintable letters."""
    text = f"{value:.9g}" if isinstance(value, float) else str(value)
    text = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return text if len(text) <= most else text[:most] + "…"


def paragraph(*texts: object, color: str = "", small: bool = False) -> str:
    """HTML of a paragraph for each text."""
    style = f"margin:0;padding:2px 10px;overflow-wrap:anywhere;font-size:{'0.8em' if small else '0.875em'};line-height:1.4"
    style += f";color:{color}" if color else ""
    return "".join(f'<p style="{style}">{escape(short(text))}</p>' for text in texts)


def css(color: Iterable[float]) -> str:
    """A colour from 0 to 1 as a style writes it."""
    return "#" + "".join(f"{round(255 * c):02x}" for c in color)


def legend(entries: Iterable[tuple[str, object]]) -> str:
    """HTML of a line of coloured marks, each (CSS colour, what it stands for); one that ends in "dashed" is drawn so."""
    marks = []
    for color, name in entries:
        hue, _, dashed = color.partition(" ")
        edge = f"border-top:3px {'dashed' if dashed else 'solid'} {escape(hue, quote=True)}"
        mark = f'<i style="display:inline-block;width:16px;height:0;margin-right:5px;vertical-align:middle;{edge}"></i>'
        marks.append(f'<span style="margin-right:12px;white-space:nowrap">{mark}{escape(short(name, 46))}</span>')
    return f'<p style="margin:0;padding:2px 10px;font-size:0.75em;line-height:1.7">{" ".join(marks)}</p>'


def table(rows: Iterable[tuple[object, object]]) -> str:
    """HTML of a table of names and values."""
    body = "".join(
        f'<tr><td style="{_CELL};opacity:0.7;max-width:9em">{escape(short(name, 80))}</td>'
        f'<td style="{_CELL}">{escape(short(value))}</td></tr>'
        for name, value in rows
    )
    return f'<table style="font-size:0.8em;line-height:1.35;margin:2px 10px;border-spacing:0">{body}</table>'


def flatten(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of nested data, names of inner parts joined by a dot; the last row says if some are left out."""
    rows: list[tuple[str, str]] = []

    def add(prefix: str, value: Any, depth: int) -> None:
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            for name, inner in value.items():
                add(f"{prefix}.{name}" if prefix else str(name), inner, depth + 1)
        elif isinstance(value, (list, tuple)) and len(value) > 8:
            rows.append((prefix, f"{len(value)} entries"))
        elif value is not None and value != "":
            rows.append((prefix, short(value)))

    add("", about, 0)
    return rows if len(rows) <= MAX_ROWS else [*rows[:MAX_ROWS], ("", f"and {len(rows) - MAX_ROWS} more")]
