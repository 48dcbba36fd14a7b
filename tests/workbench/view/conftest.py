"""One Chromium for all tests of a process that look at a page."""

from collections.abc import Callable, Iterator

import pytest
from workbench.view.browser import MISSING, Browser, chromium


@pytest.fixture(scope="session")
def chromium_browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(MISSING)
    with Browser() as found:
        yield found


@pytest.fixture
def browser_of(chromium_browser: Browser) -> Iterator[Callable[[int, int], Browser]]:
    """The browser with a page of (width, height) pixels, nothing recorded, and light colours; the page is left after the test."""

    def resized(width: int, height: int) -> Browser:
        chromium_browser.resize(width, height)
        chromium_browser.color_scheme(dark=False)
        for record in (chromium_browser.console, chromium_browser.requests, chromium_browser.dialogs):
            record.clear()
        return chromium_browser

    yield resized
    # a page that moves would go on drawing, in software, beside all other tests
    chromium_browser.call("Page.navigate", url="about:blank")
