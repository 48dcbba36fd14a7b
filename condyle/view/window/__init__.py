"""The viewer in the browser: `open_window` of a robot, a run, two runs or a simulation; `open_gallery` of several runs."""

from condyle.view.window.live_view import Pushes, pushable
from condyle.view.window.window import Window, open_gallery, open_window

__all__ = ["Pushes", "Window", "open_gallery", "open_window", "pushable"]
