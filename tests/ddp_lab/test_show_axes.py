"""The axes of still pictures: round marks on them, and curves where logarithms say."""

import math
import re
from itertools import pairwise
from typing import Any

import pytest

from ddp_lab.show import TrainingCurves
from ddp_lab.show.chart import Axis, axis_of


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.01, 1000.0, [0.01, 0.1, 1, 10, 100, 1000]),
        (0.3, 8.0, [0.5, 1, 2, 5]),
        (3.1, 4.4, [3.5, 4.0]),  # neither 1, 2 nor 5 times a power of ten lies between
    ],
)
def test_a_logarithmic_axis_is_marked_by_round_numbers(
    low: float, high: float, marks: list[float]
) -> None:
    assert Axis(low, high, logarithmic=True).marks() == pytest.approx(marks)


def test_an_axis_has_few_marks_whatever_its_length() -> None:
    for low, high in ((1e-300, 1e300), (1e-9, 2e-9), (5.0, 5.0), (0.1, 123456.0)):
        for logarithmic in (False, True):
            marks = Axis(low, high, logarithmic).marks()
            assert 1 <= len(marks) <= 16, (low, high, logarithmic)
            slack = 1e-9 * (high - low)
            assert all(low - slack <= mark <= high + slack for mark in marks)


def test_equal_ratios_are_equal_lengths_on_a_logarithmic_axis() -> None:
    axis = Axis(0.1, 1000.0, logarithmic=True)
    assert [axis.share(v) for v in (0.1, 1, 10, 100, 1000)] == pytest.approx(
        [0, 0.25, 0.5, 0.75, 1]
    )
    assert Axis(0.0, 8.0).share(2.0) == 0.25


def test_a_linear_axis_begins_at_zero_or_below() -> None:
    assert axis_of([2.0, 5.0], logarithmic=False) == Axis(0.0, 5.0)
    assert axis_of([-2.0, 5.0], logarithmic=False) == Axis(-2.0, 5.0)
    assert axis_of([2.0, 5.0], logarithmic=True) == Axis(2.0, 5.0, logarithmic=True)
    assert axis_of([], logarithmic=True).marks()


def heights(curves: TrainingCurves) -> list[float]:
    """Return how high the first run's points stand, from the top."""
    found: Any = re.findall(
        r'class="line-backward" points="([^"]+)" stroke-width="5"', curves.poster()
    )
    return [float(point.split(",")[1]) for point in found[0].split()]


def test_the_poster_of_curves_is_logarithmic_where_the_chart_is() -> None:
    values = {"a": [100.0, 10.0, 1.0, 0.1]}
    up = heights(TrainingCurves(values, log_y=True))
    steps = [below - above for above, below in pairwise(up)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    linear = heights(TrainingCurves(values))
    assert linear[1] - linear[0] > 5 * (linear[2] - linear[1])


def test_points_without_a_logarithm_are_left_out_of_a_logarithmic_poster() -> None:
    curves = TrainingCurves({"a": [1.0, 0.0, -1.0, 10.0], "b": [0.0]}, log_y=True)
    assert len(heights(curves)) == 2
    assert "nan" not in curves.poster()
    assert math.isfinite(min(heights(TrainingCurves({"a": [1.0]}, log_y=True))))
    assert "<svg" in TrainingCurves(log_y=True).poster()
