"""A small loop with noise, delay and dropout whose command comes from outside, and programs that command it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import condyle as cd
from condyle.workbench.connect.client import Link, State, connect

START = np.array([0.5, -0.2])


@cache
def noisy_loop() -> cd.Loop:
    """A double pendulum: its angles are measured with noise, delay and dropout, and its efforts are delayed."""
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.001)
    encoder = cd.blocks.Measurement(2, "rad", noise=0.01, delay=0.004, dropout=0.2, every=2, name="encoder")
    line = cd.blocks.Delay(2, 0.003, name="line")

    def closed(x: Any, effort: Any, target: Any) -> dict[str, Any]:
        measured = encoder(x.q)["value"]
        return {"u": line(effort), "measured": measured, "error": target - measured}

    return cd.Loop(world, closed, effort=2, target=2)


TARGET = {"target": np.array([[0.3, 0.1], [0.2, 0.0]])}  # of two ticks; the last row is held


def law(state: State) -> dict[str, np.ndarray]:
    """PD control with the noisy measurement."""
    return {"effort": 20.0 * (np.array([0.2, 0.0]) - state["measured"]) - 2.0 * state["v"]}


class Program(threading.Thread):
    """An external program in a thread: `act(link)` is what it does; `ended` and `error` say how it went."""

    def __init__(self, where: str, act: Callable[[Link], Any] | None = None, **options: Any) -> None:
        super().__init__(daemon=True)
        self.where, self.act, self.options = where, act or (lambda link: link.control(law)), options
        self.ended, self.error = "", ""
        self.start()

    def run(self) -> None:
        """Connect and act."""
        try:
            with connect(self.where, **self.options) as link:
                self.act(link)
            self.ended = link.ended
        except Exception as error:
            self.error = str(error)

    def done(self) -> Program:
        """The program, after it has ended."""
        self.join(20.0)
        assert not self.is_alive(), "the program did not end"
        return self
