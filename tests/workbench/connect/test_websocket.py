"""The WebSocket: the same bits as without it, one commander, many watchers, and a sentence for every message that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workbench.connect.pendulum_loop import START, Program, law, noisy_loop
from workbench.connect.test_external import STEPS, Inside, external

from condyle.errors import ConnectError
from condyle.workbench.connect import messages
from condyle.workbench.connect.external import Requests
from condyle.workbench.connect.transport import Command
from condyle.workbench.connect.websocket import MAX_ERRORS, WebSocket

pytest.importorskip("websockets", reason="the WebSocket needs websockets: pip install 'condyle[websocket]'")

EXCHANGE = external(Inside(), urdf="<robot name='pendulum'/>").exchange
SIGNALS = {name: np.full(shape, 0.25) for name, shape in EXCHANGE.signals.items()}


class Socket:
    """A client that says anything."""

    def __init__(self, url: str, *first: Any, **options: Any) -> None:
        from websockets.sync.client import connect

        self.raw = connect(url, compression=None, close_timeout=0.5, max_size=1 << 22, **options)
        for each in first:
            self.say(each)

    def say(self, message: Any) -> None:
        self.raw.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def hear(self, kind: str | None = None) -> Any:
        """The next message, or the next of a kind."""
        while True:
            found = self.raw.recv(timeout=10.0)
            found = found if isinstance(found, bytes) else json.loads(found)
            if kind is None or (isinstance(found, dict) and found["type"] == kind):
                return found

    def close(self) -> None:
        self.raw.close()


@pytest.fixture(scope="module")
def gateway() -> Iterator[WebSocket]:
    """A WebSocket without a simulation behind it, at tick 40."""
    made = WebSocket(0)
    made.open(EXCHANGE, Requests())
    assert made.exchange(40, SIGNALS, 0.0) is None
    yield made
    made.close("the tests are over")


HELLO, COMMAND = {"type": "hello"}, {"type": "hello", "role": "commander"}


# ---- runs


@pytest.mark.parametrize("binary", [True, False])
def test_the_bits_are_those_without_a_socket(binary: bool) -> None:
    reference = external(Inside()).run(noisy_loop().state(START), STEPS, seed=3)
    transport = WebSocket(0)
    watched: list[Any] = []

    def watch() -> None:
        socket = Socket(transport.url, {"type": "hello", "rate": 1000})
        while not watched or watched[-1]["type"] != "end":
            watched.append(socket.hear())
        socket.close()

    threads: list[Any] = []

    def begin(tick: int, signals: Any) -> None:
        if not threads:
            threads.append(threading.Thread(target=watch, daemon=True))
            threads[0].start()

    control = external(transport)
    transport._wanted = port()
    program = Program(transport.url, lambda link: link.control(law), binary=binary)
    run = control.run(noisy_loop().state(START), STEPS, seed=3, monitors=[begin])
    threads[0].join(10.0)
    assert program.done().ended == "the run is complete: 200 ticks" and not program.error
    assert run.hash == reference.hash
    assert watched[0]["type"] == "welcome" and watched[-1] == {"type": "end", "reason": "the run is complete: 200 ticks"}


def port() -> int:
    from condyle.workbench.view.server import free_port

    return free_port("127.0.0.1", 0)


def test_requests_of_the_commander() -> None:
    transport = WebSocket(port())

    def act(link: Any) -> None:
        for state in link:
            if state.tick == 8 and not asked:
                asked.append(1)
                link.request("reset")
                continue
            if state.tick == 12:
                link.request("step", periods=3)
                link.request("resume")
            if state.tick == 20:
                link.request("stop", reason="enough")
            link.send(**law(state))

    asked: list[int] = []
    program = Program(transport.url, act)
    control = external(transport)
    control.run(noisy_loop().state(START), STEPS)
    assert [run.steps for run in control.runs] == [8, 20]
    assert control.ended == program.done().ended == "the external program ended the run: enough"


# ---- who may connect


def test_only_loopback() -> None:
    with pytest.raises(ConnectError, match=r"a loopback address such as 127\.0\.0\.1 only, not at"):
        WebSocket(0, host="0.0.0.0")


@pytest.mark.parametrize(("origin", "fine"), [("http://evil.example", False), ("null", False), ("http://localhost:3000", True)])
def test_pages_of_other_sites_are_refused(gateway: WebSocket, origin: str, fine: bool) -> None:
    from websockets.exceptions import InvalidStatus

    if fine:
        socket = Socket(gateway.url, HELLO, origin=origin)
        assert socket.hear()["type"] == "welcome"
        socket.close()
    else:
        with pytest.raises(InvalidStatus, match="403"):
            Socket(gateway.url, origin=origin)


def test_a_token() -> None:
    guarded = WebSocket(0, token="open sesame")
    guarded.open(EXCHANGE, Requests())
    try:
        for hello, kind in ((HELLO, "error"), ({**HELLO, "token": "x"}, "error"), ({**HELLO, "token": "open sesame"}, "welcome")):
            socket = Socket(guarded.url, hello)
            found = socket.hear()
            assert found["type"] == kind and (kind == "welcome" or "the token is missing or wrong" in found["message"])
            socket.close()
    finally:
        guarded.close("")


def test_one_commander_and_many_watchers(gateway: WebSocket) -> None:
    first = Socket(gateway.url, COMMAND)
    assert first.hear()["type"] == "welcome"
    second = Socket(gateway.url, COMMAND)
    assert "another program commands" in second.hear()["message"]
    watchers = [Socket(gateway.url, HELLO) for _ in range(5)]
    for watcher in watchers:
        welcome, state = watcher.hear(), watcher.hear()
        assert welcome["name"] == ["shoulder", "elbow"] and welcome["commands"] == {"effort": [2]}
        assert (
            state["tick"] == 40 and state["t"] == 0.04 and state["position"] == [0.25, 0.25] and state["effort"] == [0.25, 0.25]
        )
        assert state["signals"]["measured"] == [0.25, 0.25]
        for message in ({"type": "command", "values": {"effort": [0, 0]}}, {"type": "reset"}, b"\0" * 24):
            watcher.say(message)
            assert "a watcher cannot send" in watcher.hear("error")["message"]
        watcher.say({"type": "describe"})
        assert watcher.hear("description") == {
            "type": "description",
            "robot": "double_pendulum",
            "urdf": "<robot name='pendulum'/>",
        }
    # wrong messages are refused, and a good one still is a command
    for wrong in ("{", "[]", '{"type": "command"}', b"123", {"type": "command", "values": {"effort": [0, "1"]}}):
        first.say(wrong)
        assert first.hear("error")["message"]
    first.say({"type": "command", "tick": 40, "values": {"effort": [1.5, -2]}})
    first.say({"type": "describe"})
    assert first.hear("description")
    assert isinstance(gateway._command, Command) and gateway._command.values["effort"].tolist() == [1.5, -2.0]
    for socket in (second, *watchers):
        socket.close()


def test_messages_are_bounded_in_size_and_rate(gateway: WebSocket) -> None:
    from websockets.exceptions import ConnectionClosed

    socket = Socket(gateway.url, HELLO)
    socket.hear("state")
    with pytest.raises(ConnectionClosed, match="1009"):  # too big
        socket.say("x" * (messages.MAX_BYTES + 1))
        while True:
            socket.hear()
    flood = Socket(gateway.url, HELLO)
    flood.hear("state")
    with pytest.raises(ConnectionClosed, match="too many messages"):
        for _ in range(10 * MAX_ERRORS):
            flood.say({"type": "describe"})
        while True:
            flood.hear()


def test_the_first_message_is_a_hello(gateway: WebSocket) -> None:
    for first in ({"type": "pause"}, b"bytes", "hello", {"type": "hello", "role": "king"}, {"type": "hello", "rate": 1e9}):
        socket = Socket(gateway.url, first)
        assert socket.hear()["type"] == "error"
        socket.close()


# ---- what is in a message

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3))
MEMBERS = st.sampled_from(["role", "token", "rate", "binary", "tick", "values", "periods", "reason", "x"])
LIKE = st.dictionaries(MEMBERS, TREES, max_size=3).flatmap(
    lambda found: st.sampled_from([*messages.FROM_CLIENT, "nosuch"]).map(lambda kind: {**found, "type": kind})
)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40) | TREES.map(json.dumps) | LIKE.map(json.dumps))
def test_any_text_is_a_message_or_one_sentence(text: str) -> None:
    try:
        kind, members = messages.parsed(text)
        if kind == "command":
            EXCHANGE.checked(members["values"])
    except ConnectError as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 400
    else:
        assert kind in messages.FROM_CLIENT and set(members) <= set(messages.FROM_CLIENT[kind])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_command_or_one_sentence(data: bytes) -> None:
    try:
        _, values = messages.command_from(EXCHANGE, data)
    except ConnectError as error:
        assert "\n" not in str(error)
    else:
        assert values["effort"].shape == (2,) and np.isfinite(values["effort"]).all()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=30) | LIKE.map(json.dumps) | st.binary(max_size=30), max_size=5))
def test_a_connection_survives_any_message(gateway: WebSocket, said: list[Any]) -> None:
    socket = Socket(gateway.url, HELLO)
    socket.hear("welcome")
    for each in said:
        socket.say(each)
    socket.say({"type": "describe"})
    # as many answers as messages; the connection is still there
    answers = 0
    while answers <= len(said):
        found = socket.hear()
        answers += found["type"] in ("error", "description")
    socket.close()


def test_deep_and_huge_messages_are_one_sentence() -> None:
    for text in ("[" * 60_000, '{"type": "command", "tick": ' + "9" * 5000 + "}", '{"type": "step", "periods": 1e400}'):
        with pytest.raises(ConnectError):
            messages.parsed(text)


def test_messages_of_the_server_have_the_members_of_the_table() -> None:
    numbers = EXCHANGE.flat(SIGNALS)
    for text in (messages.welcome(EXCHANGE), messages.state(EXCHANGE, 3, numbers)):
        found = json.loads(text)
        assert set(found) - {"type"} == set(messages.FROM_SERVER[found["type"]])
    data = messages.state_bytes(EXCHANGE, 3, numbers)
    assert len(data) == 16 + 8 * EXCHANGE.sent and int.from_bytes(data[:8], "little") == 3


SLOW = """
import sys, threading, time
sys.path.insert(0, {tests!r})
from workbench.connect.test_websocket import EXCHANGE, SIGNALS, Socket
from condyle.workbench.connect.external import Requests
from condyle.workbench.connect.websocket import WebSocket

transport = WebSocket(0)
transport.open(EXCHANGE, Requests())
transport.exchange(0, SIGNALS, 0.0)
slow = Socket(transport.url, {{"type": "hello", "rate": 1}})
slow.hear("state")
silent = Socket(transport.url)
time.sleep(0.1)
transport.close("the run is over")
assert not any(thread.name == "condyle websocket" for thread in threading.enumerate())
"""


def test_the_end_leaves_no_task_behind() -> None:
    """Of a watcher that sleeps between two states, and of one that never says hello."""
    command = [sys.executable, "-X", "dev", "-c", SLOW.format(tests=str(Path(__file__).parents[2]))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "Task" not in done.stderr and "Warning" not in done.stderr, done.stderr
