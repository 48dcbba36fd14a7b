"""The viewer in the browser: `open_window(robot)`, of a run, two runs or a simulation; `open_gallery(runs)` of several runs."""

from condyle.view.window.gallery import open_gallery
from condyle.view.window.push import Pushes, pushable
from condyle.view.window.window import Window, open_window

__all__ = ["Pushes", "Window", "open_gallery", "open_window", "pushable"]
