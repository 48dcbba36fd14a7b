"""Joined and rounded paths: unit speed by arc length, continuous, with the length of their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.methods.planning.joined_path import joined, rounded
from condyle.methods.planning.paths import circle, line


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 7), st.booleans())
def test_a_rounded_polygon_has_unit_speed_and_no_gaps(seed: int, count: int, closed: bool) -> None:
    rng = np.random.default_rng(seed)
    angle = np.sort(np.linspace(0.0, 2.0 * np.pi, count, endpoint=False) + rng.uniform(0.0, 0.3, count))
    points = np.column_stack([np.cos(angle), np.sin(angle), 0.1 * rng.normal(size=count)])
    path = rounded(points, 0.05, closed=closed)
    s = np.linspace(0.0, 1.0, 501)
    p, first, _ = path.at(s)
    assert np.linalg.norm(first, axis=1) == pytest.approx(np.full(501, path.length), rel=1e-9)
    # steps along the path are as long as they should be, but for the curvature
    steps = np.linalg.norm(np.diff(p, axis=0), axis=1)
    assert steps.max() <= path.length / 500 * (1 + 1e-9) and steps.min() > 0.98 * path.length / 500
    ends = (points[0], points[-1]) if not closed else (0.5 * (points[0] + points[-1]),) * 2
    assert p[0] == pytest.approx(ends[0], abs=1e-12) and p[-1] == pytest.approx(ends[1], abs=1e-12)


def test_derivatives_and_traced_values() -> None:
    path = rounded([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.3, 0.2, 0.0]], 0.05)
    assert path.length == pytest.approx(0.5 - 0.1 + 0.025 * np.pi)
    s, h = np.array([0.2, 0.55, 0.9]), 1e-5
    p, first, second = path.at(s)
    assert (path.at(s + h).position - path.at(s - h).position) / (2 * h) == pytest.approx(first, abs=1e-7)
    assert (path.at(s + h).first - path.at(s - h).first) / (2 * h) == pytest.approx(second, abs=1e-5)
    traced = cd.function(lambda s: dict(zip("pab", path.at(s), strict=True)), s=())
    assert np.array(traced(s)) == pytest.approx(np.array([p, first, second]), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: joined([]), "at least one line or circle"),
        (lambda: joined([line([0, 0, 0], [1, 0, 0]), line([2, 0, 0], [3, 0, 0])]), "begins 1 m from the end of piece 0"),
        (lambda: joined([circle([1, 0, 0], centre=[0, 0, 0], normal=[0, 0, 1]), "x"]), "piece 1 .* must be a line or circle"),
        (lambda: rounded([[0, 0, 0]], 0.1), "at least 2 points"),
        (lambda: rounded([[0, 0, 0], [1, 0, 0], [1, 1, 0]], 0.0), "radius of corners must be above zero"),
        (lambda: rounded([[0, 0, 0], [1, 0, 0], [1, 1, 0]], 2.0), "corner 1 .* no room for a radius of 2 m"),
        (lambda: rounded([[0, 0, 0], [1, 0, 0], [0, 0, 0]], 0.1), "no room"),
    ],
)
def test_wrong_pieces_are_sentences(call: Any, words: str) -> None:
    with pytest.raises(cd.ControlError, match=words):
        call()
