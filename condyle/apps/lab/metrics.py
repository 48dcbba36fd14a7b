"""Metrics of a response: how well it follows its reference, and what that costs.

    found = metrics(t, reference, response, velocity=v, torque=u)
    found["iae"], found["overshoot"], found["settling_time"]

Rows are times, columns are joints (or x, y, z of the tool). Sums run in the order of the rows, each by itself, so a run has the
same metrics alone and in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ShapeError

Array = np.ndarray

MOVES = 1e-6  # rad or m: a column whose reference changes by less between its ends does not move
BAND = 0.02  # of the change, within which a response has settled, and a reference has not turned back
REST = 0.1  # s, for which a reference stays where it rests
SLOW = 0.01  # of its largest speed, at which a reference is no longer under way at its last row
LOW, HIGH = 0.1, 0.9  # of the change, between which the time is the rise time


class Metric(NamedTuple):
    """Name, unit with {} for that of the response, decimals, and what it is."""

    name: str
    unit: str
    summary: str


METRICS = (
    Metric("iae", "{} s", "integral of |e| over time, mean over the joints"),
    Metric("ise", "{}^2 s", "integral of e^2, mean over the joints"),
    Metric("itae", "{} s^2", "integral of t |e|, mean over the joints"),
    Metric("rms_error", "{}", "root of the mean of e^2 over times and joints"),
    Metric("max_error", "{}", "largest |e|"),
    Metric("final_error", "{}", "largest |e| of a joint at the end"),
    Metric("overshoot", "", "how far a joint passes where its reference turns back or rests, over its way there; largest"),
    Metric("rise_time", "s", "from 10 % to 90 % of the last change; longest of the joints"),
    Metric("settling_time", "s", "after which a joint stays within 2 % of its last change; longest of the joints"),
    Metric("mean_speed", "{}/s", "mean of |v| over times and joints"),
    Metric("effort", "N^2 m^2 s", "integral of the sum of tau^2"),
    Metric("mean_torque", "N m", "mean of |tau| over times and joints"),
    Metric("peak_torque", "N m", "largest |tau|"),
    Metric("torque_rate", "N m/s", "root of the mean of (change of tau / time)^2"),
    Metric("jerk", "rad/s^3", "root of the mean of the squared second difference of v"),
    Metric("energy", "J", "integral of the sum of |tau v|: work of motors that cannot recover any"),
    Metric("score", "", "3 IAE + 0.2 mean|v| + final error + 0.7 overshoot + 40 max(0, overshoot - 0.1)"),
)
NAMES = tuple(metric.name for metric in METRICS)


def metrics(
    t: Any, reference: Any, response: Any, *, velocity: Any = None, torque: Any = None, start: Any = None
) -> dict[str, float]:
    """{name: value} of METRICS; nan where there is nothing to measure, such as the rise time of a reference that does not move.

    t: (rows,), s, equally spaced; reference and response: (rows, n). velocity: (rows, joints), torque: (rows, motors).
    start: (n,), the reference before the first row, by default that of the first row.
    """
    t, r, y = (np.ascontiguousarray(each, dtype=float) for each in (t, reference, response))
    if t.ndim != 1 or len(t) < 2 or r.ndim != 2 or r.shape != y.shape or len(r) != len(t):
        raise ShapeError(f"metrics need t (rows,) and reference and response (rows, n); got {t.shape}, {r.shape}, {y.shape}")
    h = float(t[1] - t[0])
    e = r - y
    size = np.abs(e)
    n = e.shape[1]
    found = dict.fromkeys(NAMES, float("nan"))
    found["iae"] = total(size) * h / n
    found["ise"] = total(e * e) * h / n
    found["itae"] = total(size * (t - t[0])[:, None]) * h / n
    found["rms_error"] = float(np.sqrt(total(e * e) / e.size))
    found["max_error"], found["final_error"] = float(size.max()), float(size[-1].max())
    found |= step_metrics(t, r, y, r[0] if start is None else np.asarray(start, dtype=float))
    if velocity is not None:
        v = np.ascontiguousarray(velocity, dtype=float)
        found["mean_speed"] = total(np.abs(v)) / v.size
        if len(v) > 2:
            second = (v[2:] - 2.0 * v[1:-1] + v[:-2]) / (h * h)
            found["jerk"] = float(np.sqrt(total(second * second) / second.size))
    if torque is not None:
        u = np.ascontiguousarray(torque, dtype=float)
        found["effort"], found["mean_torque"] = total(u * u) * h, total(np.abs(u)) / u.size
        found["peak_torque"] = float(np.abs(u).max())
        rate = np.diff(u, axis=0) / h
        found["torque_rate"] = float(np.sqrt(total(rate * rate) / rate.size))
        if velocity is not None and np.shape(velocity) == u.shape:
            found["energy"] = total(np.abs(u * v)) * h
    found["score"] = score(found)
    return found


@dataclass(frozen=True)
class Segment:
    """One motion of a reference, from a value to another one, at which it turns back or rests.

    `first`, `last`: rows of its first and last step. The response belongs to it before the row `until`: while the next segment
    turns back, or where it goes on from there.
    """

    start: float
    target: float
    first: int
    last: int
    until: int

    def part(self, y: Array) -> Array:
        """How far a response is on the way: 0 at the start, 1 at the target."""
        found: Array = (y - self.start) / (self.target - self.start)
        return found

    def passing(self, y: Array) -> slice:
        """The rows in which a response (rows,) may have passed the target: not those in which it still lags behind a turn."""
        before = self.part(y[self.first : self.last + 1]) <= 1.0
        return slice(self.first + int(np.argmax(before)) if before.any() else self.last, self.until)


def segments(t: Array, r: Array, start: float) -> list[Segment]:
    """The segments of a reference (rows,) which is `start` before its first row, without one that is under way at the end.

    It turns back where it returns by BAND of its range, and rests where it stays for more than REST.
    """
    x = np.concatenate([[start], r])
    extent = float(np.ptp(x))
    if extent < MOVES:
        return []
    steps = np.diff(x)
    moves = np.flatnonzero(steps)
    breaks = (np.diff(np.sign(steps[moves])) != 0.0) | (np.diff(t[moves]) > REST)
    pieces = zip(moves[np.concatenate([[True], breaks])].tolist(), moves[np.concatenate([breaks, [True]])].tolist(), strict=True)
    found: list[Segment] = []
    departs = -1  # the first row of small steps back
    for first, last in pieces:
        value = float(x[last + 1])
        before = found[-1] if found else Segment(start, start, first, first, len(r))
        travel = before.target - before.start
        beyond = (value - before.target) * np.sign(travel)
        if abs(travel) < BAND * extent:
            found[-1:] = [replace(before, target=value, last=last)]
        elif beyond >= BAND * extent and t[first] - t[before.last] > REST and departs < 0:
            found.append(Segment(before.target, value, first, last, len(r)))
        elif beyond >= 0.0:
            found[-1], departs = replace(before, target=value, last=last), -1
        elif -beyond >= BAND * extent:
            found.append(Segment(before.target, value, first if departs < 0 else departs, last, len(r)))
            departs = -1
        elif departs < 0:
            departs = first
    for k, (one, following) in enumerate(pairwise(found)):
        back = (one.target - one.start) * (following.target - following.start) < 0.0
        found[k] = replace(one, until=following.last + 1 if back else following.first)
    end = found[-1]
    fastest = float(np.abs(steps[end.first : end.last + 1]).max())
    under_way = end.last == len(r) - 1 and abs(float(steps[-1])) > SLOW * fastest
    if len(found) > 1 and under_way and (found[-2].target - found[-2].start) * (end.target - end.start) < 0.0:
        found[-2] = replace(found[-2], until=len(r))
    return found[:-1] if under_way else found


def step_metrics(t: Array, r: Array, y: Array, start: Array) -> dict[str, float]:
    """Overshoot of all segments of the references, rise time and settling time of their last ones; the worst column counts.

    start: (n,), the references before the first row. The time counts from when the segment begins.
    """
    overshoot, rise, settling = [], [], []
    for k in range(r.shape[1]):
        found = segments(t, r[:, k], float(start[k]))
        if not found:
            continue
        overshoot += [max(float(each.part(y[each.passing(y[:, k]), k]).max()) - 1.0, 0.0) for each in found]
        rows = slice(found[-1].first, found[-1].until)
        part, times = found[-1].part(y[rows, k]), t[rows]
        rise.append(crossing(times, part, HIGH) - crossing(times, part, LOW))
        outside = np.flatnonzero(np.abs(part - 1.0) > BAND)
        if not len(outside):
            settling.append(0.0)
        elif outside[-1] == len(times) - 1:
            settling.append(float("nan"))
        else:
            settling.append(float(times[outside[-1] + 1] - times[0]))
    nan = float("nan")
    if not overshoot:
        return {"overshoot": nan, "rise_time": nan, "settling_time": nan}
    return {"overshoot": max(overshoot), "rise_time": float(np.max(rise)), "settling_time": float(np.max(settling))}


def crossing(t: Array, part: Array, level: float) -> float:
    """The first time at which a response is at a level, interpolated between rows; nan if it never is."""
    above = part >= level
    if not above.any():
        return float("nan")
    k = int(np.argmax(above))
    if k == 0:
        return float(t[0])
    return float(t[k - 1] + (level - part[k - 1]) / (part[k] - part[k - 1]) * (t[k] - t[k - 1]))


def score(found: dict[str, float]) -> float:
    """3 IAE + 0.2 mean|v| + final error + 0.7 overshoot + 40 max(0, overshoot - 0.1); no overshoot where nothing moves."""
    over = found["overshoot"] if found["overshoot"] == found["overshoot"] else 0.0
    speed = found["mean_speed"] if found["mean_speed"] == found["mean_speed"] else 0.0
    return 3.0 * found["iae"] + 0.2 * speed + found["final_error"] + 0.7 * over + 40.0 * max(0.0, over - 0.1)


def total(values: Array) -> float:
    """The sum of all entries, one after the other in the order of rows: the same on every processor."""
    return float(np.add.accumulate(values.ravel())[-1])
