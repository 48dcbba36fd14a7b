"""A headless Chromium for tests: open a page, run JavaScript in it, use its mouse and keys, and see what it draws.

Speaks the DevTools protocol over a loopback port. WebGL is drawn in software, so the picture is real but slow.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = "no Chromium here: install it (apt-get install chromium) to run the tests that look at a page"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--remote-allow-origins=*",
)


def chromium() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One Chromium with one tab; `with Browser() as browser: browser.open(url)`.

    `console` holds what pages logged or threw, `requests` the addresses they asked for, `dialogs` what they alerted.
    """

    def __init__(self, size: tuple[int, int] = (800, 600), *, dark: bool = False) -> None:
        self.size = size
        self.console: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self._dark = dark
        self._serial = 0
        self._socket: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._profile = ""

    def __enter__(self) -> Browser:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- begin and end

    def start(self) -> Browser:
        """Start Chromium and connect to its tab."""
        from websockets.sync.client import connect

        program = chromium()
        if program is None:
            raise RuntimeError(MISSING)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._profile = tempfile.mkdtemp(prefix="condyle-browser-")
        own = (
            f"--user-data-dir={self._profile}",
            f"--window-size={self.size[0]},{self.size[1]}",
            f"--remote-debugging-port={port}",
        )
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([program, *FLAGS, *own, "about:blank"], start_new_session=True, **quiet)  # type: ignore[call-overload]
        try:
            tab = self._tab(port)
            self._socket = connect(tab, max_size=None, open_timeout=30, ping_interval=None)
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
            self.resize(*self.size)
            self.color_scheme(dark=self._dark)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End Chromium and remove its profile; nothing if it is not running."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, sign)
                    self._process.wait(3)
                    break
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            self._process = None
        if self._profile:
            shutil.rmtree(self._profile, ignore_errors=True)
            self._profile = ""

    def _tab(self, port: int) -> str:
        """The address of the first tab's websocket, waited for."""
        for _ in range(300):
            try:
                with urlopen(f"http://127.0.0.1:{port}/json", timeout=2) as answer:
                    return str(next(t for t in json.load(answer) if t["type"] == "page")["webSocketDebuggerUrl"])
            except (OSError, StopIteration):
                time.sleep(0.1)
        raise RuntimeError("Chromium did not open its DevTools port within 30 s")

    # ---- the protocol

    def call(self, method: str, timeout: float = 60.0, **params: Any) -> dict[str, Any]:
        """The result of a DevTools command; its error is raised."""
        self._serial += 1
        serial = self._serial
        self._socket.send(json.dumps({"id": serial, "method": method, "params": params}))
        end = time.monotonic() + timeout
        while True:
            reply = json.loads(self._socket.recv(timeout=max(end - time.monotonic(), 0.01)))
            if reply.get("id") != serial:
                self._note(reply)
            elif "error" in reply:
                raise RuntimeError(f"{method}: {reply['error'].get('message')}")
            else:
                return dict(reply["result"])

    def _note(self, event: dict[str, Any]) -> None:
        params: dict[str, Any] = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])
            case "Runtime.consoleAPICalled":
                words = [str(a.get("value", a.get("description", ""))) for a in params["args"]]
                self.console.append(f"{params['type']}: {' '.join(words)}")
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.console.append(f"exception: {details.get('exception', {}).get('description', details.get('text'))}")
            case "Log.entryAdded":
                self.console.append(f"{params['entry']['level']}: {params['entry']['text']} {params['entry'].get('url', '')}")
            case "Page.javascriptDialogOpening":
                self.dialogs.append(params["message"])
                # answered without waiting: the page waits until it is
                self._serial += 1
                self._socket.send(
                    json.dumps({"id": self._serial, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})
                )

    # ---- pages

    def open(self, url: str | Path) -> None:
        """Go to an address, or to a file, and wait until it is loaded."""
        address = url.resolve().as_uri() if isinstance(url, Path) else url
        self.call("Page.navigate", url=address)
        self.wait_for(
            lambda: self.evaluate("document.readyState") == "complete" and self.evaluate("location.href") != "about:blank"
        )

    def evaluate(self, js: str) -> Any:
        """The value of a JavaScript expression (a promise is awaited); what it throws is raised."""
        reply = self.call("Runtime.evaluate", expression=js, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise RuntimeError(str(details.get("exception", {}).get("description", details.get("text"))))
        return reply["result"].get("value")

    def wait_for(self, condition: str | Callable[[], Any], timeout: float = 30.0, every: float = 0.1) -> Any:
        """The first true value of a JavaScript expression or a function, asked again and again."""
        end = time.monotonic() + timeout
        while True:
            value = self.evaluate(condition) if isinstance(condition, str) else condition()
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"still not true after {timeout:g} s: {condition}; console: {self.console[-5:]}")
            time.sleep(every)

    def screenshot(self, path: str | Path | None = None) -> np.ndarray:
        """What is on the screen, (height, width, 3) uint8; also written as a PNG file if a path is given."""
        from PIL import Image

        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            Path(path).write_bytes(data)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def resize(self, width: int, height: int) -> None:
        """Make the page this large, in pixels."""
        self.size = (width, height)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def color_scheme(self, *, dark: bool) -> None:
        """The colour scheme that pages see as the user's preference."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    # ---- mouse and keys

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x: float, y: float) -> None:
        self._mouse("mouseMoved", x, y)

    def click(self, x: float, y: float, count: int = 1) -> None:
        """A click of the left button."""
        self.move(x, y)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
        self._mouse("mouseReleased", x, y, button="left", clickCount=count)

    def drag(self, start: tuple[float, float], end: tuple[float, float], steps: int = 8, hold: float = 0.0) -> None:
        """Press at one point, move to the other, stay there for `hold` seconds, and release."""
        (x0, y0), (x1, y1) = start, end
        self.move(x0, y0)
        self._mouse("mousePressed", x0, y0, button="left", buttons=1, clickCount=1)
        for k in range(1, steps + 1):
            a = k / steps
            self._mouse("mouseMoved", x0 + a * (x1 - x0), y0 + a * (y1 - y0), button="left", buttons=1)
        time.sleep(hold)
        self._mouse("mouseReleased", x1, y1, button="left", clickCount=1)

    def wheel(self, x: float, y: float, down: float) -> None:
        """Turn the wheel at a point, by this many pixels."""
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=down)

    def keys(self, text: str) -> None:
        """Type text into what has the focus; "Enter", "Tab" and the arrows by their names."""
        codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
        if text not in codes:
            self.call("Input.insertText", text=text)
            return
        more = {"text": "\r"} if text == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=text, code=text, windowsVirtualKeyCode=codes[text], **more)

    def box(self, selector: str, index: int = 0) -> tuple[float, float, float, float]:
        """(x, y, width, height) on the screen of an element, by its CSS selector, after it is scrolled into view."""
        js = f"""(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{index}]; if (!e) return null;
            e.scrollIntoView({{block: "nearest"}});
            const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()"""
        found = self.evaluate(js)
        if found is None:
            raise RuntimeError(f"nothing on the page matches {selector!r} [{index}]")
        x, y, width, height = found
        return x, y, width, height

    def click_on(self, selector: str, index: int = 0) -> None:
        """A click in the middle of an element."""
        x, y, width, height = self.box(selector, index)
        self.click(x + width / 2, y + height / 2)


def changed(before: np.ndarray, after: np.ndarray, threshold: int = 12) -> float:
    """The share of pixels that differ by at least `threshold` of 255 in some colour."""
    return float((np.abs(before.astype(int) - after.astype(int)).max(axis=-1) >= threshold).mean())
