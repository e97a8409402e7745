"""`testing.assert_close` accepts and refuses what PyTorch's does."""

from typing import Any

import pytest
import torch

import minitorch

NAN, INF = float("nan"), float("inf")


def accepts(lib: Any, make: Any, options: dict[str, Any]) -> bool:
    try:
        lib.testing.assert_close(*make(lib), **options)
    except AssertionError:
        return False
    return True


PAIRS: list[tuple[Any, dict[str, Any]]] = [
    *(
        (
            lambda lib, d=dtype, r=r: (lib.ones(3, dtype=getattr(lib, d)) * 1e3, _moved(lib, d, r)),
            {},
        )
        for dtype in ("float16", "float32", "float64")
        for r in (1e-8, 2e-7, 1e-6, 2e-6, 5e-4, 2e-3)
    ),
    (lambda lib: (lib.tensor([1, 2]), lib.tensor([1, 3])), {}),
    (lambda lib: (lib.tensor([2**53]), lib.tensor([2**53 + 1])), {}),
    (lambda lib: (lib.tensor([1, 2]), lib.tensor([1, 3])), {"rtol": 0.5, "atol": 0.0}),
    (lambda lib: (lib.tensor([1.0, 2.0]), lib.tensor([1.5, 2.0])), {"rtol": 0.0, "atol": 0.6}),
    (lambda lib: (lib.tensor([True]), lib.tensor([False])), {}),
    (lambda lib: (lib.tensor([NAN]), lib.tensor([NAN])), {}),
    (lambda lib: (lib.tensor([NAN]), lib.tensor([NAN])), {"equal_nan": True}),
    (lambda lib: (lib.tensor([INF, 1.0]), lib.tensor([INF, 1.0])), {}),
    (lambda lib: (lib.tensor([INF]), lib.tensor([-INF])), {}),
    (lambda lib: (lib.ones(2), lib.ones(3)), {}),
    (lambda lib: (lib.ones(2), lib.ones(1, 2)), {}),
    (lambda lib: (lib.ones(2), lib.ones(2, dtype=lib.float64)), {}),
    (lambda lib: (lib.ones(2), lib.ones(2, dtype=lib.float64)), {"check_dtype": False}),
    (lambda lib: ([lib.ones(2), 1.0], [lib.ones(2), 1.0]), {}),
    (lambda lib: ([lib.ones(2)], [lib.ones(2), lib.ones(2)]), {}),
    (lambda lib: ({"a": lib.ones(2)}, {"a": lib.ones(2)}), {}),
    (lambda lib: ({"a": lib.ones(2)}, {"b": lib.ones(2)}), {}),
    (lambda lib: ({"a": [lib.ones(2)]}, {"a": [lib.zeros(2)]}), {}),
    (lambda lib: (1.0, 1.0 + 1e-9), {}),
    (lambda lib: (1, 2), {}),
    (lambda lib: (lib.zeros(0), lib.zeros(0)), {}),
]


def _moved(lib: Any, dtype: str, relative: float) -> Any:
    return (lib.ones(3, dtype=lib.float64) * (1e3 * (1 + relative))).to(getattr(lib, dtype))


@pytest.mark.parametrize("case", range(len(PAIRS)))
def test_what_is_close_is_what_torch_calls_close(case: int) -> None:
    make, options = PAIRS[case]
    assert accepts(minitorch, make, options) == accepts(torch, make, options)


def test_the_message_says_where_and_by_how_much() -> None:
    close = minitorch.testing.assert_close
    a, b = minitorch.tensor([[1.0, 2.0], [3.0, 4.0]]), minitorch.tensor([[1.0, 2.1], [3.0, 5.0]])
    with pytest.raises(AssertionError, match=r"(?s)\['w'\].*2 / 4.*difference.*: 1\."):
        close({"w": a}, {"w": b})
    with pytest.raises(AssertionError, match=r"^mine$"):
        close(a, b, msg="mine")
    with pytest.raises(AssertionError, match=r"^so: assert_close: "):
        close(a, b, msg=lambda text: f"so: {text}")
    with pytest.raises(ValueError, match="both or neither"):
        close(a, b, rtol=1.0)
