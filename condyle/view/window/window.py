"""A window: what is in the browser while the program goes on. Open one on a robot, a run, two runs, or a simulation."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any

from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.simulate.simulation import Simulation
from condyle.view import server as servers
from condyle.view.window.beat import Beat
from condyle.view.window.panel import Panel
from condyle.view.window.text import short

if TYPE_CHECKING:
    from condyle.control.controller import Controller
    from condyle.runs.run import Run

HEIGHT = 520  # of an inline window, pixels


class Window:
    """A viewer that is open: `url` shows it in a browser, `close()` ends it; also for `with`, and shown inline by notebooks.

    `view` is what it shows: a PoseView (its `q`), a RunView (its `time`) or a LiveView (its `x`).
    """

    def __init__(self, server: Any, url: str) -> None:
        self.server, self.url = server, url
        self.view: Any = None
        self.panel = Panel(server, self._wake)
        self._beat: Beat | None = None
        self._over = threading.Event()

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<condyle window {'closed' if self.closed else self.url}>"

    @property
    def closed(self) -> bool:
        return self._over.is_set()

    @property
    def error(self) -> str | None:
        """What the panel says went wrong last, if it did."""
        return self.panel.failed

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was closed, after waiting for that, or for so many seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        # short waits, so that Ctrl-C is heard at once everywhere
        while end is None or time.monotonic() < end:
            rest = 0.2 if end is None else min(0.2, max(end - time.monotonic(), 0.0))
            if self._over.wait(rest):
                return True
        return self.closed

    def close(self) -> None:
        """End the threads and free the port; nothing if it is closed."""
        if not self._over.is_set():
            self._over.set()
            self._end()
            servers.stop(self.server)

    def iframe(self, height: int = HEIGHT) -> str:
        """HTML that shows the window inside a page."""
        style = f"width:100%;height:{int(height)}px;border:0"
        return f'<iframe src="{escape(self.url, quote=True)}" style="{style}" title="Condyle viewer"></iframe>'

    def _repr_html_(self) -> str:
        return "<p>this window is closed</p>" if self.closed else self.iframe()

    def _wake(self) -> None:
        if self._beat is not None:
            self._beat.wake()

    def _end(self) -> None:
        """Stop drawing."""
        if self._beat is not None:
            self._beat.stop()

    def _show(self, view: Any) -> None:
        self.view = view
        self._beat = Beat(view.beat, self.panel.fail)
        self._beat.start()


def open_window(
    shown: Robot | Run | Simulation,
    other: Run | None = None,
    *,
    q: Any = None,
    control: Controller | None = None,
    dark: bool = False,
    host: str = servers.LOOPBACK,
    port: int = 8080,
) -> Window:
    """A window that shows a robot with sliders, a run with play and scrub, two runs together, or a simulation as it happens.

    `q`: the configuration to begin with, of a robot or a simulation. `control`: what drives the simulation, (k, x) -> (u,
    wrenches); without one its motors hold the pose. It listens at `host` on the first free port from `port` on; the call returns
    at once, and the window lasts until `close()` or the end of the program.
    """
    title = _title(shown, other)
    server = servers.serve(title, host, port)
    window = Window(server, servers.address(server))
    try:
        window._show(_view(window, shown, other, q, control, dark))
    except BaseException:
        window.close()
        raise
    return window


def _title(shown: Any, other: Any) -> str:
    if isinstance(shown, Robot):
        return short(shown.name, 60)
    if isinstance(shown, Simulation):
        return f"{short(shown.robot.name, 50)}, live"
    title = str(getattr(shown, "title", "") or "run")
    return short(title if other is None else f"{title} and {getattr(other, 'title', '') or 'run'}", 60)


def _view(window: Window, shown: Any, other: Any, q: Any, control: Controller | None, dark: bool) -> Any:
    if other is not None and isinstance(shown, Robot | Simulation):
        raise CondyleError("only two runs can be shown together: give two runs, or one robot, run or simulation")
    if isinstance(shown, Robot):
        from condyle.view.window.pose import PoseView

        return PoseView(window.server, window.panel, shown, q=q, dark=dark)
    if isinstance(shown, Simulation):
        from condyle.view.window.live import LiveView

        return LiveView(window.server, window.panel, shown, q=q, control=control, dark=dark)
    from condyle.runs.run import Run

    if isinstance(shown, Run) and isinstance(other, Run | None):
        from condyle.view.window.play import RunView

        return RunView(window.server, window.panel, [shown] if other is None else [shown, other], dark=dark)
    raise CondyleError(f"a window shows a robot, a run or a simulation, got {shown!r:.60}")
