"""docs/images/viewer.png: the viewer with PiDog's walk, as a browser shows it. Needs Chromium and the extra `viewer`.

python scripts/viewer_picture.py [picture.png]
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

SHOWN = 2.2  # s into the run
COLORS = 255


def main() -> None:
    from PIL import Image
    from workbench.view.browser import Browser

    from condyle.apps.demos import pidog
    from condyle.atomic_write import write_bytes
    from condyle.workbench.view.window import open_window

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "viewer.png"
    with open_window(pidog.run(), port=0) as window, Browser((1200, 720)) as browser:
        browser.open(f"{window.url}/?fixedDpr=1")
        browser.wait_for(lambda: len(window.server.get_clients()) > 0, 60.0)
        browser.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(button => button.click())")
        window.view.seek(SHOWN)
        # the light of the surroundings is worked out slowly in software
        time.sleep(20.0)
        picture = browser.screenshot()
    content = io.BytesIO()
    Image.fromarray(picture).quantize(COLORS).save(content, format="png", optimize=True)
    write_bytes(target, content.getvalue())
    print(f"{target}: {len(content.getvalue()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
