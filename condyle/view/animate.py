"""Wheeled robots as pictures and films: the pendulum from the side, the robot on two wheels from above.

Both films have live numbers beside them: the time, heights, and what the caller adds as {"motor torque, N m": values}, one value
for each time. `t` and the rows of `q` may be far denser than the film; a frame shows the sample nearest to its time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from condyle.errors import ShapeError, SimulationError
from condyle.robot.library import two_wheeled, wheeled_pendulum
from condyle.view.video import BLACK, BLUE, FAINT, INK, PIXELS, RED, Progress, figure, frame_indices, write_movie

LENGTH, RADIUS, HALF_TRACK = wheeled_pendulum.LENGTH, wheeled_pendulum.RADIUS, two_wheeled.HALF_TRACK
SCENE, PANEL = (0.10, 0.125, 0.635, 0.83), 0.775  # where the picture is in the figure, and where the numbers begin
MOST_NUMBERS = 7
Numbers = Mapping[str, Any] | None


# -- the pendulum from the side


def wheel_center(q: Any, length: float = LENGTH) -> np.ndarray:
    """(..., 2): x and z of the wheel's centre for q = (x, z, phi, theta):  x - L sin(phi), z - L cos(phi)."""
    q = np.asarray(q, dtype=float)
    return np.stack([q[..., 0] - length * np.sin(q[..., 2]), q[..., 1] - length * np.cos(q[..., 2])], axis=-1)


class Pendulum:
    """The pendulum on some matplotlib axes: body a line, wheel a circle with a spoke, contact a dot, ground a line."""

    def __init__(self, axes: Any, length: float, radius: float) -> None:
        from matplotlib.patches import Circle

        self.length, self.radius = length, radius
        self.ground = axes.axhline(0.0, color=BLACK, lw=2.0, zorder=1)
        self.wheel = axes.add_patch(Circle((0.0, 0.0), radius, fill=False, color=RED, lw=2.5, zorder=3))
        (self.spoke,) = axes.plot([], [], color=RED, lw=1.5, zorder=3)
        (self.body,) = axes.plot([], [], color=BLUE, lw=5.0, solid_capstyle="round", zorder=4)
        (self.contact,) = axes.plot([], [], "o", color=RED, ms=7.0, zorder=5)

    def show(self, q: np.ndarray) -> None:
        x, z, phi, theta = q
        cx, cz = wheel_center(q, self.length)
        # the wheel's own angle in the world; at zero its spoke points ahead
        turn = phi + theta
        self.wheel.center = (cx, cz)
        self.spoke.set_data([cx, cx + self.radius * np.cos(turn)], [cz, cz - self.radius * np.sin(turn)])
        self.body.set_data([x, cx], [z, cz])
        self.contact.set_data([cx], [cz - self.radius])


def draw_wheeled_pendulum(axes: Any, q_row: Any, *, length: float = LENGTH, radius: float = RADIUS) -> Pendulum:
    """The pendulum at q = (x, z, phi, theta), seen along +y (x to the right, z up), on axes of equal aspect."""
    q = _rows(np.asarray(q_row, dtype=float)[None], 4, "(x, z, phi, theta)")
    drawing = Pendulum(axes, length, radius)
    drawing.show(q[0])
    _style(axes, "x, m", "height, m")
    axes.set_aspect("equal")
    low, high = _heights(q, length, radius)
    middle, half = float(wheel_center(q, length)[0, 0]), 0.75 * (high - low)
    axes.set(xlim=(middle - half, middle + half), ylim=(low, high))
    return drawing


def animate_wheeled_pendulum(
    path: str | os.PathLike[str],
    t: Any,
    q: Any,
    numbers: Numbers = None,
    *,
    length: float = LENGTH,
    radius: float = RADIUS,
    fps: float = 30,
    speed: float = 1.0,
    progress: Progress | None = None,
) -> None:
    """Write the film of q, (times, 4) with rows (x, z, phi, theta), as .gif or .mp4; `speed` 0.5 is slow motion.

    The camera stands still as long as the robot is in sight, and then follows. `progress(done, frames)` is called as it goes.
    """
    keep = frame_indices(t, fps, speed)
    q = _rows(q, 4, "(x, z, phi, theta)", len(np.asarray(t)))
    centers = wheel_center(q, length)
    panel = {
        "time, s": np.asarray(t, dtype=float),
        "height of the top, m": q[:, 1],
        "height of the axle, m": centers[:, 1],
        "height of the contact, m": centers[:, 1] - radius,
        **(numbers or {}),
    }
    of = figure()
    axes = of.add_axes(SCENE)
    drawing = draw_wheeled_pendulum(axes, q[0], length=length, radius=radius)
    low, high = _heights(q, length, radius)
    half = (high - low) / 2.0 * _ratio(of)
    camera = _followed(centers[keep, 0], 0.6 * half)
    axes.set_ylim(low, high)
    write_numbers = _panel(of, panel, keep, len(q))

    def show(k: int) -> None:
        drawing.show(q[keep[k]])
        axes.set_xlim(camera[k] - half, camera[k] + half)
        write_numbers(k)

    write_movie(path, of, show, len(keep), fps=fps, progress=progress)


def _heights(q: np.ndarray, length: float, radius: float) -> tuple[float, float]:
    """What must be seen: the ground, and the robot wherever it goes; with a margin."""
    wheel = wheel_center(q, length)[:, 1]
    low = min(0.0, float(q[:, 1].min()), float(wheel.min()) - radius)
    high = max(length + 2.0 * radius, float(q[:, 1].max()), float(wheel.max()) + radius)
    margin = 0.2 * (high - low)
    return low - margin, high + margin


def _followed(x: np.ndarray, reach: float) -> np.ndarray:
    """The middle of the picture: it moves only as far as keeps x within reach."""
    out = np.empty(len(x))
    middle = x[0]
    for k, at in enumerate(x):
        middle = min(max(middle, at - reach), at + reach)
        out[k] = middle
    return out


# -- the robot on two wheels from above


def axle(q: Any, length: float = LENGTH, half_track: float = HALF_TRACK) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(middle, left, right) of the axle, (..., 3), for q = (x, y, z, yaw, pitch, roll, ...):  R = Rz(yaw) Ry(pitch) Rx(roll)."""
    q = np.asarray(q, dtype=float)
    sin, cos = np.sin(q[..., 3:6]), np.cos(q[..., 3:6])
    (sy, sp, sr), (cy, cp, cr) = np.moveaxis(sin, -1, 0), np.moveaxis(cos, -1, 0)
    up = np.stack([cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr], axis=-1)
    left = np.stack([cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr], axis=-1)
    middle = q[..., :3] - length * up
    return middle, middle + half_track * left, middle - half_track * left


class FromAbove:
    """The robot on two wheels on some matplotlib axes: wheels red, axle dark with a nose ahead, body blue up to its top."""

    def __init__(self, axes: Any, length: float, radius: float, half_track: float) -> None:
        self.length, self.radius, self.half_track = length, radius, half_track
        (self.axle,) = axes.plot([], [], color=INK, lw=1.5, zorder=3)
        (self.nose,) = axes.plot([], [], color=INK, lw=1.5, zorder=3)
        wheel = {"color": RED, "lw": 4.0, "solid_capstyle": "butt", "zorder": 4}
        self.wheels = [axes.plot([], [], **wheel)[0] for _ in range(2)]
        (self.body,) = axes.plot([], [], color=BLUE, lw=3.0, solid_capstyle="round", zorder=5)
        (self.top,) = axes.plot([], [], "o", color=BLUE, ms=5.0, mew=0.0, zorder=6)

    def show(self, q: np.ndarray) -> None:
        middle, left, right = axle(q, self.length, self.half_track)
        ahead = self.radius * np.array([np.cos(q[3]), np.sin(q[3])])
        self.axle.set_data([left[0], right[0]], [left[1], right[1]])
        for line, at in zip(self.wheels, (left, right), strict=True):
            line.set_data(*np.transpose([at[:2] - ahead, at[:2] + ahead]))
        self.nose.set_data(*np.transpose([middle[:2], middle[:2] + 1.5 * ahead]))
        self.body.set_data([middle[0], q[0]], [middle[1], q[1]])
        self.top.set_data([q[0]], [q[1]])


def draw_path(
    axes: Any,
    q: Any,
    *,
    stations: int = 9,
    reference: Any = None,
    length: float = LENGTH,
    radius: float = RADIUS,
    half_track: float = HALF_TRACK,
) -> Any:
    """The way of the axle's middle from above, x right and y up, with the robot on it at `stations` times; the line of the way.

    q is (times, 6 or more) with rows (x, y, z, yaw, pitch, roll, ...); `reference`, (points, 2), is where it should have gone.
    """
    q = _rows(q, 6, "(x, y, z, yaw, pitch, roll, ...)", wider=True)
    middle, left, right = axle(q, length, half_track)
    seen = [middle[:, :2], left[:, :2], right[:, :2], q[:, :2]]
    if reference is not None:
        wanted = np.asarray(reference, dtype=float)
        if wanted.ndim != 2 or wanted.shape[1] != 2:
            raise ShapeError(f"reference must have shape (points, 2), got {wanted.shape}")
        axes.plot(*wanted.T, color=FAINT, lw=1.2, ls=(0, (4, 3)), zorder=1)
        seen.append(wanted)
    (way,) = axes.plot(*middle[:, :2].T, color=INK, lw=1.2, zorder=2)
    if stations > 0:
        # a way that closes ends where it begins: the last station is before the end
        for k in np.unique(np.linspace(0, len(q), stations, endpoint=False).astype(int)):
            FromAbove(axes, length, radius, half_track).show(q[k])
    _style(axes, "x, m", "y, m")
    axes.set_aspect("equal")
    points = np.concatenate(seen)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.08 * float((high - low).max()) + radius
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    return way


def animate_path(
    path: str | os.PathLike[str],
    t: Any,
    q: Any,
    numbers: Numbers = None,
    *,
    reference: Any = None,
    length: float = LENGTH,
    radius: float = RADIUS,
    half_track: float = HALF_TRACK,
    fps: float = 30,
    speed: float = 1.0,
    progress: Progress | None = None,
) -> None:
    """Write the film of q, (times, 6 or more) with rows (x, y, z, yaw, pitch, roll, ...), from above, as .gif or .mp4."""
    keep = frame_indices(t, fps, speed)
    q = _rows(q, 6, "(x, y, z, yaw, pitch, roll, ...)", len(np.asarray(t)), wider=True)
    sizes = {"length": length, "radius": radius, "half_track": half_track}
    middle, left, right = axle(q, length, half_track)
    panel = {
        "time, s": np.asarray(t, dtype=float),
        "height of the top, m": q[:, 2],
        "height of left axle end, m": left[:, 2],
        "height of right axle end, m": right[:, 2],
        **(numbers or {}),
    }
    of = figure()
    axes = of.add_axes(SCENE)
    way = draw_path(axes, q, stations=0, reference=reference, **sizes)
    _filled(axes, _ratio(of))
    drawing = FromAbove(axes, **sizes)
    write_numbers = _panel(of, panel, keep, len(q))

    def show(k: int) -> None:
        drawing.show(q[keep[k]])
        way.set_data(*middle[: keep[k] + 1, :2].T)
        write_numbers(k)

    write_movie(path, of, show, len(keep), fps=fps, progress=progress)


# -- what both have


def _rows(q: Any, width: int, meaning: str, count: int | None = None, *, wider: bool = False) -> np.ndarray:
    """q as floats with one row for each time, if it is finite and as wide as it should be."""
    rows = np.asarray(q, dtype=float)
    fits = rows.ndim == 2 and len(rows) > 0 and (rows.shape[1] == width or (wider and rows.shape[1] > width))
    if not fits or count not in (None, len(rows)):
        wanted = f"({'times' if count is None else count}, {width}{' or more' if wider else ''})"
        raise ShapeError(f"q must have shape {wanted} with rows {meaning}, got {rows.shape}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise SimulationError(f"q[{bad[0]}] is not finite and cannot be drawn: {rows[bad[0]]}")
    return rows


def _style(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color=FAINT, alpha=0.25, lw=0.6)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_color(FAINT)


def _ratio(of: Any) -> float:
    """Width over height of the picture, in pixels."""
    wide, high = of.get_size_inches()
    return float(SCENE[2] * wide / (SCENE[3] * high))


def _filled(axes: Any, ratio: float) -> None:
    """Limits made wider, or higher, until they have this ratio about the same middle."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    half = max(right - left, ratio * (high - low)) / 2.0
    x, y = (left + right) / 2.0, (low + high) / 2.0
    axes.set(xlim=(x - half, x + half), ylim=(y - half / ratio, y + half / ratio))


def _written(values: np.ndarray, name: str) -> str:
    """A format for all of them: four digits of the largest, as a power of ten if it is small, time to the millisecond."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if name == "time" or largest < 1e-12:
        return "7.3f" if name == "time" else "7.4f"
    return "7.1e" if largest < 1e-3 else f"7.{int(np.clip(4 - np.ceil(np.log10(largest)), 0, 4))}f"


def _panel(of: Any, numbers: Mapping[str, Any], keep: np.ndarray, count: int) -> Any:
    """What writes the numbers of frame k: each a faint name, and below it the value with its unit."""
    if len(numbers) > MOST_NUMBERS:
        raise ShapeError(f"there is room for {MOST_NUMBERS} numbers beside the picture, got {len(numbers)}: {', '.join(numbers)}")
    lines = []
    for row, (label, values) in enumerate(numbers.items()):
        name, _, unit = label.partition(", ")
        values = np.asarray(values, dtype=float)
        if values.shape != (count,):
            raise ShapeError(f"numbers['{label}'] must have shape ({count},), one for each time, got {values.shape}")
        top = SCENE[1] + SCENE[3] - 0.115 * row
        title = of.text(PANEL, top, name, color=FAINT, fontsize=9, va="top")
        line = of.text(PANEL, top - 0.04, "", color=INK, fontsize=12, va="top", family="monospace")
        form = _written(values, name)
        line.set_text(f"{-np.abs(values).max():{form}} {unit}")
        wide = max(text.get_window_extent().x1 for text in (title, line))
        if wide > PIXELS[0]:
            raise ShapeError(f"'{label}' is {wide - PIXELS[0]:.0f} pixels wider than the room beside the picture: shorten it")
        lines.append((line, values, form, unit))

    def write(k: int) -> None:
        for line, values, form, unit in lines:
            # what rounds to nothing has no sign
            line.set_text(f"{values[keep[k]]:z{form}} {unit}")

    return write
