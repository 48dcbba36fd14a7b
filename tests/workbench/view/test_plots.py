"""Charts: every line inside its frame, peaks kept, round ticks, names as text."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condyle.errors import ShapeError
from condyle.workbench.view import plots
from condyle.workbench.view.plots import PLAYHEAD, Chart, chart_html


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html)


def points(html: str) -> list[np.ndarray]:
    lines = [line.attrib["points"] for line in parsed(html).iter("polyline")]
    return [np.array([[float(c) for c in pair.split(",")] for pair in line.split()]) for line in lines]


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=50), st.floats(1e-3, 1e3))
def test_lines_stay_inside_and_ticks_are_labelled(y: list[float], seconds: float) -> None:
    html = chart_html(Chart("a", np.linspace(0.0, seconds, len(y)), {"": np.array(y)}))
    (line,) = points(html)
    assert line[:, 0].min() >= plots.LEFT - 0.1 and line[:, 0].max() <= plots.WIDTH - plots.RIGHT + 0.1
    assert line[:, 1].min() >= plots.TOP - 0.1 and line[:, 1].max() <= plots.HEIGHT - plots.BOTTOM + 0.1
    for anchor in ("middle", "end"):  # below, and to the left
        texts = [text.text for text in parsed(html).iter("text") if text.attrib["text-anchor"] == anchor]
        assert len(texts) >= 3 and len(set(texts)) == len(texts)


def test_a_peak_of_one_sample_is_drawn() -> None:
    t = np.linspace(0.0, 1.0, 100_001)
    y = np.zeros(len(t))
    y[77_777] = 1.0
    (line,) = points(chart_html(Chart("a", t, {"": y})))
    assert len(line) <= plots.MAX_POINTS + 2
    assert line[:, 1].min() < line[:, 1].max() - 100.0


def test_a_still_line_is_not_magnified() -> None:
    y = 5.0 + 1e-14 * np.random.default_rng(0).normal(size=50)
    (line,) = points(chart_html(Chart("a", np.arange(50.0), {"": y})))
    assert np.ptp(line[:, 1]) < 0.5


def test_names_are_text() -> None:
    html = chart_html(Chart("<b>x</b>", np.arange(3.0), {"<img src=x onerror=alert(1)>": np.arange(3.0)}, bands=[(0.5, 1.0)]))
    assert "<img" not in html and "<b>" not in html
    assert re.search(r'class="band"', html)


def test_lengths_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"chart 'a': 'y' has shape \(4,\), its times \(3,\)"):
        Chart("a", np.arange(3.0), {"y": np.arange(4.0)})


def test_a_chart_has_a_playhead_for_its_times() -> None:
    html = chart_html(Chart("x", np.linspace(2.0, 5.0, 9), {"": np.zeros(9)}))
    assert 'data-begin="2" data-end="5"' in html and html.count('class="playhead"') == 1
    assert "condylePlayers" in PLAYHEAD
