"""Messages of ROS 2 that a second process receives at 1 kHz, their delay, and steps in lock-step with a controller per second."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best
from condyle.errors import ConnectError
from condyle.workbench.connect.ros2_bridge import ros2_control
from condyle.workbench.connect.ros2_node import Ros2Node
from condyle.workbench.connect.ros2_wire import Profile
from condyle.workbench.runs.ros2_messages import JOINT_STATE, RobotMessages, decoded, encoded

# written with cyclonedds alone, so that both ends are not of one making
PEER = Path(__file__).resolve().parent.parent / "tests" / "workbench" / "connect" / "ros2_peer.py"
DOMAIN, RATE = 93, 1000.0
LONGEST = 120.0  # s


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers; times in seconds."""
    count, seconds = (100, 0.01) if tiny else (10_000, 1.0)
    robot = cd.load("ur3")
    messages = RobotMessages(robot, robot.joint_names)
    state = messages.joint_state(0, np.zeros(6), np.zeros(6), np.zeros(6))
    data = encoded(state)
    found: dict[str, Any] = {
        "encode": best(lambda: encoded(state), seconds),
        "decode": best(lambda: decoded(data, JOINT_STATE), seconds),
        "transforms": best(lambda: encoded(messages.transforms(0, np.zeros(6))), seconds),
    }
    table = Table("UR3", "us", "bytes")
    for what, size in (
        ("encode", len(data)),
        ("decode", len(data)),
        ("transforms", len(encoded(messages.transforms(0, np.zeros(6))))),
    ):
        name = "make and encode /tf" if what == "transforms" else f"{what} /joint_states"
        table.add_row(name, f"{1e6 * found[what]:.1f}", f"{size}")
    console.print(table)
    table = Table("reliable, volatile, writer keeps", "sent at 1 kHz", "received", "lost", "delay: median", "99 %", "largest, ms")
    for what, profile in (("the last 10", Profile()), ("all", Profile(depth=0))):
        row = found[f"keeps {what}"] = stream(messages, count, profile)
        delays = [f"{1e3 * row[key]:.2f}" for key in ("median", "p99", "max")]
        table.add_row(what, f"{count:,}", f"{row['received']:,}", f"{count - row['received']:,}", *delays)
    console.print(table)
    table = Table("UR3 in lock-step, dt 1 ms, one command per step", "steps", "steps per second", "times real time")
    for kind in ("joint", "effort"):
        row = found[f"lockstep {kind}"] = lockstep(robot, kind, 200 if tiny else 5000)
        name = {"joint": "stamped JointState", "effort": "Float64MultiArray"}[kind]
        table.add_row(name, f"{row['steps']:,}", f"{row['rate']:,.0f}", f"{1e-3 * row['rate']:.2f}")
    console.print(table)
    return found


@contextmanager
def peer(*words: Any) -> Iterator[subprocess.Popen[str]]:
    """A second process that is ready."""
    process = subprocess.Popen([sys.executable, str(PEER), *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise ConnectError("the second process did not start")
        yield process
    finally:
        process.kill()
        process.communicate()


def stream(messages: RobotMessages, count: int, profile: Profile) -> dict[str, float]:
    """How many joint states a second process receives, and how long they take: sent by the clock, position 0 is the time."""
    q, zero = np.zeros(6), np.zeros(6)
    with Ros2Node(domain=DOMAIN) as node, peer("receive", DOMAIN, "/benchmark/joint_states", count) as process:
        states = node.publisher("/benchmark/joint_states", JOINT_STATE, profile)
        end = time.monotonic() + LONGEST
        while not states.subscribers and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)  # until the other side has matched, too
        begin = time.monotonic()
        for k in range(count):
            time.sleep(max(begin + k / RATE - time.monotonic(), 0.0))
            q[0] = time.monotonic()
            states.publish(messages.joint_state(k, q, zero, zero))
        states.acknowledged(10.0)
        got = json.loads(process.communicate(timeout=LONGEST)[0].splitlines()[-1])
    delays = np.array(got["delays"])
    return {
        "received": got["different"],
        "median": float(np.median(delays)),
        "p99": float(np.quantile(delays, 0.99)),
        "max": float(delays[-1]),
    }


def lockstep(robot: cd.Robot, kind: str, steps: int) -> dict[str, float]:
    """Steps per second of a robot whose controller is a second process."""
    control = ros2_control(cd.Simulation(robot, dt=0.001), mode="lockstep", domain=DOMAIN, namespace="/benchmark")
    q = np.array([0.0, -1.57, 1.57, -1.57, 0.0, 0.0])
    first: list[float] = []
    with peer("control", DOMAIN, "/benchmark", kind):
        control.run(control.loop.state(q), steps, progress=lambda tick: first.append(time.monotonic()) if tick == 1 else None)
        wall = time.monotonic() - first[0]
    return {"steps": steps, "rate": (steps - 1) / wall}
