"""A window: what is in the browser while the program goes on. Open one on a robot, on runs, or on a simulation."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.run import Run
from condyle.workbench.view import server as servers
from condyle.workbench.view.window.live_view import LiveView
from condyle.workbench.view.window.panel import Panel, short
from condyle.workbench.view.window.pose_view import PoseView
from condyle.workbench.view.window.run_view import RunView
from condyle.workbench.view.window.watch_view import Watched, WatchView

if TYPE_CHECKING:
    from condyle.methods.control.controllers import Control

HEIGHT = 520  # pixels, of an inline window
FRAME_TIME = 1.0 / 60.0  # s between frames at least
IDLE_TIME = 0.25  # s of sleep while nothing moves, unless woken


class RenderLoop:
    """Calls `draw(seconds since the last)` from its own thread; `draw` returns whether more is to come. Errors go to `fail`."""

    def __init__(self, draw: Callable[[float], bool], fail: Callable[[Exception], None]) -> None:
        self._draw, self._fail = draw, fail
        self._wake, self._over = threading.Event(), threading.Event()
        self._wake.set()
        self._thread = threading.Thread(target=self._run, name="condyle viewer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Draw soon."""
        self._wake.set()

    def stop(self) -> None:
        """End after the frame in progress."""
        self._over.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _run(self) -> None:
        last, busy = time.monotonic(), False
        while not self._over.is_set():
            now = time.monotonic()
            elapsed, last = now - last if busy else 0.0, now
            try:
                busy = self._draw(elapsed)
            except Exception as error:  # shown to the user, who may correct it and go on
                busy = False
                self._fail(error)
            # a short rest always: the threads that serve browsers have work too
            self._over.wait(max(FRAME_TIME - (time.monotonic() - now), 0.002))
            if not busy:
                self._wake.wait(IDLE_TIME)
            self._wake.clear()


class Window:
    """An open viewer: `url` shows it in a browser, `close()` ends it; also for `with`, and displayed inline by notebooks.

    `view` is what it shows: a PoseView (its `q`), a RunView (its `time`) or a LiveView (its `x`).
    """

    def __init__(self, title: str, host: str, port: int) -> None:
        self.title, self.server = title, servers.serve(title, host, port)
        self.url = servers.address(self.server)
        self.view: Any = None
        self._loop: RenderLoop | None = None
        self._over = threading.Event()
        self.panel = Panel(self.server, self._wake)
        self.panel.title(title)
        self.server.on_client_connect(self._watch)

    def _watch(self, client: Any) -> None:
        """Keep the camera of a page above the ground."""

        def moved(camera: Any) -> None:
            if self.view is not None:
                self.view.environment.keep_above_ground(camera)

        client.camera.on_update(moved)

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<condyle window {'closed' if self.closed else self.url}>"

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._over.is_set()

    @property
    def error(self) -> str | None:
        """The error that the panel shows, if there is one."""
        return self.panel.error

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it was closed, after waiting for that, or for so many seconds."""
        end = math.inf if seconds is None else time.monotonic() + seconds
        # short waits, so that Ctrl-C is heard at once everywhere
        while not self.closed and (rest := end - time.monotonic()) > 0.0:
            self._over.wait(min(0.2, rest))
        return self.closed

    def close(self) -> None:
        """End the threads and free the port; nothing if it is closed."""
        if not self._over.is_set():
            self._over.set()
            self._stop_loop()
            servers.stop(self.server)

    def iframe(self, height: int = HEIGHT) -> str:
        """HTML that shows the window inside a page."""
        style = f"width:100%;height:{int(height)}px;border:0"
        return f'<iframe src="{escape(self.url, quote=True)}" style="{style}" title="Condyle viewer"></iframe>'

    def _repr_html_(self) -> str:
        return "<p>this window is closed</p>" if self.closed else self.iframe()

    def show(self, build: Callable[[Any, Panel], Any]) -> None:
        """Show the view that `build(server, panel)` returns."""
        self.view = build(self.server, self.panel)
        self._loop = RenderLoop(self.view.draw, self.panel.fail)

    def clear(self) -> None:
        """Stop drawing and remove everything."""
        self._stop_loop()
        self.server.scene.reset()
        self.server.gui.reset()
        self.panel = Panel(self.server, self._wake)
        self.panel.title(self.title)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _stop_loop(self) -> None:
        if self._loop is not None:
            self._loop.stop()


def open_window(
    shown: Robot | Run | Simulation,
    other: Run | None = None,
    *,
    q: Any = None,
    control: Control | None = None,
    references: Mapping[str, Any] | None = None,
    dark: bool = False,
    host: str = servers.LOOPBACK,
    port: int = 8080,
) -> Window:
    """A window that shows a robot with sliders, a run with play and scrub, two runs together, or a simulation as it runs.

    `q`: the initial configuration of a robot or a simulation. `control`: drives the simulation, the function of a cd.Loop;
    without one its motors hold the pose. `references`: its references, (T, size), a row for each step; the last one is held. It
    listens at `host` on the first free port from `port` on; the call returns at once, and the window lasts until `close()` or the
    end of the program.
    """

    def build(server: Any, panel: Panel) -> Any:
        if other is not None and isinstance(shown, Robot | Simulation):
            raise CondyleError("only two runs can be shown together: give two runs, or one robot, run or simulation")
        if isinstance(shown, Robot):
            return PoseView(server, panel, shown, q=q, dark=dark)
        if isinstance(shown, Simulation):
            return LiveView(server, panel, shown, q=q, control=control, references=references, dark=dark)
        if isinstance(shown, Run) and isinstance(other, Run | None):
            return RunView(server, panel, [shown] if other is None else [shown, other], dark=dark)
        raise CondyleError(f"a window shows a robot, a run or a simulation, got {shown!r:.60}")

    window = Window(_title(shown, other), host, port)
    return _or_close(window, lambda: window.show(build))


def open_gallery(runs: Sequence[Run], *, dark: bool = False, host: str = servers.LOOPBACK, port: int = 8080) -> Window:
    """A window that plays one of several runs, chosen by name; options as of `open_window`."""
    if not runs or not all(isinstance(run, Run) for run in runs):
        raise CondyleError("a gallery shows runs, at least one: give what condyle.read_run returns")
    window = Window(f"{len(runs)} runs", host, port)
    names = [f"{k}. {short(run.title, 50)}" for k, run in enumerate(runs, start=1)]

    def choose(name: str) -> None:
        is_dark = dark if window.view is None else window.view.environment.dark
        window.clear()
        window.panel.linked(window.server.gui.add_dropdown("show", names, initial_value=name), choose)
        window.show(lambda server, panel: RunView(server, panel, [runs[names.index(name)]], dark=is_dark))
        window.view.environment.reset_cameras()
        window.view.play()

    return _or_close(window, lambda: choose(names[0]))


def watch_window(
    simulation: Simulation,
    source: Callable[[], Watched | str | None],
    *,
    title: str = "",
    dark: bool = False,
    host: str = servers.LOOPBACK,
    port: int = 8080,
) -> Window:
    """A window that shows a simulation which runs elsewhere: `source()` gives its newest state; options as of `open_window`."""
    window = Window(f"{short(simulation.robot.name, 50)}, watched", host, port)

    def build(server: Any, panel: Panel) -> WatchView:
        return WatchView(server, panel, simulation, source, title=title, dark=dark)

    return _or_close(window, lambda: window.show(build))


def _or_close(window: Window, act: Callable[[], None]) -> Window:
    try:
        act()
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
