"""A WebSocket to a simulation: one program commands, any number of others watch.

It listens on a loopback address only, and pages of other sites are refused by their Origin. Messages are in `messages`; a message
that cannot be used gets an "error" with one sentence. The simulation never waits for who watches: a state that is not sent in
time is replaced by a newer one.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import numpy as np

from condyle.errors import ConnectError, require
from condyle.workbench.connect import messages
from condyle.workbench.connect.transport import LOCKSTEP, Command, Exchange, Requests, Transport
from condyle.workbench.view.server import LOOPBACK, allowed, free_port, is_loopback

PORT = 8765
MAX_CONNECTIONS = 64
HELLO_TIME = 5.0  # s that a client has for its first message
RATES = {"commander": 50_000.0, "watcher": 50.0}  # messages per second that are read
WATCH_RATE = 30.0  # states per second for a watcher
MAX_ERRORS = 100  # messages of a connection that are refused before it is closed
SLICE = 0.1  # s between two looks at requests while waiting
CLOSE_TIME = 1.0  # s that clients have to take the last message
POLICY_VIOLATION, TRY_AGAIN = 1008, 1013  # close codes


class WebSocket(Transport):
    """A WebSocket server on a loopback address; `url` is where programs connect. Port 0 is any that is free.

    `token`: a text that every client must give. Needs the extra `websocket`.
    """

    def __init__(self, port: int = PORT, *, host: str = LOOPBACK, token: str = "") -> None:
        if not is_loopback(host):
            raise ConnectError(f"the WebSocket listens on a loopback address such as {LOOPBACK} only, not at {host!r:.60}")
        require("websockets", "websocket", "a WebSocket")
        self.host, self.token = host, token
        self._wanted, self.port = port, 0
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """The address for programs."""
        return f"ws://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port or self._wanted}"

    # ---- the simulation's side

    def open(self, exchange: Exchange, requests: Requests) -> None:
        """None; programs can connect."""
        self._exchange, self._requests = exchange, requests
        self._command: Command | None = None
        self._tick, self._numbers = 0, np.zeros(exchange.sent)
        self._connected, self._lost = False, False
        self._clients: dict[Any, _Client] = {}
        self.port = free_port(self.host, self._wanted)
        ready: list[BaseException | None] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(ready,), name="condyle websocket", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: bool(ready), 10.0)
        if ready and ready[0] is not None:
            self._thread = None
            raise ConnectError(f"the WebSocket cannot listen at {self.url}: {ready[0]}") from None

    def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
        """The command for a tick; see Transport."""
        requests, lockstep = self._requests, self._exchange.mode == LOCKSTEP
        with self._changed:
            before = self._command
            self._tick, self._numbers = tick, self._exchange.flat(signals)
        self._loop.call_soon_threadsafe(self._publish)

        def answered() -> bool:
            return self._lost or requests.urgent or (self._command is not before and self._fits(tick))

        with self._changed:
            while not answered() and (rest := deadline - time.monotonic()) > 0.0:
                self._changed.wait(min(rest, SLICE))
            command = self._command
        if requests.stopped:
            return Command(tick, {}, requests.stopped)
        # a last command counts, and the next exchange notes that its sender has gone
        if command is not None and command is not before and (command.tick == tick or not (lockstep or self._lost)):
            return command
        if self._lost:
            raise ConnectError(f"the program that commands closed its connection without a word at tick {tick:,}")
        return None

    def check(self) -> None:
        """None; a ConnectError if the program that commands has gone."""
        if self._lost:
            raise ConnectError(f"the program that commands closed its connection without a word at tick {self._tick:,}")

    def close(self, reason: str) -> None:
        """None; all clients get the end, and the port is free."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._loop.call_soon_threadsafe(self._end, reason)
        thread.join(4.0 * CLOSE_TIME)

    def _fits(self, tick: int) -> bool:
        return self._command is not None and self._command.tick == tick

    # ---- the thread of the sockets

    def _serve(self, ready: list[BaseException | None]) -> None:
        # it cancels and awaits the tasks of clients that do not take the end
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._main(ready))
            except BaseException as error:
                with self._changed:
                    ready.append(error)
                    self._lost = True
                    self._changed.notify_all()

    async def _main(self, ready: list[BaseException | None]) -> None:
        from websockets.asyncio.server import serve

        self._over = asyncio.Event()
        options = {
            "max_size": messages.MAX_BYTES,
            "compression": None,
            "process_request": self._admit,
            "open_timeout": HELLO_TIME,
            "close_timeout": CLOSE_TIME,
        }
        # errors of a handshake are the client's, and need no log
        server = await serve(self._handle, self.host, self.port, logger=_silent(), **options)
        with self._changed:
            ready.append(None)
            self._changed.notify_all()
        await self._over.wait()
        server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), CLOSE_TIME)

    def _admit(self, connection: Any, request: Any) -> Any:
        """None for a client that may connect, otherwise the answer to its request."""
        if not allowed(request.headers.get("Origin"), request.headers.get("Host"), self.host):
            return connection.respond(HTTPStatus.FORBIDDEN, "pages of other sites may not use this simulation\n")
        if len(self._clients) >= MAX_CONNECTIONS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"there are {MAX_CONNECTIONS} connections already\n")
        return None

    def _publish(self) -> None:
        """None; every client that waits for a state may send it."""
        for client in self._clients.values():
            client.fresh.set()

    def _end(self, reason: str) -> None:
        for client in self._clients.values():
            client.end = reason
            client.fresh.set()
        self._loop.call_later(0.0 if not self._clients else CLOSE_TIME, self._over.set)
        if self._clients:
            self._loop.create_task(self._drained())

    async def _drained(self) -> None:
        """None; the server closes when all have got the end."""
        while any(not client.ended for client in self._clients.values()):
            await asyncio.sleep(0.005)
        self._over.set()

    async def _handle(self, connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        client = _Client(connection)
        self._clients[connection] = client
        sender: asyncio.Task[None] | None = None
        try:
            if not await self._greet(client):
                return
            sender = asyncio.create_task(self._send_states(client))
            async for received in connection:
                if not client.allowance():
                    await connection.send(messages.message("error", message="too many messages: wait between them"))
                    await connection.close(POLICY_VIOLATION, "too many messages")
                    return
                try:
                    await self._receive(client, received)
                except ConnectError as error:
                    client.errors += 1
                    await connection.send(messages.message("error", message=str(error)))
                    if client.errors > MAX_ERRORS:
                        await connection.close(POLICY_VIOLATION, "too many messages that cannot be used")
                        return
        except ConnectionClosed:
            pass
        finally:
            self._clients.pop(connection, None)
            client.ended = True
            if sender is not None:
                sender.cancel()
            if client.role == "commander":
                with self._changed:
                    # after the end, it may go
                    self._lost = not client.end
                    self._changed.notify_all()

    async def _greet(self, client: _Client) -> bool:
        """Whether the first message was a hello that is good enough."""
        connection = client.connection
        refused, code = "", POLICY_VIOLATION
        try:
            received = await asyncio.wait_for(connection.recv(), HELLO_TIME)
            kind, members = messages.parsed(received if isinstance(received, str) else "")
            given = str(members.get("token", "")).encode()
            if kind != "hello":
                refused = 'the first message must be a "hello"'
            elif self.token and not hmac.compare_digest(given, self.token.encode()):
                refused = "the token is missing or wrong: give the one that the server was started with"
            elif members.get("role") == "commander" and self._connected:
                refused, code = "another program commands this simulation: connect as a watcher", TRY_AGAIN
        except TimeoutError:
            refused = f'there was no "hello" within {HELLO_TIME:g} s'
        except ConnectError as error:
            refused = str(error)
        if refused:
            await connection.send(messages.message("error", message=refused))
            await connection.close(code, refused[:100])
            return False
        client.role, client.binary = str(members.get("role", "watcher")), bool(members.get("binary", False))
        client.rate = float(members.get("rate", WATCH_RATE))
        if client.role == "commander":
            self._connected = True
        await connection.send(messages.welcome(self._exchange))
        client.fresh.set()
        return True

    async def _send_states(self, client: _Client) -> None:
        """None; sends the newest state whenever there is one, to watchers at their rate; at last the end."""
        from websockets.exceptions import ConnectionClosed

        build = messages.state_bytes if client.binary else messages.state
        with suppress(ConnectionClosed):
            while True:
                await client.fresh.wait()
                client.fresh.clear()
                if client.end:
                    await client.connection.send(messages.message("end", reason=client.end))
                    client.ended = True
                    return
                await client.connection.send(build(self._exchange, self._tick, self._numbers))
                if client.role == "watcher":
                    await asyncio.sleep(1.0 / client.rate)

    async def _receive(self, client: _Client, received: str | bytes) -> None:
        """None; does what a message asks for, or raises a ConnectError."""
        if isinstance(received, bytes):
            tick, values = messages.command_from(self._exchange, received)
            self._take(client, "command", tick, values)
            return
        kind, members = messages.parsed(received)
        if kind == "hello":
            raise ConnectError('a "hello" is the first message of a connection, and only that')
        if kind == "describe":
            exchange = self._exchange
            await client.connection.send(messages.message("description", robot=exchange.robot, urdf=exchange.urdf))
            return
        self._take(client, kind, members.get("tick"), members.get("values", {}), members)

    def _take(
        self, client: _Client, kind: str, tick: int | None, values: Mapping[str, Any], members: Mapping[str, Any] | None = None
    ) -> None:
        """None; a command or a request of the program that commands."""
        if client.role != "commander":
            raise ConnectError(f'a watcher cannot send a "{kind}": connect with the role commander')
        requests, given = self._requests, members or {}
        if kind == "command":
            with self._changed:
                before = None if self._command is None else self._command.values
                found = self._exchange.checked(values, before)
                self._command = Command(self._tick if tick is None else tick, found)
                self._changed.notify_all()
            return
        if kind == "stop":
            said = str(given.get("reason") or "it has finished")
            requests.stop(f"the external program ended the run: {said}"[:300])
        elif kind == "step":
            requests.step(int(given.get("periods", 1)))
        else:
            {"pause": requests.pause, "resume": requests.resume, "reset": requests.reset}[kind]()
        with self._changed:
            self._changed.notify_all()


class _Client:
    """A connection: its role, what it wants, and how many messages it may still send."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.role, self.binary, self.rate = connection, "", False, WATCH_RATE
        self.fresh, self.end, self.ended, self.errors = asyncio.Event(), "", False, 0
        self._left, self._since = RATES["watcher"], time.monotonic()

    def allowance(self) -> bool:
        """Whether another message may be read now: a bucket that fills with the rate of its role."""
        most, now = RATES.get(self.role, RATES["watcher"]), time.monotonic()
        self._left = min(self._left + most * (now - self._since), most)
        self._since = now
        self._left -= 1.0
        return self._left >= 0.0


def _silent() -> Any:
    import logging

    logger = logging.getLogger("condyle.workbench.connect.websocket")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
