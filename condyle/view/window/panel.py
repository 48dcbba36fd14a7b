"""The panel at the side: a line for what went wrong, buttons that never fail in silence, and what is to be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from condyle.view.window import body, marks
from condyle.view.window.body import Body
from condyle.view.window.marks import Marks
from condyle.view.window.stage import Stage
from condyle.view.window.text import paragraph

ALERT = "#e03131"
WORDS = {
    "visuals": "robot",
    "collisions": "collision shapes",
    "frames": "frames",
    "inertias": "inertia ellipsoids",
    "centre of mass": "centre of mass",
    "contacts": "contact forces",
    "pushes": "pushes",
    "trail": "trail",
}


class Panel:
    """The top of the panel, and callbacks whose errors are shown there."""

    def __init__(self, server: Any, wake: Callable[[], None]) -> None:
        self.gui = server.gui
        self._wake = wake
        self._notice = self.gui.add_html("", visible=False)
        self.failed: str | None = None

    def fail(self, error: Exception) -> None:
        """Show what went wrong."""
        text = str(error) or type(error).__name__
        if self.failed != text:
            self.failed = text
            self._notice.content = paragraph(text, color=ALERT)
            self._notice.visible = True

    def fine(self) -> None:
        """Nothing is wrong any more."""
        if self.failed is not None:
            self.failed = None
            self._notice.visible = False

    def does(self, act: Callable[[], None]) -> Callable[[Any], None]:
        """A callback of a button or another input: it acts, wakes the drawing, and shows its error if it has one.

        What the program itself sets in an input is no wish of the user: it has no client, and is passed over.
        """

        def called(event: Any) -> None:
            if event.client is None:
                return
            try:
                act()
                self.fine()
            except Exception as error:  # shown, whatever it is
                self.fail(error)
            self._wake()

        return called


class Show:
    """Check boxes for what is drawn."""

    def __init__(self, panel: Panel, stage: Stage, bodies: Sequence[Body], signs: Sequence[Marks], layers: Sequence[str]) -> None:
        self._bodies, self._signs = bodies, signs
        self.boxes: dict[str, Any] = {}
        gui = panel.gui
        for layer in layers:
            on = bodies[0].shows(layer) if layer in body.LAYERS else layer in signs[0].shown
            box = self.boxes[layer] = gui.add_checkbox(WORDS[layer], on)
            box.on_update(panel.does(lambda layer=layer, box=box: self.set(layer, box.value)))  # type: ignore[misc]
        grid = self.boxes["grid"] = gui.add_checkbox("grid", stage.grid_on)
        grid.on_update(panel.does(lambda: stage.show_grid(grid.value)))
        dark = self.boxes["dark"] = gui.add_checkbox("dark", stage.dark)

        def paint() -> None:
            stage.dark = dark.value
            stage.paint()

        dark.on_update(panel.does(paint))
        if {"contacts", "pushes"} & set(layers):
            arrows = gui.add_slider("arrow length", 0.1, 5.0, 0.1, 1.0)

            def stretch() -> None:
                for sign in signs:
                    sign.stretch = arrows.value

            arrows.on_update(panel.does(stretch))

    def set(self, layer: str, on: bool) -> None:
        """Show or hide a layer of every robot."""
        for shown in self._bodies if layer in body.LAYERS else self._signs:
            shown.show(layer, on)


POSED = (*body.LAYERS, marks.LAYERS[0])
MOVING = (*body.LAYERS, *marks.LAYERS)
