"""bfloat16: stored in two bytes, computed in float32, and rounded as PyTorch rounds."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import nn
from minitorch.arrays.bfloat16 import Halves, bits, to_bfloat16, to_float32
from minitorch.arrays.library import use_library
from minitorch.errors import DTypeError

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
]  # fmt: skip


def pair(shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed).normal(size=shape)
    return minitorch.tensor(numbers).bfloat16(), torch.tensor(numbers).bfloat16()


def assert_same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    assert f"torch.{ours.dtype}" == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    a, b = ours.detach().double().numpy(), theirs.detach().double().numpy()
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_every_pattern_is_the_number_that_torch_says() -> None:
    patterns = np.arange(2**16).astype(np.uint16)
    mine = to_float32(patterns.view(Halves))
    theirs = torch.tensor(patterns.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(mine, theirs)
    back = bits(to_bfloat16(mine))
    numbers = ~np.isnan(mine)
    np.testing.assert_array_equal(back[numbers], patterns[numbers])
    assert np.isnan(to_float32(to_bfloat16(mine[~numbers]))).all()


def test_numbers_are_rounded_as_torch_rounds() -> None:
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    wide[:1000] = (wide[:1000] & 0xFFFF0000) | 0x8000  # ties
    numbers = wide.view(np.float32)
    numbers = np.append(numbers, np.float32([np.inf, -np.inf, 3.4e38, -0.0, 1e-45]))
    theirs = torch.tensor(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(to_float32(to_bfloat16(numbers)), theirs)
    for array in (rng.normal(size=99), rng.integers(-(2**40), 2**40, 99), rng.normal(size=9) > 0):
        ours, want = minitorch.tensor(array).bfloat16(), torch.tensor(array).bfloat16()
        assert_same(ours, want)


@pytest.mark.parametrize("other", DTYPES)
def test_promotion_is_torchs(other: str) -> None:
    half, kind = minitorch.bfloat16, getattr(minitorch, other)
    want = torch.promote_types(torch.bfloat16, getattr(torch, other))
    assert str(want) == f"torch.{minitorch.promote_types(half, kind)}"
    assert str(want) == f"torch.{minitorch.promote_types(kind, half)}"
    for left, right in (((2,), (2,)), ((2,), ()), ((), (2,))):
        results = [
            lib.ones(left, dtype=lib.bfloat16) + lib.ones(right, dtype=getattr(lib, other))
            for lib in (minitorch, torch)
        ]
        assert_same(*results)


UNARY = [
    lambda x: x + 1, lambda x: x * 0.1, lambda x: 0.5 - x, lambda x: x / 3, lambda x: -x,
    lambda x: x.abs().sqrt(), lambda x: x > 0, lambda x: x.long(), lambda x: x.argmax(-1),
    lambda x: x.T, lambda x: x[1:, ::2], lambda x: x.reshape(-1)[3], lambda x: x.float(),
    lambda x: x[:, [2, 0, 0]], lambda x: x.double(), lambda x: x.flip(0), lambda x: x.sort(-1)[0],
    lambda x: x.max(), lambda x: x.masked_fill(x > 0, 0.1), lambda x: x.clone(), lambda x: x.relu(),
    lambda x: x.unsqueeze(0).expand(2, -1, -1), lambda x: x.round(), lambda x: x == x.max(),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(UNARY)))
def test_an_operator_of_one_tensor_gives_torchs_bits(case: int) -> None:
    ours, theirs = pair((4, 6))
    assert_same(UNARY[case](ours), UNARY[case](theirs))


BINARY = [
    lambda lib, x, y: x + y, lambda lib, x, y: x * y, lambda lib, x, y: x - y,
    lambda lib, x, y: x / y, lambda lib, x, y: lib.maximum(x, y), lambda lib, x, y: x < y,
    lambda lib, x, y: lib.where(x > 0, x, y), lambda lib, x, y: lib.cat([x, y]),
    lambda lib, x, y: lib.stack([x, y], -1), lambda lib, x, y: x + y.float(),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BINARY)))
def test_an_operator_of_two_tensors_gives_torchs_bits(case: int) -> None:
    (a, x), (b, y) = pair((4, 6)), pair((4, 6), seed=1)
    assert_same(BINARY[case](minitorch, a, b), BINARY[case](torch, x, y))


@pytest.mark.parametrize("name", ["sum", "mean", "exp", "tanh", "sigmoid", "logsumexp", "softmax"])
def test_sums_and_curves_are_torchs_to_a_rounding(name: str) -> None:
    dim = (-1,) if name in ("logsumexp", "softmax") else ()
    ours, theirs = (getattr(x, name)(*dim) for x in pair((4, 6)))
    assert_same(ours, theirs, rtol=2**-7)


def model(lib: Any) -> Any:
    return lib.nn.Sequential(
        lib.nn.Embedding(10, 8),
        lib.nn.LayerNorm(8),
        lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
        lib.nn.Linear(8, 10),
    )


def test_a_network_in_bfloat16_gives_torchs_results_and_gradients() -> None:
    torch.manual_seed(0)
    theirs = model(torch).to(torch.bfloat16)
    ours = model(minitorch).to(minitorch.bfloat16)
    ours.load_state_dict(
        {k: minitorch.tensor(v.float().numpy()).bfloat16() for k, v in theirs.state_dict().items()}
    )
    ids = np.random.default_rng(0).integers(0, 10, (3, 5))
    results = []
    for lib, net in ((minitorch, ours), (torch, theirs)):
        logits = net(lib.tensor(ids))
        assert logits.dtype == lib.bfloat16
        loss = lib.nn.functional.cross_entropy(logits.reshape(-1, 10), lib.tensor(ids.reshape(-1)))
        loss.backward()
        grads = [p.grad for _, p in sorted(net.named_parameters())]
        assert {g.dtype for g in grads} == {lib.bfloat16}
        results.append([loss.detach(), *grads])
    for a, b in zip(*results, strict=True):
        want = b.float().numpy()
        scale = abs(want).max() + 1e-3
        np.testing.assert_allclose(a.float().numpy(), want, rtol=0.05, atol=0.03 * scale)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adadelta", "RMSprop", "Adagrad"])
def test_parameters_in_bfloat16_train_in_place(name: str) -> None:
    minitorch.manual_seed(0)
    net = nn.Linear(4, 1, dtype=minitorch.bfloat16)
    memory = net.weight.array
    x = minitorch.randn(64, 4, dtype=minitorch.bfloat16)
    target = x.sum(-1, keepdim=True)
    rate = 1.0 if name == "Adadelta" else 0.05
    optimizer = getattr(minitorch.optim, name)(net.parameters(), lr=rate)
    losses = []
    for _ in range(30):
        loss = ((net(x) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert net.weight.array is memory
    assert net.weight.dtype == minitorch.bfloat16


def test_a_view_shares_memory_and_updates_are_in_place() -> None:
    for lib in (minitorch, torch):
        x = lib.zeros(2, 3, dtype=lib.bfloat16)
        x.view(-1)[1:3].fill_(1.1)
        x.T[2].add_(2)
        x[1] = lib.ones(3)
        x[0, 0] = 0.3
        x += 1
        x.mul_(lib.tensor([1.0, 2.0, 3.0]))
        x[:, 1] /= 3
        assert x.dtype == lib.bfloat16
        want = x.float().tolist() if lib is minitorch else want  # noqa: F821
        assert x.float().tolist() == want


def test_an_update_of_what_backward_needs_is_noticed() -> None:
    w = nn.Parameter(minitorch.ones(3).bfloat16())
    y = w * 1
    z = (y * y).sum()
    y.view(-1)[:1].detach().fill_(0.0)
    with pytest.raises(minitorch.errors.ModifiedInPlace):
        z.backward()


def test_second_derivatives_pass_through() -> None:
    x = minitorch.tensor([1.0, 2.0]).bfloat16().requires_grad_()
    (first,) = minitorch.grad((x**3).sum(), x, create_graph=True)
    (second,) = minitorch.grad(first.sum(), x)
    assert first.dtype == minitorch.bfloat16
    assert second.tolist() == [6.0, 12.0]


def test_it_is_made_shown_copied_and_counted() -> None:
    x = minitorch.tensor([1.0, 2.5], dtype=minitorch.bfloat16)
    assert repr(x) == "tensor([1.0000, 2.5000], dtype=bfloat16)"
    assert x.dtype is minitorch.bfloat16 is pickle.loads(pickle.dumps(x.dtype))
    assert (x.element_size(), x.nbytes, x.array.nbytes) == (2, 4, 4)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.to("bfloat16")):
        assert again.dtype == minitorch.bfloat16
        assert again.tolist() == [1.0, 2.5]
    for made in (
        minitorch.zeros(2, dtype=minitorch.bfloat16),
        minitorch.full((2,), 0.1, dtype="bfloat16"),
        minitorch.arange(2, dtype=minitorch.bfloat16),
        minitorch.randn(2, dtype=minitorch.bfloat16),
        minitorch.rand_like(x),
        minitorch.zeros_like(x),
        x.new_ones(2),
        x.new_tensor([1.0, 2.0]),
        minitorch.BFloat16Tensor([1.0, 2.0]),
        x.unique(),
    ):
        assert made.dtype == minitorch.bfloat16
        assert made.shape == (2,)
    assert x.is_floating_point()
    assert float(x[1]) == 2.5


def test_what_numpy_cannot_have_is_refused() -> None:
    x = minitorch.ones(2).bfloat16()
    for refused in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(DTypeError, match=r"NumPy has no bfloat16. Use .float\(\).numpy\(\)"):
            refused()
    with pytest.raises(DTypeError, match="expected a floating dtype of NumPy's"):
        minitorch.set_default_dtype(minitorch.bfloat16)


def test_the_patterns_are_never_taken_for_numbers() -> None:
    """Whatever NumPy is asked of the array itself, it computes on the numbers."""
    halves = to_bfloat16(np.float32([1.0, 2.0, 3.0]))
    assert (halves + 1).tolist() == [2.0, 3.0, 4.0]
    assert np.sum(halves) == np.add.reduce(halves) == 6.0
    assert np.concatenate([halves, halves]).tolist() == [1.0, 2.0, 3.0] * 2
    assert np.where([True, False, True], halves, 0).tolist() == [1.0, 0.0, 3.0]
    assert halves.astype(np.int64).tolist() == [1, 2, 3]
    halves[1] = 0.5
    halves *= 2
    assert to_float32(halves).tolist() == [2.0, 1.0, 6.0]
    assert to_float32(halves[0]).tolist() == 2.0
    with pytest.raises(TypeError):
        np.add.at(halves, [0], 1)


def test_files_hold_it_and_others_read_it(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    ours, theirs = pair((3, 4))
    stream = io.BytesIO()
    minitorch.save({"x": ours, "t": ours.T, "n": [1]}, stream)
    stream.seek(0)
    back = minitorch.load(stream)
    assert back["x"].dtype == minitorch.bfloat16
    assert (back["x"].tolist(), back["t"].tolist()) == (ours.tolist(), ours.T.tolist())
    minitorch.save({"x": ours}, tmp_path / "ours")
    assert torch.equal(load_file(tmp_path / "ours")["x"], theirs)
    save_file({"x": theirs}, tmp_path / "theirs")
    assert minitorch.load(tmp_path / "theirs")["x"].tolist() == ours.tolist()


def test_a_device_whose_library_has_it_uses_its_own() -> None:
    use_library("cpu", "torch")
    try:
        x = minitorch.tensor([1.1, 2.0]).bfloat16()
        assert x.array.dtype == torch.bfloat16
        assert x.dtype is minitorch.bfloat16
        assert (x * 2).dtype is minitorch.bfloat16
        assert x.tolist() == [1.1015625, 2.0]
        assert pickle.loads(pickle.dumps(x)).dtype is minitorch.bfloat16
        stream = io.BytesIO()
        minitorch.save([x, minitorch.ones(2)], stream)
        stream.seek(0)
        assert [value.dtype.name for value in minitorch.load(stream)] == ["bfloat16", "float32"]
        assert minitorch.zeros(2, dtype=minitorch.bfloat16).array.dtype == torch.bfloat16
    finally:
        use_library("cpu", "numpy")


@pytest.mark.parametrize("make", [lambda x: x * 0.1, lambda x: x.float().bfloat16() + 1])
def test_a_graph_refuses_it_and_compile_does_without_a_graph(make: Any) -> None:
    x = minitorch.tensor([1.0, 2.0]).bfloat16()
    for value in (x, x.float()):
        if make(value).dtype == minitorch.bfloat16:
            compiled = minitorch.compile(make)
            assert compiled(value).tolist() == make(value).tolist()
            assert compiled.eager
            with pytest.raises(minitorch.errors.GraphError, match="a graph has no bfloat16"):
                minitorch.compile(make, fullgraph=True)(value)
    inside = nn.Linear(2, 2).bfloat16()
    assert minitorch.compile(inside)(x).dtype == minitorch.bfloat16


def converted(value: Any, make: Any) -> Any:
    """The value with every tensor in it made anew."""
    if isinstance(value, torch.Tensor):
        return make(value)
    if isinstance(value, list | tuple):
        return type(value)(converted(item, make) for item in value)
    return {k: converted(v, make) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.slow
def test_every_operator_that_torch_has_in_bfloat16_gives_its_dtype_and_its_numbers(
    agreement: Any,
) -> None:
    """Numbers as torch's in float32: within the rounding of a few results to eight digits."""
    from torch.testing._internal.common_methods_invocations import op_db

    def ours(t: Any) -> Any:
        if t.dtype != torch.bfloat16:
            return agreement.to_ours(t)
        return minitorch.tensor(t.detach().float().numpy()).bfloat16()

    def wide(t: Any) -> Any:
        return t.detach().float() if t.dtype == torch.bfloat16 else t

    checked, wrong = set(), []
    skipped = agreement.RANDOM | agreement.NOT_OPERATORS | {"floor_divide", "empty_strided"}
    for op in op_db:
        function = agreement.find(op.name)
        variants = op.variant_test_name or torch.bfloat16 not in op.supported_dtypes("cpu")
        if function is None or op.name in skipped or variants:
            continue
        sample = next(agreement.samples_of(op, torch.bfloat16, False))
        everything = (sample.input, sample.args, sample.kwargs)
        try:
            kind = op(sample.input, *sample.args, **sample.kwargs)
            x, args, kwargs = converted(everything, wide)
            want = op(x, *args, **kwargs)
            x, args, kwargs = converted(everything, lambda t: agreement.to_ours(wide(t)))
            function(x, *args, **kwargs)
        except Exception:  # not an operator of float32 either: judged elsewhere
            continue
        if not isinstance(want, torch.Tensor) or not want.is_floating_point():
            continue
        x, args, kwargs = converted(everything, ours)
        got = function(x, *args, **kwargs)
        checked.add(op.name)
        a, b = got.double().numpy(), want.double().numpy()
        if f"torch.{got.dtype}" != str(kind.dtype) or not np.allclose(a, b, 0.05, 0.05, True):
            wrong.append(op.name)
    assert not wrong
    assert len(checked) > 150


@pytest.mark.parametrize(
    "function",
    [
        lambda lib, x: lib.var(x),
        lambda lib, x: lib.std(x, 1),
        lambda lib, x: lib.xlogy(x, x + 1),
        lambda lib, x: lib.xlogy(x, 2.0),
        lambda lib, x: 2.0**x,
        lambda lib, x: x.cos() * x.float(),
        lambda lib, x: lib.nn.functional.cross_entropy(x, lib.softmax(x, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_both_orders_have_the_dtype_of_their_tensor(function: Any, dtype: str) -> None:
    array = np.random.default_rng(0).uniform(0.5, 1.5, (4, 5))

    def results(lib: Any) -> list[Any]:
        x = lib.tensor(array).to(getattr(lib, dtype)).requires_grad_(True)
        (plain,) = lib.autograd.grad((function(lib, x) ** 2).sum(), x)
        (first,) = lib.autograd.grad((function(lib, x) ** 2).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), x)
        return [plain, first.detach(), second]

    for got, want in zip(results(minitorch), results(torch), strict=True):
        assert str(got.dtype) == str(want.dtype).removeprefix("torch.")
        scale = float(want.double().abs().max())
        np.testing.assert_allclose(got.double(), want.double(), atol=0.05 * scale)
