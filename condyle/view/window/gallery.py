"""Several runs in one window, one shown at a time, chosen by name."""

from __future__ import annotations

from collections.abc import Sequence

from condyle.errors import CondyleError
from condyle.runs.run import Run
from condyle.view import server as servers
from condyle.view.window.panel import Panel
from condyle.view.window.play import RunView
from condyle.view.window.text import short
from condyle.view.window.window import Window


def open_gallery(runs: Sequence[Run], *, dark: bool = False, host: str = servers.LOOPBACK, port: int = 8080) -> Window:
    """A window that plays one of the runs, the first at the beginning; options as of `open_window`."""
    if not runs or not all(isinstance(run, Run) for run in runs):
        raise CondyleError("a gallery shows runs, at least one: give what condyle.read_run returns")
    server = servers.serve(f"{len(runs)} runs", host, port)
    window = Window(server, servers.address(server))
    names = [f"{k}. {short(run.title, 50)}" for k, run in enumerate(runs, start=1)]

    def show(k: int) -> None:
        window._end()
        server.scene.reset()
        server.gui.reset()
        panel = window.panel = Panel(server, window._wake)
        chosen = server.gui.add_dropdown("show", names, initial_value=names[k])
        chosen.on_update(panel.does(lambda: show(names.index(chosen.value))))
        view = RunView(server, panel, [runs[k]], dark=dark if window.view is None else window.view.stage.dark)
        view.stage.frame_now()
        view.play()
        window._show(view)

    try:
        show(0)
    except BaseException:
        window.close()
        raise
    return window
