"""Motion that begins and ends at rest: from 0 to 1 with three derivatives that are zero at both ends; traced or plain."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.tape.array import where

FASTEST = 35 / 16  # of `smooth`, times the way over the time
SHARPEST = 84 * 5**0.5 / 25  # its largest acceleration, times the way over the time squared


def smooth(t: Any, begin: float, lasts: float) -> Any:
    """s^4 (35 - 84 s + 70 s^2 - 20 s^3) with s = (t - begin) / lasts: 0 before, 1 after."""
    s = np.minimum(np.maximum((t - begin) * (1.0 / lasts), 0.0), 1.0)
    return s * s * s * s * (35.0 + s * (-84.0 + s * (70.0 - 20.0 * s)))


def smooth_sum(t: Any, begin: float, lasts: float) -> Any:
    """The integral of `smooth`: zero before, and in the end it grows as time does."""
    s = np.maximum((t - begin) * (1.0 / lasts), 0.0)
    return lasts * where(s < 1.0, s**5 * (7.0 + s * (-14.0 + s * (10.0 - 2.5 * s))), s - 0.5)
