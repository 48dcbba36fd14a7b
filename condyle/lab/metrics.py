"""Metrics of a response: how well it follows its reference, and what that costs.

    found = metrics(t, reference, response, velocity=v, torque=u)
    found["iae"], found["overshoot"], found["settling_time"]

Rows are times, columns are joints (or x, y, z of the tool). Sums run in the order of the rows, each by itself, so a run has the
same metrics alone and in any batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ShapeError

Array = np.ndarray

MOVES = 1e-6  # rad or m: a column whose reference changes by less between its ends does not move
BAND = 0.02  # of the change, within which a response has settled
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
    Metric("overshoot", "", "how far a joint passes its last reference, over its change; largest of the joints"),
    Metric("rise_time", "s", "from 10 % to 90 % of the change; longest of the joints"),
    Metric("settling_time", "s", "after which a joint stays within 2 % of its change; longest of the joints"),
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


def step_metrics(t: Array, r: Array, y: Array, start: Array) -> dict[str, float]:
    """Overshoot, rise time and settling time of columns whose reference goes from `start` to another value; the worst one counts.

    The time counts from when the reference of the column begins to change.
    """
    overshoot, rise, settling = [], [], []
    for k in range(r.shape[1]):
        first, last = float(start[k]), float(r[-1, k])
        change = last - first
        if abs(change) < MOVES:
            continue
        begins = int(np.argmax(r[:, k] != first))
        part = (y[:, k] - first) / change  # 0 at the start, 1 at the end
        overshoot.append(max(float(part.max()) - 1.0, 0.0))
        rise.append(crossing(t, part, HIGH) - crossing(t, part, LOW))
        outside = np.flatnonzero(np.abs(part - 1.0) > BAND)
        if not len(outside):
            settling.append(0.0)
        elif outside[-1] == len(t) - 1:
            settling.append(float("nan"))
        else:
            settling.append(max(float(t[outside[-1] + 1] - t[begins]), 0.0))
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
