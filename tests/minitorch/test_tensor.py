"""Tensors as values: dtypes, promotion, indexing, creation, errors, devices, random numbers."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minitorch
from minitorch.arrays import shapes
from minitorch.arrays.library import use_library
from minitorch.errors import ArgumentError, DeviceError, DTypeError, GradientError, ShapeError

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


class TestPromotion:
    @pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
    def test_two_tensors_have_torchs_dtype(self, a: str, b: str) -> None:
        for left, right in itertools.product([(2,), ()], repeat=2):
            ours = minitorch.ones(left, dtype=a) * minitorch.ones(right, dtype=b)
            theirs = torch.ones(left, dtype=getattr(torch, a)) * torch.ones(
                right, dtype=getattr(torch, b)
            )
            assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")

    @pytest.mark.parametrize(("dtype", "number"), list(itertools.product(DTYPES, [True, 2, 0.5])))
    def test_a_number_beside_a_tensor_has_torchs_dtype(self, dtype: str, number: Any) -> None:
        for function in ("__add__", "__truediv__", "__mul__", "__rmul__", "__lt__"):
            ours = getattr(minitorch.ones(2, dtype=dtype), function)(number)
            theirs = getattr(torch.ones(2, dtype=getattr(torch, dtype)), function)(number)
            assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_sums_and_means_have_torchs_dtype(self, dtype: str) -> None:
        ours, theirs = minitorch.ones(3, dtype=dtype), torch.ones(3, dtype=getattr(torch, dtype))
        assert str(ours.sum().dtype) == str(theirs.sum().dtype).removeprefix("torch.")
        if not theirs.is_floating_point():
            with pytest.raises(DTypeError, match="mean"):
                ours.mean()

    def test_gradients_have_the_dtype_of_their_tensor(self) -> None:
        a = minitorch.ones(3, requires_grad=True)
        b = minitorch.ones(3, dtype="float64", requires_grad=True)
        (a * b).sum().backward()
        assert a.grad is not None
        assert b.grad is not None
        assert (a.grad.dtype, b.grad.dtype) == (minitorch.float32, minitorch.float64)


class TestCreation:
    def test_floats_are_single_and_arrays_keep_their_dtype(self) -> None:
        assert minitorch.tensor([1.0]).dtype == minitorch.float32
        assert minitorch.tensor([1]).dtype == minitorch.int64
        assert minitorch.tensor(np.zeros(1)).dtype == minitorch.float64
        assert minitorch.tensor(True).dtype == minitorch.bool
        assert minitorch.Tensor([1, 2]).dtype == minitorch.float32
        assert minitorch.Tensor(np.zeros(2)).dtype == minitorch.float32

    def test_tensor_copies_and_from_numpy_shares(self) -> None:
        array = np.zeros(2, np.float32)
        copied, shared = minitorch.tensor(array), minitorch.from_numpy(array)
        array[0] = 7
        assert copied.tolist() == [0.0, 0.0]
        assert shared.tolist() == [7.0, 0.0]

    def test_what_is_no_number_is_refused(self) -> None:
        for data in ("text", [1, "a"], [[1, 2], [3]], object()):
            with pytest.raises((DTypeError, ValueError)):
                minitorch.tensor(data)

    def test_integers_cannot_require_a_gradient(self) -> None:
        with pytest.raises(GradientError, match="floating"):
            minitorch.tensor([1, 2], requires_grad=True)

    @pytest.mark.parametrize("arguments", [(5,), (1, 5), (1, 6, 2), (5, 0, -2), (0, 1, 0.25)])
    def test_arange_is_torchs(self, arguments: tuple[Any, ...]) -> None:
        ours, theirs = minitorch.arange(*arguments), torch.arange(*arguments)
        assert ours.tolist() == theirs.tolist()
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")


class TestRandom:
    def test_a_seed_repeats_the_numbers(self) -> None:
        draws = []
        for _ in range(2):
            minitorch.manual_seed(3)
            draws.append([minitorch.rand(3).tolist(), minitorch.randn(2).tolist()])
        assert draws[0] == draws[1]

    def test_a_generator_of_ones_own_does_not_disturb_the_default(self) -> None:
        minitorch.manual_seed(0)
        expected = minitorch.rand(2).tolist()
        minitorch.manual_seed(0)
        minitorch.rand(5, generator=minitorch.Generator().manual_seed(1))
        assert minitorch.rand(2).tolist() == expected

    def test_moments_are_those_of_the_distribution(self) -> None:
        minitorch.manual_seed(0)
        uniform, normal = minitorch.rand(100_000), minitorch.randn(100_000)
        assert uniform.mean().item() == pytest.approx(0.5, abs=0.005)
        assert normal.std().item() == pytest.approx(1.0, abs=0.01)
        dropped = minitorch.nn.functional.dropout(minitorch.ones(100_000), 0.25)
        assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)
        assert set(np.unique(dropped.numpy())) == {np.float32(0), np.float32(4 / 3)}

    def test_multinomial_draws_without_replacement_and_by_weight(self) -> None:
        minitorch.manual_seed(0)
        assert sorted(minitorch.multinomial(minitorch.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]
        weights = minitorch.tensor([0.0, 1.0, 3.0])
        drawn = minitorch.multinomial(weights, 20_000, replacement=True)
        assert (drawn == 2).float().mean().item() == pytest.approx(0.75, abs=0.02)
        with pytest.raises(ArgumentError, match="replacement=True"):
            minitorch.multinomial(weights, 3)


@settings(max_examples=150)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
def test_broadcasting_is_numpys_and_gradients_come_back_in_shape(drawn: Any) -> None:
    first, second = drawn.input_shapes
    assert shapes.broadcast(first, second) == drawn.result_shape
    a = minitorch.ones(first, dtype="float64", requires_grad=True)
    b = minitorch.full(second, 2.0, dtype="float64", requires_grad=True)
    (a * b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.shape, b.grad.shape) == (first, second)
    count = float(np.prod(drawn.result_shape))
    assert a.grad.sum().item() == 2 * count
    assert b.grad.sum().item() == count


@settings(max_examples=150)
@given(st.data())
def test_basic_indexing_and_its_gradient_are_torchs(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    steps = [i for i in (index if isinstance(index, tuple) else (index,)) if isinstance(i, slice)]
    if any(s.step is not None and s.step < 0 for s in steps):
        return  # torch has no negative steps
    numbers = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    ours = minitorch.tensor(numbers).requires_grad_()
    theirs = torch.tensor(numbers, requires_grad=True)
    picked, other = ours[index], theirs[index]
    np.testing.assert_array_equal(picked.detach().numpy(), other.detach().numpy())
    (picked * picked).sum().backward()
    (other * other).sum().backward()
    assert ours.grad is not None
    np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())


@settings(max_examples=100)
@given(st.data())
def test_advanced_indexing_and_its_gradient_are_torchs(data: Any) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=3, max_side=4))
    numbers = np.random.default_rng(0).standard_normal(shape)
    lists = data.draw(
        hnp.integer_array_indices(shape[:2], result_shape=hnp.array_shapes(max_dims=2, max_side=3))
    )
    for index in (lists, (slice(None), lists[1]), (lists[0], slice(0, 1)), numbers > 0):
        ours = minitorch.tensor(numbers).requires_grad_()
        theirs = torch.tensor(numbers, requires_grad=True)
        convert = index if isinstance(index, tuple) else (index,)
        same = tuple(torch.tensor(i) if isinstance(i, np.ndarray) else i for i in convert)
        picked, other = ours[index], theirs[same]
        np.testing.assert_array_equal(picked.detach().numpy(), other.detach().numpy())
        (picked**2).sum().backward()
        (other**2).sum().backward()
        assert ours.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-15)


def test_setting_elements_writes_in_place() -> None:
    x = minitorch.zeros(3, 2)
    x[1] = 5.0
    x[minitorch.tensor([0, 2]), 1] = minitorch.tensor([1.0, 2.0])
    x[x == 5.0] = 6.0
    assert x.tolist() == [[0.0, 1.0], [6.0, 6.0], [0.0, 2.0]]
    with pytest.raises(ShapeError):
        x[0] = minitorch.ones(3)


class TestErrors:
    def test_messages_name_the_operator_both_shapes_the_axis_and_a_next_step(self) -> None:
        a, b = minitorch.ones(3, 4), minitorch.ones(5, 2)
        with pytest.raises(ShapeError, match=r"matmul.*\(3, 4\).*\(5, 2\).*4 is not 5.*Transpose"):
            a @ b
        with pytest.raises(ShapeError, match=r"add.*\(3, 4\) and \(5, 2\).*axis -1.*Reshape"):
            a + b
        with pytest.raises(IndexError, match=r"sum: axis out of range: got 2, expected -2 to 1"):
            a.sum(2)
        with pytest.raises(ShapeError, match=r"reshape.*12 elements.*\(5, 2\)"):
            a.reshape(5, 2)
        with pytest.raises(ShapeError, match=r"cat.*axis 0.*on axis 1 4 is not 2"):
            minitorch.cat([a, b])

    def test_they_are_what_torch_code_catches(self) -> None:
        with pytest.raises(RuntimeError):
            minitorch.ones(2) + minitorch.ones(3)
        with pytest.raises(ValueError, match="broadcast"):
            minitorch.ones(2) + minitorch.ones(3)

    def test_a_misspelt_attribute_is_an_attribute_error_also_when_set(self) -> None:
        x = minitorch.ones(2)
        with pytest.raises(AttributeError):
            _ = x.requires_gard
        with pytest.raises(AttributeError):
            x.requires_gard = True

    def test_booleans_do_not_subtract(self) -> None:
        with pytest.raises(DTypeError, match="sub"):
            minitorch.ones(2, dtype="bool") - minitorch.ones(2, dtype="bool")

    def test_a_device_that_is_not_here_says_so(self) -> None:
        with pytest.raises(DeviceError, match="CUDA devices"):
            minitorch.ones(2, device="cuda:99")
        with pytest.raises(DeviceError, match="expected 'cpu'"):
            minitorch.device("tpu")

    def test_several_elements_are_neither_true_nor_a_number(self) -> None:
        with pytest.raises(ShapeError, match="ambiguous"):
            bool(minitorch.ones(2))
        with pytest.raises(ShapeError, match="one element"):
            minitorch.ones(2).item()

    def test_numpy_of_a_tracked_tensor_is_an_error(self) -> None:
        with pytest.raises(GradientError, match="detach"):
            minitorch.ones(2, requires_grad=True).numpy()


class TestConversion:
    def test_a_tensor_prints_what_it_is(self) -> None:
        x = minitorch.tensor([1.0, 2.0], requires_grad=True)
        assert repr(x) == "tensor([1., 2.], requires_grad=True)"
        assert "grad_fn=<mul>" in repr(x * 2)
        assert repr(minitorch.tensor([1.0], dtype="float64")) == "tensor([1.], dtype=float64)"
        assert f"{minitorch.tensor(1.25):.1f}" == "1.2"

    def test_dtype_conversions_pass_gradients_back(self) -> None:
        x = minitorch.ones(2, requires_grad=True)
        x.double().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == minitorch.float32
        assert x.to("float32") is x

    def test_a_0_d_result_is_an_array_that_shares_memory(self) -> None:
        x = minitorch.ones(3).sum()
        assert isinstance(x.numpy(), np.ndarray)
        x.add_(1.0)
        assert x.item() == 4.0

    def test_leaves_copy_and_pickle_and_results_do_not(self) -> None:
        x = minitorch.tensor([1.0, 2.0], requires_grad=True)
        for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert other.tolist() == x.tolist()
            assert other.requires_grad
            assert not np.shares_memory(other.array, x.array)
        with pytest.raises(GradientError, match="detach"):
            copy.deepcopy(x * 2)

    def test_numpy_leaves_the_arithmetic_to_us(self) -> None:
        x = minitorch.ones(2, requires_grad=True)
        for y in (np.ones(2, np.float32) * x, np.float32(2) + x, x - np.ones(2, np.float32)):
            assert isinstance(y, minitorch.Tensor)
            assert y.requires_grad

    def test_tensors_iterate_compare_and_count(self) -> None:
        x = minitorch.tensor([[1, 2], [3, 4]])
        assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
        assert 3 in x
        assert len(x) == 2
        assert [10, 20, 30][x[0, 0]] == 20
        assert (x == minitorch.tensor([[1, 0], [3, 0]])).tolist() == [[True, False], [True, False]]


def test_overflow_and_division_by_zero_are_silent_as_in_torch() -> None:
    x = minitorch.tensor([0.0, 1e30], requires_grad=True)
    y = (1 / x) + (x * x) + x.log() + minitorch.tensor(0.0).log()
    y.sum().backward()
    assert np.isnan(y.detach().numpy()).all()


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_zero_size_tensors_go_through_operators_and_backward(shape: tuple[int, ...]) -> None:
    x = minitorch.zeros(shape, requires_grad=True)
    (x.exp() * 2 + x.relu()).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == shape
    with pytest.raises(IndexError, match="no element"):
        x.amax()


class Column:
    """A column of a table as pandas has it: an array by its protocol, `get` by a key."""

    def __init__(self, numbers: np.ndarray[Any, Any]) -> None:
        self.numbers, self.dtype = numbers, numbers.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.numbers if dtype is None else self.numbers.astype(dtype)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, key: int) -> Any:
        raise KeyError(key)  # its rows have numbers of their own

    def get(self, key: str) -> Any:
        raise KeyError(key)


class Table(Column):
    """Columns side by side, which have no dtype together."""

    def __init__(self, numbers: np.ndarray[Any, Any]) -> None:
        super().__init__(numbers)
        del self.dtype


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_columns_and_tables_become_tensors_of_their_dtype(dtype: str) -> None:
    numbers = np.array([[0, 1], [1, 0]], dtype)
    for made in (
        minitorch.tensor(Column(numbers[0])),
        minitorch.as_tensor(Column(numbers[0])),
        minitorch.tensor(Table(numbers))[0],
        minitorch.tensor([Column(numbers[0]), Column(numbers[1])])[0],
    ):
        assert made.dtype == getattr(minitorch, dtype) and made.tolist() == [0, 1]
    assert minitorch.tensor(Column(numbers[0]), dtype=minitorch.float32).dtype == minitorch.float32
    with pytest.raises(DTypeError, match=r"got dtype\('O'\)"):
        minitorch.tensor(Column(np.array(["a", None])))


def test_the_gpus_code_path_trains_over_torch_arrays(torch_arrays: None) -> None:
    minitorch.manual_seed(0)
    w = minitorch.randn(3, 2, requires_grad=True)
    x, classes = minitorch.randn(8, 3), minitorch.tensor([0, 1] * 4)
    losses = []
    for _ in range(20):
        w.grad = None
        loss = minitorch.nn.functional.cross_entropy(x @ w, classes)
        loss.backward()
        losses.append(loss.item())
        with minitorch.no_grad():
            w.add_(w.grad, alpha=-0.5)
    assert type(w.array).__module__ == "torch"
    assert losses[-1] < losses[0]


def test_a_generator_stays_with_the_library_that_it_was_made_for() -> None:
    generator = minitorch.Generator().manual_seed(3)
    first = generator.normal((2,), minitorch.float32)
    use_library("cpu", "torch")
    try:
        generator.manual_seed(3)
    finally:
        use_library("cpu", "numpy")
    assert np.array_equal(generator.normal((2,), minitorch.float32), first)
    assert type(first) is np.ndarray


@pytest.mark.parametrize("value", [[1.0], None, np.ones(2)], ids=type)
def test_what_is_like_no_tensor_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(DTypeError, match=f"got {type(value).__name__}, expected a tensor"):
        minitorch.zeros_like(value)
