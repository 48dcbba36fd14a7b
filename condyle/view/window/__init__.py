"""The viewer in the browser: `open_window(robot)`, of a run, two runs or a simulation."""

from condyle.view.window.window import Window, open_window

__all__ = ["Window", "open_window"]
