"""The port of the viewer: a viser server on the loopback address, closed to other sites, without a tunnel.

viser itself binds to every address, can open a tunnel to a public server when a page asks for it, and talks to any page that
knows its port. Here it listens at the given address (127.0.0.1), there is no tunnel, and pages of other sites are refused.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
import socket
from contextlib import redirect_stdout
from typing import Any
from urllib.parse import urlsplit

from condyle.errors import CondyleError, install_command, require

LOOPBACK = "127.0.0.1"
PORTS = 200  # that are examined, from the wanted one on
CLOSE_TIME = 0.3  # s that connections have to close by themselves
POLICY_VIOLATION = 1008  # websocket close code


class ServerError(CondyleError, OSError):
    """No port can be opened as wanted; the message names the address and says what to do."""


def serve(title: str, host: str = LOOPBACK, port: int = 8080) -> Any:
    """A running viser server on `host` and the first free port from `port` on (0: any); silent, and closed to other sites."""
    viser = require("viser", "viewer", "the viewer")
    if not hasattr(viser.ViserServer, "request_share_url"):
        raise ServerError(f"viser {viser.__version__} is not one this viewer knows: {install_command('viewer')}")

    class Quiet(viser.ViserServer):  # type: ignore[misc, name-defined]
        """viser without its tunnel to a public server, which any page could ask for."""

        def request_share_url(self, verbose: bool = True) -> str | None:
            return None

        def disconnect_share_url(self) -> None:
            return None

    number = free_port(host, port)
    with redirect_stdout(io.StringIO()):
        server = Quiet(host=host, port=number, label=title, verbose=False)
    _refuse_other_sites(server, host)
    return server


def stop(server: Any) -> None:
    """Close the port, silently."""
    sockets = server._websock_server
    with redirect_stdout(io.StringIO()):
        server.flush()
        loop = sockets._background_event_loop
        loop.call_soon_threadsafe(loop.call_later, CLOSE_TIME, _cancel, loop)
        server.stop()
        # its last output is printed when its thread ends
        sockets._server_thread.join(10.0)


def _cancel(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel connections that are still open: of a page too busy to close, or kept alive by a browser."""
    for task in asyncio.all_tasks(loop):
        if getattr(task.get_coro(), "__name__", "") == "conn_handler":
            task.cancel()


def address(server: Any) -> str:
    """The URL to open in a browser."""
    host = str(server.get_host())
    shown = LOOPBACK if host in ("0.0.0.0", "") else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.get_port()}"


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach what listens at `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def free_port(host: str, port: int) -> int:
    """The first port from `port` on that nobody listens at; any that is free for 0."""
    if not 0 <= port <= 65535:
        raise ServerError(f"a port is a number from 0 to 65535, got {port}: try --port 8080")
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        raise ServerError(f"{host!r:.60} is no address of this computer: try --host {LOOPBACK}") from None
    last: OSError | None = None
    for number in [0] if port == 0 else range(port, min(port + PORTS, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # as the server itself will: a port that was closed a moment ago is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
                return int(probe.getsockname()[1])
            except OSError as error:
                last = error
    reason = last.strerror if last is not None and last.strerror else "no port is free"
    raise ServerError(f"cannot listen at {host} on a port from {port} on ({reason}): try another --port or --host")


def _refuse_other_sites(server: Any, host: str) -> None:
    """Close connections that a page of another site opened: its browser says where it comes from."""
    sockets = server._websock_server

    async def look(connection: Any) -> None:
        live = sockets._live_connections.get(connection.client_id)
        headers = live.request.headers
        if not allowed(headers.get("Origin"), headers.get("Host"), host):
            await live.close(POLICY_VIOLATION, "pages of other sites may not use this viewer")

    sockets._client_connect_cb.insert(0, look)


def allowed(origin: str | None, asked: str | None, host: str) -> bool:
    """Whether a page from `origin` may talk to the server that it asked for as `asked`.

    A program, which has no origin, may. On a loopback address the page must come from this computer by name or number, so that
    a site whose name is made to point here (DNS rebinding) is none; elsewhere it must come from the server itself.
    """
    if origin is None:
        return True
    place = urlsplit(origin)
    if is_loopback(host):
        return place.hostname is not None and is_loopback(place.hostname)
    return bool(place.netloc) and place.netloc == asked
