"""The viewer in the browser: `open_window` of a robot, a run, two runs or a simulation; `open_gallery` of several runs;
`watch_window` of a simulation that runs elsewhere."""

from condyle.workbench.view.window.live_view import Pushes, pushable
from condyle.workbench.view.window.watch_view import Watched
from condyle.workbench.view.window.window import Window, open_gallery, open_window, watch_window

__all__ = ["Pushes", "Watched", "Window", "open_gallery", "open_window", "pushable", "watch_window"]
