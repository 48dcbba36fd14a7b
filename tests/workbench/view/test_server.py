"""The port: only at the given address, closed to other sites, without a tunnel, and with a sentence when it cannot be opened."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.errors import CondyleError
from condyle.workbench.view import server as servers

viser = pytest.importorskip("viser", reason="the viewer needs viser: pip install 'condyle[viewer]'")


@pytest.fixture(scope="module")
def server():
    found = servers.serve("a title", port=0)
    yield found
    servers.stop(found)


def listening(port: int) -> set[str]:
    """The addresses at which this computer listens on a port, as the kernel writes them."""
    found = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            local, state = line.split()[1], line.split()[3]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                found.add(local.rpartition(":")[0])
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp here")
def test_it_listens_on_loopback_alone(server) -> None:
    assert listening(server.get_port()) == {"0100007F"}


def test_its_address(server) -> None:
    assert servers.address(server) == f"http://127.0.0.1:{server.get_port()}"
    with urlopen(servers.address(server), timeout=10) as page:
        assert page.status == 200 and b"<!doctype html>" in page.read(200).lower()


def test_it_starts_and_stops_in_silence(capfd) -> None:
    found = servers.serve("quiet", port=0)
    port = found.get_port()
    servers.stop(found)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        pass


@pytest.mark.parametrize("path", ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/nothing"])
def test_it_gives_no_other_file(server, path: str) -> None:
    with pytest.raises(HTTPError) as error:
        urlopen(servers.address(server) + path, timeout=10)
    assert error.value.code == 404


def test_there_is_no_tunnel(server, monkeypatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a tunnel was opened")

    monkeypatch.setattr("viser._viser.ViserTunnel", never)
    assert server.request_share_url() is None
    server.disconnect_share_url()


# -- who may connect


def answer(server, origin: str | None) -> bool:
    """Whether a page from `origin` receives anything before it is refused."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    url = servers.address(server).replace("http", "ws", 1)
    with connect(url, origin=origin, subprotocols=[f"viser-v{viser.__version__}"], max_size=None) as client:
        try:
            client.recv(timeout=5)
            return True
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code == servers.POLICY_VIOLATION
            return False


def test_pages_of_other_sites_are_refused(server) -> None:
    own = servers.address(server)
    assert answer(server, own)
    assert answer(server, own.replace("127.0.0.1", "localhost"))
    assert answer(server, None)
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", f"http://evil.example:{server.get_port()}"):
        assert not answer(server, origin)


names = st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{2,8}){1,2}", fullmatch=True)


@given(names, st.integers(1, 65535), st.sampled_from(["http", "https"]))
def test_no_name_passes_for_this_computer(name: str, port: int, scheme: str) -> None:
    # a site whose name is made to point at 127.0.0.1 has its own name as host and as origin
    assert not servers.allowed(f"{scheme}://{name}:{port}", f"{name}:{port}", "127.0.0.1")
    # where the network may come, a page must come from the server itself
    assert servers.allowed(f"{scheme}://{name}:{port}", f"{name}:{port}", "0.0.0.0")
    assert not servers.allowed(f"{scheme}://{name}:{port}", f"192.168.1.7:{port}", "0.0.0.0")


# -- ports


def test_the_next_free_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if port >= 65000:
            pytest.skip("the port that was given has none after it")
        found = servers.free_port("127.0.0.1", port)
        assert port < found < port + servers.PORTS


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", -1, "from 0 to 65535"),
        ("127.0.0.1", 70000, "from 0 to 65535"),
        ("no.such.host.invalid", 8080, "no address of this computer"),
        ("203.0.113.7", 8080, "cannot listen"),
    ],
)
def test_what_cannot_be_opened_is_a_sentence(host: str, port: int, words: str) -> None:
    with pytest.raises(CondyleError, match=words) as error:
        servers.serve("no", host, port)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("host", "mine"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("127.8.8.8", True),
        ("0.0.0.0", False),
        ("::", False),
        ("a.b", False),
    ],
)
def test_loopback(host: str, mine: bool) -> None:
    assert servers.is_loopback(host) == mine
