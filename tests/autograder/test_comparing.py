"""close: what is accepted, what is not, and what it says."""

import numpy as np
import pytest

from autograder.checks import Feedback, close, to_number

FLOATS = [np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e3])
def test_a_sign_flip_fails_at_any_magnitude(dtype: type, size: float) -> None:
    expected = np.array([size, -size], dtype)
    if not expected.all():
        return
    close(expected.copy(), expected, called="f()")
    with pytest.raises(Feedback):
        close(-expected, expected, called="f()")


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_a_factor_of_1_0005_fails(dtype: type) -> None:
    expected = np.linspace(-1, 1, 7).astype(dtype)
    with pytest.raises(Feedback):
        close(expected * dtype(1.0005), expected, called="f()")


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_passes(dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 64, 64))
    close(
        a.astype(dtype) @ b.astype(dtype),
        a @ b,
        called="f()",
        rtol=0.2 if dtype == np.float16 else None,
    )


def test_an_answer_cannot_buy_tolerance_with_half_precision() -> None:
    with pytest.raises(Feedback):
        close(np.float16(1.004), np.float64(1.0), called="f()")


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (np.ones(3), np.ones((3, 1)), r"f\(x\) has shape \(3,\), expected \(3, 1\)"),
        (
            [1.0, 2.0, 4.0],
            np.array([1.0, 2.0, 3.0]),
            r"f\(x\) at \[2\]: got 4, expected 3 \(1 of 3",
        ),
        (3.0, 4.0, r"f\(x\): got 3, expected 4\."),
        (None, 4.0, "got None, expected a number"),
        ("4", 4, "got '4', expected a number"),
        ([[1], [2, 3]], np.ones((2, 2)), "unequal length"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": 1}, {"a": 2}, r"f\(x\)\['a'\]: got 1, expected 2"),
        ((1, 2), [1, 3], r"f\(x\)\[1\]: got 2, expected 3"),
        ([1], [1, 2], "expected 2 items"),
        ("ring", "tree", "got 'ring', expected 'tree'"),
        (np.nan, 1.0, "got nan"),
        (np.inf, 1.0, "got inf"),
        (True, 0, "got True, expected 0"),
        (10**30, 1.0, "expected"),
    ],
)
def test_what_differs_is_said(got: object, expected: object, says: str) -> None:
    with pytest.raises(Feedback, match=says):
        close(got, expected, called="f(x)", hint="Look again.")


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (np.nan, np.nan),
        (np.inf, np.inf),
        ([1, 2], (1, 2)),
        ([np.ones(2), 3.0], [np.ones(2), 3]),
        (np.ones(3), [1, 1, 1]),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (True, True),
        (1 + 2j, np.complex64(1 + 2j)),
        (None, None),
        (2, 2.0),
    ],
)
def test_what_is_the_same_passes(got: object, expected: object) -> None:
    close(got, expected, called="f()")


def test_integers_are_exact() -> None:
    with pytest.raises(Feedback):
        close(np.array([10**9 + 1]), np.array([10**9]), called="f()")


def test_the_dtype_counts_where_it_is_asked_for() -> None:
    close(np.float32(1), np.float64(1), called="f()")
    with pytest.raises(Feedback, match="dtype float32, expected float64"):
        close(np.float32(1), np.float64(1), called="f()", same_dtype=True)


def test_a_text_is_no_number() -> None:
    assert to_number(np.float32(0.5)) == 0.5
    with pytest.raises(TypeError, match=r"'0\.5' is a text, no number"):
        to_number("0.5")
