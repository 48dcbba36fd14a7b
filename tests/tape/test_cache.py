"""The object cache returns what was stored or nothing at all, whatever happens to its files, directory or processes."""

import hashlib
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle.tape.cache as cache_module
from condyle.tape.cache import HEADER, ObjectCache, default_cache

KEY = hashlib.sha256(b"a tape").hexdigest()
OTHER_KEY = hashlib.sha256(b"another tape").hexdigest()
PAYLOAD = b"machine code \x00\xff"

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users and permissions are those of POSIX")


def payload_of(key: str, size: int) -> bytes:
    """At least `size` bytes that only `key` can have."""
    return bytes.fromhex(key) * (size // 32 + 1)


def names(directory: Path, pattern: str = "*") -> list[str]:
    """The names of the files in `directory`, sorted."""
    return sorted(path.name for path in directory.glob(pattern))


def child(body: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs `body` with ObjectCache and payload_of in scope, and the arguments as strings in `args`."""
    # the file is run by itself: importing the whole package would take longer than the test
    prelude = (
        "import hashlib, os, runpy, sys\n"
        "from pathlib import Path\n"
        "ObjectCache, args = runpy.run_path(sys.argv[1])['ObjectCache'], sys.argv[2:]\n"
        "def payload_of(key, size): return bytes.fromhex(key) * (size // 32 + 1)\n"
    )
    command = [sys.executable, "-c", prelude + body, str(cache_module.__file__), *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "made" / "on" / "demand")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[ObjectCache, Path, bytes]:
    """A cache with one entry, the path of its file, and the bytes the file should have."""
    directory = tmp_path_factory.mktemp("stored") / "cache"
    cache = ObjectCache(directory)
    cache.store(KEY, PAYLOAD)
    path = directory / f"{KEY}.cdo"
    return cache, path, path.read_bytes()


def load_with_content(stored: tuple[ObjectCache, Path, bytes], content: bytes) -> bytes | None:
    """What load returns when the file of KEY holds `content`; a file it refused must be gone."""
    cache, path, _ = stored
    path.write_bytes(content)
    path.chmod(0o600)
    payload = cache.load(KEY)
    assert path.exists() == (payload is not None)
    return payload


# round trip


@pytest.mark.parametrize("payload", [b"", PAYLOAD, bytes(range(256)) * 4096])
def test_round_trip(cache: ObjectCache, payload: bytes) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, payload)
    assert cache.load(KEY) == payload
    assert cache.load(OTHER_KEY) is None


def test_second_store_replaces_the_first(cache: ObjectCache) -> None:
    cache.store(KEY, PAYLOAD)
    cache.store(KEY, b"newer")
    assert cache.load(KEY) == b"newer"
    assert cache.directory is not None and names(cache.directory) == [f"{KEY}.cdo"]


def test_load_creates_nothing(cache: ObjectCache, tmp_path: Path) -> None:
    assert cache.load(KEY) is None
    assert names(tmp_path) == []


@pytest.mark.parametrize("key", ["", "abc", "g" * 64, KEY.upper(), KEY + "0", KEY + "\n", "../" + KEY[3:], f"{KEY}.cdo/../x"])
def test_bad_key_is_an_error_even_when_disabled(key: str) -> None:
    with pytest.raises(ValueError, match="64 lower-case hex digits, got"):
        ObjectCache(None).load(key)
    with pytest.raises(ValueError, match="64 lower-case hex digits, got"):
        ObjectCache(None).store(key, PAYLOAD)


# damage


def test_any_changed_byte_is_refused(stored: tuple[ObjectCache, Path, bytes]) -> None:
    good = stored[2]
    for position in range(len(good)):
        for mask in (0x01, 0x80, 0xFF):
            bad = bytearray(good)
            bad[position] ^= mask
            assert load_with_content(stored, bytes(bad)) is None, f"byte {position} xor {mask:#x}"
    assert load_with_content(stored, good) == PAYLOAD


@settings(deadline=None)
@given(data=st.data())
def test_truncated_extended_or_spliced_file_is_refused(stored: tuple[ObjectCache, Path, bytes], data: st.DataObject) -> None:
    good = stored[2]
    start = data.draw(st.integers(0, len(good)))
    stop = data.draw(st.integers(start, len(good)))
    bad = good[:start] + data.draw(st.binary(max_size=2 * HEADER.size)) + good[stop:]
    assert load_with_content(stored, bad) == (PAYLOAD if bad == good else None)


def test_truncation_at_every_point_is_refused(stored: tuple[ObjectCache, Path, bytes]) -> None:
    good = stored[2]
    for length in range(len(good)):
        assert load_with_content(stored, good[:length]) is None


def test_file_renamed_to_another_key_is_refused_and_removed(cache: ObjectCache) -> None:
    cache.store(KEY, PAYLOAD)
    assert cache.directory is not None
    (cache.directory / f"{KEY}.cdo").rename(cache.directory / f"{OTHER_KEY}.cdo")
    assert cache.load(OTHER_KEY) is None
    assert names(cache.directory) == []


# privacy


@posix
def test_directory_and_files_are_private(cache: ObjectCache) -> None:
    cache.store(KEY, PAYLOAD)
    assert cache.directory is not None
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert (cache.directory / f"{KEY}.cdo").stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("mode", [0o701, 0o710, 0o720, 0o755, 0o777])
def test_directory_open_to_others_is_refused_with_one_warning(cache: ObjectCache, mode: int) -> None:
    cache.store(KEY, PAYLOAD)
    directory = cache.directory
    assert directory is not None
    directory.chmod(mode)
    with pytest.warns(RuntimeWarning, match=r"chmod 700 .* or set CONDYLE_CACHE") as caught:
        assert cache.load(KEY) is None
        cache.store(OTHER_KEY, PAYLOAD)
        assert cache.load(OTHER_KEY) is None
    assert len(caught) == 1
    assert names(directory) == [f"{KEY}.cdo"]


@posix
def test_link_to_the_directory_of_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.warns(RuntimeWarning, match="CONDYLE_CACHE"):
        assert ObjectCache(tmp_path / "link").load(KEY) is None


@posix
def test_link_to_a_private_directory_of_mine_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    cache = ObjectCache(tmp_path / "link")
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_file_or_directory_of_another_user_is_refused(cache: ObjectCache) -> None:
    cache.store(KEY, PAYLOAD)
    assert cache.directory is not None
    os.chown(cache.directory / f"{KEY}.cdo", 12345, -1)
    assert cache.load(KEY) is None
    cache.store(KEY, PAYLOAD)
    os.chown(cache.directory, 12345, -1)
    with pytest.warns(RuntimeWarning, match="CONDYLE_CACHE"):
        assert cache.load(KEY) is None


@posix
def test_file_that_others_can_write_is_refused(stored: tuple[ObjectCache, Path, bytes]) -> None:
    cache, path, good = stored
    assert load_with_content(stored, good) == PAYLOAD
    path.chmod(0o620)
    assert cache.load(KEY) is None


@posix
def test_symbolic_link_in_place_of_a_file_is_refused_then_replaced(cache: ObjectCache, tmp_path: Path) -> None:
    cache.store(KEY, PAYLOAD)
    assert cache.directory is not None
    path, elsewhere = cache.directory / f"{KEY}.cdo", tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert cache.load(KEY) is None
    cache.store(KEY, b"newer")
    assert cache.load(KEY) == b"newer"
    assert elsewhere.read_bytes().endswith(PAYLOAD)


@posix
def test_pipe_or_directory_in_place_of_a_file_is_absent(cache: ObjectCache) -> None:
    cache.store(OTHER_KEY, PAYLOAD)
    assert cache.directory is not None
    path = cache.directory / f"{KEY}.cdo"
    os.mkfifo(path, 0o600)
    assert cache.load(KEY) is None  # and does not wait for a writer
    path.unlink(missing_ok=True)
    path.mkdir()
    assert cache.load(KEY) is None
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) is None
    assert names(cache.directory) == sorted([f"{KEY}.cdo", f"{OTHER_KEY}.cdo"])


# many processes


def test_processes_storing_and_loading_at_once(tmp_path: Path) -> None:
    # every worker uses the four common keys and its own; the limit is so small that they also evict each other's files
    body = """
directory, worker = Path(args[0]), args[1]
cache, hits = ObjectCache(directory, limit_bytes=150_000), 0
for i in range(60):
    for text in (f"common {i % 4}", f"own {worker} {i % 4}"):
        key = hashlib.sha256(text.encode()).hexdigest()
        cache.store(key, payload_of(key, 20_000))
        found = cache.load(key)
        assert found in (None, payload_of(key, 20_000))
        hits += found is not None
assert hits > 0
"""
    workers = [child(body, tmp_path / "cache", worker) for worker in range(3)]
    errors = [worker.communicate(timeout=60)[1] for worker in workers]
    assert errors == ["", "", ""]
    assert names(tmp_path / "cache", "*.tmp") == []
    # a last store settles what the workers, each seeing a part, left behind
    ObjectCache(tmp_path / "cache", limit_bytes=150_000).store(KEY, PAYLOAD)
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 150_000


@posix
def test_killed_writer_leaves_only_whole_files_and_old_leftovers_go(tmp_path: Path) -> None:
    body = """
cache = ObjectCache(Path(args[0]))
for i in range(1_000_000):
    key = hashlib.sha256(f"{i % 3}".encode()).hexdigest()
    cache.store(key, payload_of(key, 2_000_000))
"""
    directory = tmp_path / "cache"
    for round_ in range(4):
        writer = child(body, directory)
        # let it finish a file or two, then strike while a temporary file of its own is there
        deadline = time.monotonic() + 20
        while not (names(directory, "*.cdo") and names(directory, f"*.{writer.pid}-*.tmp")):
            assert time.monotonic() < deadline and writer.poll() is None, "the writer writes nothing"
        time.sleep(0.001 * round_)
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        assert writer.stderr is not None
        writer.stderr.close()
        cache = ObjectCache(directory)
        for path in directory.glob("*.cdo"):
            assert cache.load(path.stem) == payload_of(path.stem, 2_000_000)

    # a temporary file may belong to a living process until it is an hour old
    young, old = directory / f"{KEY}.1-{'0' * 16}.tmp", directory / f"{KEY}.2-{'0' * 16}.tmp"
    for path in directory.glob("*.tmp"):
        os.utime(path, (0, 0))
    young.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 3700,) * 2)
    cache.store(KEY, PAYLOAD)
    assert names(directory, "*.tmp") == [young.name]


# bound


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(11)]
    payload = bytes(1000 - HEADER.size)
    cache = ObjectCache(tmp_path / "cache", limit_bytes=10_000)
    for age, key in enumerate(keys[:10]):
        cache.store(key, payload)
        os.utime(tmp_path / "cache" / f"{key}.cdo", (1000 + age,) * 2)
    assert len(names(tmp_path / "cache")) == 10  # exactly the limit

    # the oldest is used again, so one more entry (11,000 bytes, down to 9,000) costs the second and third
    assert cache.load(keys[0]) == payload
    cache.store(keys[10], payload)
    kept = [key for key in keys if cache.load(key) is not None]
    assert kept == [keys[0], *keys[3:]]


def test_entry_just_stored_survives_even_above_the_goal(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache", limit_bytes=10_000)
    cache.store(KEY, bytes(1000))
    cache.store(OTHER_KEY, bytes(9500))
    assert cache.load(KEY) is None
    assert cache.load(OTHER_KEY) == bytes(9500)


def test_payload_above_the_limit_is_not_stored(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache", limit_bytes=10_000)
    cache.store(KEY, bytes(10_000 - HEADER.size))
    cache.store(OTHER_KEY, bytes(10_000 - HEADER.size + 1))
    assert names(tmp_path / "cache") == [f"{KEY}.cdo"]


def test_eviction_never_touches_files_of_others(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    directory.mkdir(mode=0o700)
    strangers = ["notes.cdo", "notes.tmp", "thesis.tex"]
    for name in strangers:
        (directory / name).write_bytes(bytes(5000))
        os.utime(directory / name, (0, 0))
    cache = ObjectCache(directory, limit_bytes=1000)
    cache.store(OTHER_KEY, bytes(800))
    cache.store(KEY, bytes(800))
    assert names(directory) == sorted([f"{KEY}.cdo", *strangers])


def test_the_directory_is_not_listed_at_every_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # thousands of files take longer to list than one takes to write
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    cache = ObjectCache(tmp_path / "cache", limit_bytes=1_000_000)
    for i in range(300):
        cache.store(hashlib.sha256(f"{i}".encode()).hexdigest(), bytes(1000))
    assert len(listed) < 10


# disk trouble


@pytest.mark.parametrize("below", ["", "sub/directory"])
def test_directory_that_is_a_file_does_not_raise(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("here first")
    cache = ObjectCache(tmp_path / "file" / below)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache.store(KEY, PAYLOAD)
        assert cache.load(KEY) is None
    assert (tmp_path / "file").read_text() == "here first"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory_does_not_raise_and_still_loads(cache: ObjectCache) -> None:
    cache.store(KEY, PAYLOAD)
    assert cache.directory is not None
    cache.directory.chmod(0o500)
    cache.store(OTHER_KEY, PAYLOAD)
    assert cache.load(OTHER_KEY) is None
    assert cache.load(KEY) == PAYLOAD
    cache.directory.chmod(0o700)


@posix
def test_failed_write_does_not_raise_and_leaves_nothing(tmp_path: Path) -> None:
    # a limit on the size of files makes write() fail halfway, for root too, as a full disk does
    body = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
cache, key = ObjectCache(Path(args[0])), "0" * 64
cache.store(key, bytes(1000))
cache.store(key, bytes(1_000_000))
assert cache.load(key) == bytes(1000)
assert os.listdir(args[0]) == [key + ".cdo"]
"""
    assert child(body, tmp_path / "cache").communicate(timeout=60)[1] == ""


# where it is


def test_disabled_cache_is_always_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = ObjectCache(None)
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) is None
    assert names(tmp_path) == []


def test_default_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("CONDYLE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache().directory == tmp_path / "home" / ".cache" / "condyle"

    # XDG_CACHE_HOME counts only if it is absolute
    for relative in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert default_cache().directory == tmp_path / "home" / ".cache" / "condyle"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache().directory == tmp_path / "xdg" / "condyle"

    # CONDYLE_CACHE is the directory itself, and wins
    for value, directory in [
        (str(tmp_path / "mine"), tmp_path / "mine"),
        ("relative", tmp_path / "relative"),
        ("~/mine", tmp_path / "home" / "mine"),
        ("off", None),
        ("", None),
    ]:
        monkeypatch.setenv("CONDYLE_CACHE", value)
        assert default_cache().directory == directory

    # asking makes nothing
    assert names(tmp_path) == []
