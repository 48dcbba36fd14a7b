"""Zero-phase low-pass filters: positions with their first and second derivative, and fewer rows whose noise stays white.

    q, v, a    convolution with a symmetric kernel h (a sinc in a Kaiser window) and with its derivatives: no delay, no phase
    rows       convolution with a root-raised-cosine kernel g, of which every D-th value is kept

The kernel g is orthonormal to itself moved by multiples of D samples, so white noise of variance s^2 before it is white noise of
variance s^2 in the rows behind it: what least squares needs for right confidence intervals. Forces and columns of the regressor
go through the same kernel, so nothing of the signal is distorted ("parallel filtering", Gautier and Poignet 2001).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.passive import FRICTION_SPEED
from condyle.errors import ControlError
from condyle.methods.identify.log import Array, Log

ROLL_OFF, SPAN = 0.5, 4  # of the root-raised cosine: its excess bandwidth, and its half-length in rows
PASS, STOP = 2.0, 3.0  # edges of the filter of positions, times the cut-off of the rows
ATTENUATION = 100.0  # dB beyond the stop edge
FASTEST, USUAL = 1.0 / 7.0, 1.0 / 40.0  # of the sampling rate: the largest cut-off, and the largest that is chosen
SLOWEST = 30.0  # over the length of a log: the least cut-off that is chosen for it
# central differences of eighth order
FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])


@dataclass(frozen=True)
class Motion:
    """Filtered samples of a log, (T, n) each; dt in s, cut-off in Hz.

    `direction`: that of dry friction, v / |v| of the filtered v, filtered itself, as the force is that it stands for.
    """

    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    direction: Array
    dt: float
    cutoff: float
    periodic: bool = False


def low_pass_kernel(dt: float, pass_edge: float, stop_edge: float) -> Array:
    """A symmetric kernel of sum one that keeps frequencies below `pass_edge` and removes those above `stop_edge`, Hz."""
    width = (stop_edge - pass_edge) * dt
    half = int(np.ceil((ATTENUATION - 7.95) / (2.285 * 2.0 * np.pi * width) / 2.0))
    n = np.arange(-half, half + 1)
    edge = (pass_edge + stop_edge) * dt  # twice the middle, in cycles per sample
    h = np.sinc(edge * n) * np.kaiser(2 * half + 1, 0.1102 * (ATTENUATION - 8.7))
    return np.asarray(h / h.sum())


def root_raised_cosine(D: int) -> Array:
    """g with sum g^2 = 1 and sum of g[n] g[n - k D] = 0 for k other than 0, of half-length SPAN rows of D samples."""
    x = np.arange(-SPAN * D, SPAN * D + 1) / D
    b = ROLL_OFF
    with np.errstate(divide="ignore", invalid="ignore"):
        g = (np.sin(np.pi * x * (1 - b)) + 4 * b * x * np.cos(np.pi * x * (1 + b))) / (np.pi * x * (1 - (4 * b * x) ** 2))
    g[np.abs(x) < 1e-9] = 1.0 - b + 4.0 * b / np.pi
    edge = np.abs(np.abs(x) - 1.0 / (4.0 * b)) < 1e-9
    g[edge] = b / np.sqrt(2.0) * ((1 + 2 / np.pi) * np.sin(np.pi / (4 * b)) + (1 - 2 / np.pi) * np.cos(np.pi / (4 * b)))
    return np.asarray(g / np.linalg.norm(g))


def convolved(x: Array, kernel: Array, periodic: bool) -> Array:
    """The columns of x, (T, n), with a symmetric or antisymmetric kernel; only values that need no samples beyond the ends."""
    half = len(kernel) // 2
    if periodic:
        x = np.take(x, np.arange(-half, len(x) + half), axis=0, mode="wrap")
    size = 1 << (len(x) + len(kernel) - 2).bit_length()
    product = np.fft.rfft(x, size, axis=0) * np.fft.rfft(kernel, size)[:, None]
    return np.fft.irfft(product, size, axis=0)[2 * half : len(x)]


def filtered_motion(log: Log, cutoff: float, friction_speed: float = FRICTION_SPEED) -> Motion:
    """q, v, a and tau of a log by one zero-phase filter; twice the half-length of its kernel is lost at both ends."""
    rate = 1.0 / log.dt
    if not 0.0 < cutoff <= FASTEST * rate:
        raise ControlError(f"{log.source}: the cut-off must be positive and at most {FASTEST * rate:.3g} Hz, got {cutoff:g} Hz")
    h = low_pass_kernel(log.dt, PASS * cutoff, min(STOP * cutoff, 0.5 * rate))
    first = np.convolve(h, -FIRST) / log.dt
    second = np.convolve(h, SECOND) / log.dt**2
    half = len(first) // 2
    if not log.periodic and len(log.t) < 8 * half:
        raise ControlError(
            f"{log.source}: {log.seconds:.3g} s are too short for a cut-off of {cutoff:g} Hz, whose filter spans "
            f"{2 * half * log.dt:.3g} s; record longer, or give a higher cut-off"
        )
    if len(log.t) < 2 * half:
        raise ControlError(
            f"{log.source}: one period is shorter than the filter of {2 * half * log.dt:.3g} s; give a higher cut-off"
        )
    # positions are filtered about their first row: rounding stays small
    start = log.q[:1]
    low = np.pad(h, len(FIRST) // 2)
    q = convolved(log.q - start, low, log.periodic) + start
    v, a = convolved(log.q - start, first, log.periodic), convolved(log.q - start, second, log.periodic)
    tau = convolved(log.tau, low, log.periodic)
    direction = convolved(v / np.sqrt(v * v + friction_speed**2), low, log.periodic)
    keep = slice(None) if log.periodic else slice(half, len(v) - half)
    t = log.t if log.periodic else log.t[half : len(log.t) - half]
    return Motion(t[keep], q[keep], v[keep], a[keep], tau[keep], direction, log.dt, cutoff, log.periodic)


def chosen_cutoff(log: Log, share: float = 0.999) -> float:
    """A cut-off from the positions, Hz: ten times the frequency below which `share` of the power of the velocities lies.

    Only what exceeds the noise counts: ten times the median of the periodogram over the upper half of all frequencies.
    """
    rate, worst = 1.0 / log.dt, 0.0
    window = np.hanning(len(log.t))[:, None]
    power = np.abs(np.fft.rfft((log.q - log.q.mean(axis=0)) * window, axis=0)) ** 2
    frequency = np.fft.rfftfreq(len(log.t), log.dt)
    for column in power.T:
        floor = 10.0 * np.median(column[len(column) // 2 :])
        moved = np.cumsum(np.where(column > floor, column, 0.0) * frequency**2)
        if moved[-1] > 0.0:
            worst = max(worst, float(frequency[np.searchsorted(moved, share * moved[-1])]))
    return float(np.clip(10.0 * worst, slowest_cutoff(log), max(USUAL * rate, slowest_cutoff(log))))


def slowest_cutoff(log: Log) -> float:
    """The least cut-off for which a log is long enough, Hz."""
    return SLOWEST / log.seconds
