"""The vector functions against wider arithmetic, over the whole range of numbers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.compile import Program, Step, kernel
from minitorch.compile import functions as written

SAMPLES = 60_000
LIMITS = {  # units in the last place, as the module's docstring promises
    "exp": (1.1, 1.1),
    "expm1": (2.0, 2.0),
    "log": (1.0, 1.0),
    "log1p": (2.0, 2.0),
    "sigmoid": (3.0, 3.0),
    "tanh": (2.5, 3.0),
    "erf": (7.0, 5.0),
    "sin": (1.5, 2.1),
    "cos": (1.5, 2.1),
}


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "sin": np.sin,
    "cos": np.cos,
}


def numbers(dtype: str) -> Any:
    """Bit patterns of every kind, the ranges where something happens, and the edges."""
    rng = np.random.default_rng(0)
    whole = np.uint32 if dtype == "float32" else np.uint64
    anything = rng.integers(0, np.iinfo(whole).max, SAMPLES, whole, endpoint=True).view(dtype)
    reach = 110 if dtype == "float32" else 760
    ranges = [rng.uniform(-r, r, SAMPLES).astype(dtype) for r in (1e-3, 0.5, 2, 20, reach)]
    ranges += [rng.uniform(-r, r, SAMPLES // 10).astype(dtype) for r in (1e3, 131072, 2e9, 1e30)]
    quarters = (np.pi / 2 * rng.integers(-(2**20), 2**20, SAMPLES // 10)).astype(dtype)
    near_one = (1 + rng.uniform(-0.5, 1, SAMPLES)).astype(dtype)
    info = np.finfo(dtype)
    edges = [0.0, 1.0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, info.eps]
    return np.concatenate(
        [anything, *ranges, quarters, near_one, np.array(edges, dtype), -np.array(edges, dtype)]
    )


def worst(name: str, dtype: str, got: Any, x: Any) -> float:
    """The largest error in units in the last place; infinite where NaN or infinity is wrong."""
    wide = np.float64 if dtype == "float32" or name == "erf" else np.longdouble
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(wide))
        want = exact.astype(dtype)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.abs(got.astype(wide) - exact) / np.abs(np.spacing(want)).astype(wide)
    error = np.where(np.isfinite(want) & np.isfinite(got), error, np.inf)
    return float(np.where(same, 0, error).max())


def computed(name: str, dtype: str, x: Any) -> Any:
    return kernel(Program(dtype, ("float",), (Step(name, (0,)),)))(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LIMITS)
def test_a_function_is_as_exact_as_promised_for_every_number(name: str, dtype: str) -> None:
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        got = computed(name, dtype, x)
    assert worst(name, dtype, got, x) <= LIMITS[name][dtype == "float64"]


@pytest.mark.parametrize(("dtype", "reach"), [("float32", 103.9), ("float64", 745.9)])
def test_softmax_is_exact_down_to_denormals(dtype: str, reach: float) -> None:
    x = -np.linspace(0, reach, 4000).astype(dtype)
    got = minitorch.softmax(minitorch.tensor(x), 0).numpy()
    exact = np.exp(x.astype(np.longdouble))
    exact /= exact.sum()
    assert (np.abs(got - exact) <= 6 * np.spacing(exact.astype(dtype))).all()


def worst_angle(dtype: str, *more: Step) -> float:
    """The largest error of an angle in units in the last place; signs and NaN must be NumPy's."""
    rng, whole = np.random.default_rng(1), np.uint32 if dtype == "float32" else np.uint64
    info = np.finfo(dtype)
    edges = [0.0, 1.0, 2.0, np.inf, info.max, info.tiny, info.smallest_subnormal]
    edge = np.array([*edges, *(-e for e in edges), np.nan], dtype)
    pairs = [np.meshgrid(edge, edge), [rng.permutation(numbers(dtype)) for _ in range(2)]]
    pairs += [rng.integers(0, 100, (2, SAMPLES), whole).view(dtype)]  # denormals
    pairs += [
        rng.uniform(-1, 1, (2, SAMPLES)).astype(dtype) * info.dtype.type(n) for n in (1, 2e38)
    ]
    y, x = (np.concatenate([np.ravel(pair[i]) for pair in pairs]) for i in range(2))
    wide = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        got = kernel(Program(dtype, ("float", "float"), (Step("atan2", (0, 1)), *more)))(y, x)
        exact = np.arctan2(y.astype(wide), x.astype(wide))
        want = exact.astype(dtype)
        error = np.abs(got - exact) / np.spacing(np.abs(want)).astype(wide)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
    return float(error[number].max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_angle_is_as_exact_as_promised_for_every_point(dtype: str) -> None:
    assert worst_angle(dtype) <= 2.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_angles_series_that_is_four_terms_short_is_caught(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {name: count - 4 for name, count in written.ATAN_TERMS.items()}
    monkeypatch.setattr(written, "ATAN_TERMS", terms)
    assert worst_angle(dtype, Step("positive", (-1,))) > 2.5


def power(x: Any, y: Any) -> Any:
    task = Program(x.dtype.name, ("float", "float"), (Step("pow", (0, 1)),))
    return kernel(task)(x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_power_has_the_edges_of_the_c_standard(dtype: str) -> None:
    info = np.finfo(dtype)
    edges = [0.0, 1.0, 0.5, 2.0, 3.0, np.inf, info.max, info.tiny / 4, 2.0**53, 2.0**24 + 2]
    edge = np.array([*edges, *(-e for e in edges), np.nan], dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(edge, edge))
    with np.errstate(all="ignore"):
        got, want = power(x, y), np.power(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.7, 5.0, 0.0, -3.0, 0.1])
def test_a_fixed_power_is_numpys(exponent: float) -> None:
    x = np.array([0.0, -0.0, 0.3, 2.5, -2.5, 1e-3, np.inf, -np.inf, np.nan], np.float32)
    task = Program("float32", ("float",), (Step("power", (0,), exponent),))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(kernel(task)(x), x**exponent, rtol=3e-7)


@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf", "sin"])
def test_minus_zero_stays_minus_zero(name: str) -> None:
    got = computed(name, "float32", np.array([-0.0, 0.0], np.float32))
    np.testing.assert_array_equal(np.signbit(got), [True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "end"), [("tanh", 20.0), ("erf", 6.0), ("sigmoid", 40.0)])
def test_far_out_is_exactly_one(name: str, dtype: str, end: float) -> None:
    """1 - tanh² is a gradient, and must be 0 where tanh does not move any more."""
    x = np.array([end, 2 * end, 1e30, np.inf], dtype)
    np.testing.assert_array_equal(computed(name, dtype, x), 1.0)
    low = 0.0 if name == "sigmoid" else -1.0
    np.testing.assert_array_equal(computed(name, dtype, -x[2:]), low)


def test_a_series_that_is_one_term_short_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(written.EXP_TERMS, True, written.EXP_TERMS[True] - 2)
    x = numbers("float32")
    short = Program("float32", ("float",), (Step("exp", (0,)), Step("positive", (-1,))))
    with np.errstate(all="ignore"):
        assert worst("exp", "float32", kernel(short)(x), x) > LIMITS["exp"][0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_are_numpys_bits_at_any_quotient(name: str, dtype: str) -> None:
    x = numbers(dtype)
    rng = np.random.default_rng(1)
    y = rng.permutation(x)
    edges = np.concatenate([x[-16:], np.array([2.0, 3.0, 1e-30], dtype)])
    left, right = (a.reshape(-1) for a in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        near = rng.integers(-99, 99, x.shape).astype(dtype) * np.roll(y, 1)
        a, b = np.concatenate([x, x, near, left]), np.concatenate([y, x * 3, np.roll(y, 1), right])
        want = getattr(np, name)(a, b)
        got = kernel(Program(dtype, ("float",) * 2, (Step(name, (0, 1)),)))(a, b)
    np.testing.assert_array_equal(got, want)
    same_sign = np.signbit(got) == np.signbit(want)
    assert (same_sign | (want != want)).all()
