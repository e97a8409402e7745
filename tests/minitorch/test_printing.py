"""Tensors print as PyTorch's do; dtypes have NumPy's names, and operators the library's."""

import math

import numpy as np
import pytest
import torch

import minitorch

rng = np.random.default_rng(0)
ARRAYS = {
    "numbers": [1.0, 2.5],
    "whole": [[1.0, -2.0], [30.0, 0.0]],
    "0-d": 0.25,
    "0-d int": 3,
    "small": [1e-8, 1.0],
    "large": [1e10, 1.0],
    "large and whole": [1e6, 2.0],
    "just below": [0.001, 0.9],
    "not finite": [math.nan, 1.0, -math.inf],
    "nothing finite": [math.nan, math.inf],
    "zeros": [0.0, 0.0],
    "minus zero": [-0.0, 0.5],
    "bools": [True, False],
    "one bool": [True],
    "integers": [[1, -200], [3, 4]],
    "uint8": np.arange(3, dtype=np.uint8),
    "three axes": np.ones((2, 2, 2)),
    "four axes": np.arange(16.0).reshape(2, 2, 2, 2),
    "empty": np.zeros(0),
    "empty rows": np.zeros((2, 0)),
    "wide": np.full((3, 20), 1.25),
    "whole and long": np.arange(60.0),
    "many": np.arange(2000.0),
    "many rows": rng.normal(size=(300, 4)),
    "many columns": rng.normal(size=(4, 300)),
    "many axes": rng.integers(-99, 99, size=(12, 11, 10)),
    "random": rng.normal(size=(5, 3)) * 100,
    "half": np.array([1.5, 0.25], np.float16),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_numbers_print_as_pytorchs(array: object) -> None:
    values = np.asarray(array)
    values = values.astype(np.float32) if values.dtype == np.float64 else values
    expected = repr(torch.from_numpy(values.copy())).replace("torch.", "")
    assert repr(minitorch.from_numpy(values.copy())) == expected


def test_notes_that_do_not_fit_begin_a_line() -> None:
    for values in (np.ones(9, np.float64) * 1.5, np.ones(11, np.float64) * 1.5):
        expected = repr(torch.from_numpy(values).requires_grad_()).replace("torch.", "")
        assert repr(minitorch.from_numpy(values).requires_grad_()) == expected
    assert repr(minitorch.nn.Parameter(minitorch.ones(2))) == repr(
        torch.nn.Parameter(torch.ones(2))
    )
    assert repr(minitorch.ones(2).bfloat16()) == "tensor([1., 1.], dtype=bfloat16)"
