"""The view of a robot at rest: a slider for every coordinate, within its limits, a tool to drag, and a configuration to copy."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from condyle.multibody.robot import Robot
from condyle.robot.joints import Free
from condyle.workbench.view.trajectory import link_poses, snapshot
from condyle.workbench.view.window.coordinates import FEW, Coordinate, as_text, chains, coordinates, from_text, within
from condyle.workbench.view.window.objects import Environment, RobotNode
from condyle.workbench.view.window.panel import Panel, View, paragraph, short
from condyle.workbench.view.window.tool import Tool

SEED = 1


class PoseView(View):
    """A robot in a window; `q` is what it shows."""

    def __init__(self, server: Any, panel: Panel, robot: Robot, *, q: Any = None, dark: bool = False) -> None:
        self.robot, self.node = robot, RobotNode(server, robot, "/robot")
        self.coordinates = coordinates(robot, self.node.size)
        self.q = within(robot, self.coordinates, robot.neutral() if q is None else np.asarray(q, dtype=float))
        self.first = self.q.copy()
        self._rng = np.random.default_rng(SEED)
        environment = Environment(server, *self.node.mesh.bounds(*link_poses(robot, self.q)), dark=dark)
        super().__init__(server, panel, [self.node], environment)
        tabs = panel.gui.add_tab_group()
        with tabs.add_tab("Pose"):
            self._build_sliders()
        with tabs.add_tab("Show"):
            self.add_layers("contacts", "pushes", "plan", "trail")
        with tabs.add_tab("About"):
            panel.about_robot(robot, self.node.warnings)

    def _build_sliders(self) -> None:
        panel, gui = self.panel, self.panel.gui
        self.tool = Tool(self._server, panel, self.robot, self.node.size, self.set)
        panel.buttons("pose", {"reset": lambda: self.set(self.first.copy()), "random": self.random})
        self.text = gui.add_text("q", as_text(self.q), hint="in rad and m: copy it, or write another here")
        panel.linked(self.text, lambda text: self.set(from_text(self.robot, text), source=self.text))
        self.sliders: list[Any] = []
        folders = [self.coordinates] if len(self.coordinates) <= FEW else chains(self.robot, self.coordinates)
        for chain in folders:
            first, last = chain[0].link.joint if chain else "", chain[-1].link.joint if chain else ""
            name = short(first, 40) if first == last else f"{short(first, 24)} … {short(last, 24)}"
            expanded = len(self.coordinates) <= 2 * FEW
            with gui.add_folder(name, expand_by_default=expanded) if len(folders) > 1 else nullcontext():
                self.sliders += [self._slider(each, in_folder=len(folders) > 1) for each in chain]
        if not self.coordinates:
            gui.add_html(paragraph("this robot has no joint that moves"))

    def _slider(self, each: Coordinate, *, in_folder: bool) -> Any:
        name = short(each.label.removeprefix(f"{each.link.joint} ") if in_folder else each.label, 58)
        marks = tuple((end, f"{end:.4g}{'°' if each.angular else ' m'}") for end in each.ends)
        slider = self.panel.gui.add_slider(name, *each.ends, each.step, each.shown(self.q), marks=marks)

        def moved(value: float) -> None:
            wanted = value / each.scale
            inside = float(np.clip(wanted, each.low, each.high))
            # a number written beside the slider may lie beyond its ends
            self.set(each.set(self.q, inside), source=slider if inside == wanted else None)

        return self.panel.linked(slider, moved)

    def set(self, q: np.ndarray, source: Any = None) -> None:
        """Show a configuration, in the inputs other than `source` too; one that cannot be is refused."""
        link_poses(self.robot, q)
        self.q = q
        self._changed = True
        if source is not self.text:
            self.text.value = as_text(q)
        for each, slider in zip(self.coordinates, self.sliders, strict=True):
            if slider is not source:
                slider.value = each.shown(q)

    def random(self) -> None:
        """Show a random configuration within the limits; the base stays."""
        q = self.q.copy()
        drawn = self.robot.random_configuration(self._rng)
        for link in self.robot.reduced.links:
            if not isinstance(link.kind, Free):
                q[link.q] = drawn[link.q]
        self.set(within(self.robot, self.coordinates, q))

    def draw(self, elapsed: float) -> bool:
        """Draw if something changed; whether more is to come."""
        wanted = self.tool.follow(self.q)
        if wanted is not self.q:
            self.set(within(self.robot, self.coordinates, wanted))
        if self._changed:
            self._changed = False
            with self._server.atomic():
                self.node.draw(snapshot(self.robot, self.q))
                self.tool.draw(self.q)
        return self._changed
