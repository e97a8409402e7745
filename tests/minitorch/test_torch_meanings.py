"""Calls whose meaning a reader of torch takes for granted: the same numbers, or both refuse."""

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import DTypeError, GradientError
from minitorch.graph import jit

Call = Callable[[Any], Any]


def both(call: Call) -> list[Any]:
    """Return what a call gives with torch and with minitorch, as arrays; None where refused."""
    outcomes: list[Any] = []
    for lib in (torch, minitorch):
        try:
            with warnings.catch_warnings(action="ignore"):
                values = call(lib)
        except (RuntimeError, TypeError, IndexError):
            outcomes.append(None)
            continue
        values = values if isinstance(values, tuple) else (values,)
        outcomes.append([v.detach().numpy() if hasattr(v, "detach") else v for v in values])
    return outcomes


def with_gradient(function: Callable[[Any, Any], Any], *shape: int) -> Call:
    """Return the call of a function of ones that gives its value and its gradient."""

    def call(lib: Any) -> Any:
        x = lib.ones(shape, dtype=lib.float64, requires_grad=True)
        y = function(lib, x)
        y.sum().backward()
        return y, x.grad

    return call


def ignored(lib: Any, x: Any, **options: Any) -> Any:
    return lib.nn.functional.cross_entropy(x, lib.tensor([-100, -100]), **options)


def copied_with_gradient(lib: Any) -> Any:
    x = lib.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    copied = copy.deepcopy(x)
    x.grad.zero_()
    return copied, copied.grad


def hooked(lib: Any, hook: Callable[[Any], Any]) -> Any:
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return x.grad


def put(x: Any, number: float = 2.5) -> Any:
    x[0] = number
    return x


EDGES = np.array([[1.0, -0.0, 0.0, np.nan], [6.0, 0.5, 0.5, -1.0], [np.nan] * 4, [-4, 3, 7, 0.5]])


def at_edges(function: Callable[[Any, Any], Any]) -> Call:
    """Return the call that gives the gradient where there are ties, bounds, zeros and NaN."""

    def call(lib: Any) -> Any:
        x = lib.tensor(EDGES, requires_grad=True)
        y = function(lib, x)
        weights = lib.linspace(1, 2, y.numel(), dtype=lib.float64).reshape(tuple(y.shape))
        return lib.autograd.grad((y * weights).sum(), [x])[0], y

    return call


AT_EDGES: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda lib, x: lib.abs(x),
    "sign": lambda lib, x: lib.sign(x) + x,
    "maximum": lambda lib, x: lib.maximum(x, lib.tensor([0.5], dtype=lib.float64)),
    "maximum of NaN": lambda lib, x: lib.maximum(x, x.flip(0)),
    "minimum": lambda lib, x: lib.minimum(x, x.flip(1)),
    "clamp": lambda lib, x: lib.clamp(x, -1, 0.5),
    "clamp of bounds the wrong way round": lambda lib, x: lib.clamp(x, 1, 0.5),
    "clamp by NaN": lambda lib, x: lib.clamp(x, np.nan, 1.0) + x,
    "clamp_min": lambda lib, x: lib.clamp(x, min=0.5),
    "clamp_max": lambda lib, x: lib.clamp(x, max=0.5),
    "clamp between values": lambda lib, x: lib.clamp(x, x.flip(0).nan_to_num(), x.flip(1) + 0.25),
    "clamp of bounds": lambda lib, x: lib.clamp(x.detach().flip(0), x.nan_to_num() - 1, x),
    "max": lambda lib, x: x.max() + x[1:2].max(),
    "min": lambda lib, x: x.min() + x[:1].nan_to_num().min(),
    "norm(inf)": lambda lib, x: x[3].norm(np.inf) + x[1].norm(-np.inf) + x.norm(np.inf),
    "norm(inf) of rows": lambda lib, x: lib.linalg.vector_norm(x, np.inf, 1),
    "clamp by a value with NaN": lambda lib, x: lib.clamp(x[1:2], x.detach(), x.detach() + 1),
    "atan2": lambda lib, x: lib.atan2(x, x.flip(1)),
    "remainder": lambda lib, x: lib.remainder(x, x.flip(1) + 3),
    "median": lambda lib, x: lib.median(x[1]) + lib.median(x),
    "lerp": lambda lib, x: lib.lerp(x * 1e16, x, 1.0),
} | {
    name: lambda lib, x, name=name: getattr(lib.nn.functional, name)(x)
    for name in ("relu6", "hardtanh")
} | {
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x[None], 2),
    "max_pool2d, overlapping": lambda lib, x: lib.nn.functional.max_pool2d(x[None], 3, 1, 1),
    "max_pool2d's indices": lambda lib, x: (
        lib.nn.functional.max_pool2d(x[None], 2, return_indices=True)[1] + x.sum()
    ),
    "l1_loss": lambda lib, x: lib.nn.functional.l1_loss(x, x.detach().flip(0)),
    "smooth_l1_loss": lambda lib, x: lib.nn.functional.smooth_l1_loss(x, x.detach() * 0),
    "huber_loss": lambda lib, x: lib.nn.functional.huber_loss(x, x.detach() * 0),
    "binary_cross_entropy": lambda lib, x: lib.nn.functional.binary_cross_entropy(
        lib.sigmoid(x[1::2] * 1e3), lib.zeros(2, 4, dtype=lib.float64)
    ),
    "binary_cross_entropy of 0 and 1": lambda lib, x: lib.nn.functional.binary_cross_entropy(
        (x > 0).double() + x.nan_to_num() * 0, lib.zeros(4, 4, dtype=lib.float64)
    ),
}  # fmt: skip

SAME: dict[str, Call] = {
    f"{name} of dim={dim}": lambda lib, name=name, dim=dim: getattr(lib, name)(
        lib.arange(6.0).reshape(2, 3), dim=dim
    )
    for name in ("sum", "mean", "amax", "amin", "std", "var", "nansum", "count_nonzero", "norm")
    for dim in ([], ())
} | {
    "log of a sum of nothing": with_gradient(lambda lib, x: lib.logsumexp(x, 1), 3, 0),
    "log of sums of no rows": with_gradient(lambda lib, x: lib.logsumexp(x, 0), 0, 3),
    "log of sums, none": with_gradient(lambda lib, x: lib.logsumexp(x, 1), 0, 3),
    "logs of sums, of which some are infinite": lambda lib: lib.logsumexp(
        lib.tensor([[1.0] * 40, [-np.inf] * 40, [np.inf] + [2.0] * 39, [np.nan] + [2.0] * 39]), 1
    ),
    "running sums of lines": with_gradient(lambda lib, x: lib.cumsum(x * x, 0), 3, 300),
    "running sums of lines in blocks": with_gradient(lambda lib, x: lib.cumsum(x, -2), 9, 4, 40),
    "only ignored targets of nll_loss": with_gradient(
        lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor([-100, -100])), 2, 3
    ),
    "logits of -inf": lambda lib: lib.nn.functional.cross_entropy(
        lib.tensor([[1.0, -np.inf, 2.0]]), lib.tensor([2])
    ),
    "logits of -inf, smoothed": lambda lib: lib.nn.functional.cross_entropy(
        lib.tensor([[1.0, -np.inf, 2.0]]), lib.tensor([2]), label_smoothing=0.1
    ),
    "a sum in another dtype": lambda lib: lib.ones(4099, dtype=lib.float16).sum(dtype=lib.float64),
    "log of the sum of all": lambda lib: lib.logsumexp(lib.ones(2, 3), (), True),
    "a number shifted": lambda lib: 2 << lib.tensor([1, 2]) | 64 >> lib.tensor([2, 4]),
    "a border of bfloat16": lambda lib: lib.nn.functional.pad(
        lib.ones(1, 2, dtype=lib.bfloat16), (1, 1), value=2.5
    ).float(),
    "windows of bfloat16": lambda lib: lib.autograd.grad(
        (x := lib.ones(4, dtype=lib.bfloat16, requires_grad=True)).unfold(0, 2, 1).sum(),
        [x],
        create_graph=True,
    )[0].float(),
    "a number put into bfloat16": lambda lib: put(
        lib.ones(3, dtype=lib.bfloat16, requires_grad=True).clone()
    ).float(),
    "nansum": lambda lib: lib.nansum(lib.tensor([[1.0, np.nan], [np.nan, 2.0]]), 1),
    "gradient of nansum": with_gradient(lambda lib, x: lib.nansum(x * x / (x - x)), 3),
    "only ignored targets": with_gradient(ignored, 2, 3),
    "only ignored targets, smoothed": with_gradient(
        lambda lib, x: ignored(lib, x, label_smoothing=0.1), 2, 3
    ),
    "only ignored targets, summed": with_gradient(
        lambda lib, x: ignored(lib, x, reduction="sum"), 2, 3
    ),
    "a function of NumPy's": lambda lib: np.exp(lib.tensor([1.0, 2.0])),
    "a NumPy function of two": lambda lib: np.maximum(np.ones(2), lib.tensor([0.5, 2.0])),
    "a NumPy scalar times a tensor": lambda lib: np.float32(2) * lib.tensor([1.0, 2.0]),
    "NumPy into an array": lambda lib: np.add(np.ones(2), lib.tensor([1.0, 2.0]), out=np.zeros(2)),
    "joined by NumPy": lambda lib: np.concatenate([lib.ones(2), np.zeros(1)]),
    "a number below 0 put into uint8": lambda lib: put(lib.tensor([1, 2], dtype=lib.uint8), -1),
    "a quotient rounded in place": lambda lib: (
        lib.tensor([-5, 5]).div_(3, rounding_mode="floor"),
        lib.tensor([-5.0, 5.0]).div_(3, rounding_mode="trunc"),
    ),
    "uint8 as a mask": lambda lib: lib.arange(6.0).reshape(3, 2)[
        lib.tensor([1, 0, 1], dtype=lib.uint8)
    ],
    "an array of uint8 as a mask": lambda lib: lib.arange(3.0)[np.array([1, 0, 1], np.uint8)],
    "Python's float as a dtype": lambda lib: (
        lib.zeros(2, dtype=float),
        lib.tensor([1]).to(float),
        lib.ones(2).sum(dtype=float),
    ),
    "Python's float as the dtype of arange": lambda lib: lib.arange(3, dtype=float),
    "a copy of a tensor with its gradient": lambda lib: copied_with_gradient(lib),
    "view of rows": lambda lib: lib.arange(6.0).reshape(2, 3)[1:].view(-1),
    "view of a row of columns": lambda lib: lib.arange(6.0).reshape(2, 3).t()[:, 0].view(3, 1),
    "view of an operator's result": lambda lib: lib.nn.functional.conv2d(
        lib.ones(9, 1, 3, 3), lib.ones(2, 1, 2, 2)
    ).view(9, -1),
}
REFUSED: dict[str, Call] = {
    "exp of NumPy, of what requires a gradient": lambda lib: np.exp(
        lib.ones(2, requires_grad=True)
    ),
    "a class below 0": lambda lib: lib.nn.functional.cross_entropy(
        lib.zeros(2, 3), lib.tensor([0, -1]), label_smoothing=0.1
    ),
    "a class below 0, each": lambda lib: lib.nn.functional.nll_loss(
        lib.zeros(2, 3), lib.tensor([0, -1]), reduction="none"
    ),
    "gather from the end": lambda lib: lib.zeros(2, 3).gather(1, lib.tensor([[0], [-1]])),
    "scatter from the end": lambda lib: lib.zeros(2, 3).scatter(1, lib.tensor([[-1]]), 1.0),
    "a target that is no probability": lambda lib: lib.nn.functional.binary_cross_entropy(
        lib.tensor([0.5]), lib.tensor([2.0])
    ),
    "a hook that gives a gradient of another shape": lambda lib: hooked(lib, lambda grad: grad[:2]),
    "infinity put into integers": lambda lib: put(lib.tensor([1, 2]), -np.inf),
    "too large a number put into uint8": lambda lib: put(lib.tensor([1, 2], dtype=lib.uint8), 300),
    "NaN into integers": lambda lib: lib.tensor([1, 2]).fill_(np.nan),
    "integers masked by infinity": lambda lib: lib.tensor([1, 2]).masked_fill(
        lib.tensor([True, False]), -np.inf
    ),
    "integers like infinity": lambda lib: lib.full_like(lib.tensor([1, 2]), np.inf),
    "a tensor full of text": lambda lib: lib.full((2,), "a"),
    "random numbers like a list": lambda lib: lib.rand_like([1]),
    "a number put that uint8 cannot hold": lambda lib: lib.zeros(3, dtype=lib.uint8).scatter(
        0, lib.tensor([1]), 300
    ),
    "random numbers of integers": lambda lib: lib.rand(2, dtype=lib.int64),
    "view of a transposed matrix": lambda lib: lib.ones(2, 3).t().view(6),
    "view of columns": lambda lib: lib.ones(2, 3)[:, 1:].view(-1),
    "view of an expanded tensor": lambda lib: lib.ones(2, 1).expand(2, 3).view(6),
    "matmul of two dtypes": lambda lib: lib.ones(2, 3) @ lib.ones(3, 2, dtype=lib.float64),
    "matmul of floats and integers": lambda lib: lib.ones(2, 3) @ lib.ones(3, 2, dtype=lib.int64),
    "dot of two dtypes": lambda lib: lib.dot(lib.ones(3), lib.ones(3, dtype=lib.float64)),
    "linear of two dtypes": lambda lib: lib.nn.functional.linear(
        lib.ones(2, 3), lib.ones(4, 3, dtype=lib.float64)
    ),
    "convolution of two dtypes": lambda lib: lib.nn.functional.conv2d(
        lib.ones(1, 1, 3, 3), lib.ones(1, 1, 2, 2, dtype=lib.float64)
    ),
    "einsum of two dtypes": lambda lib: lib.einsum(
        "ij,jk->ik", lib.ones(2, 3), lib.ones(3, 2, dtype=lib.float64)
    ),
    "bool minus bool": lambda lib: lib.tensor([True]) - lib.tensor([False]),
    "an integer over zero": lambda lib: lib.tensor([4, 5]) // lib.tensor([0, 2]),
    "an integer's rest by zero": lambda lib: lib.tensor([4, 5]) % 0,
    "an integer over zero, cut": lambda lib: lib.div(
        lib.tensor([4, 5]), lib.tensor([0, 2]), rounding_mode="trunc"
    ),
}


@pytest.mark.parametrize("index", [[[0, 2], [1, 1]], [minitorch.tensor(0), minitorch.tensor(1)]])
def test_a_list_that_torch_and_numpy_read_otherwise_is_no_index(index: list[Any]) -> None:
    x = minitorch.arange(6.0).reshape(3, 2)
    with pytest.raises(IndexError, match=r"Write x\[tuple\(index\)\]"):
        x[index]
    with pytest.raises(IndexError, match="index"):
        x[index] = 1.0
    assert x[tuple(index)].tolist() == x.numpy()[tuple(np.array(index))].tolist()


def test_a_view_of_another_dtype_says_what_to_do() -> None:
    x = minitorch.ones(2)
    with pytest.raises(TypeError, match=r"view: got int32, expected sizes\. .* x\.to\(dtype\)"):
        x.view(minitorch.int32)
    assert (
        minitorch.from_numpy(x.numpy().view("int32")).tolist()
        == torch.ones(2).view(torch.int32).tolist()
    )


def test_a_second_ellipsis_is_refused() -> None:
    with pytest.raises(IndexError, match="more than one Ellipsis"):
        minitorch.ones(2, 3)[..., ...]


@pytest.mark.parametrize("what", AT_EDGES)
def test_a_gradient_at_an_edge_is_torchs(what: str) -> None:
    expected, ours = both(at_edges(AT_EDGES[what]))
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("what", ["clamp", "clamp_min", "clamp between values", "max"])
def test_a_gradient_at_an_edge_is_torchs_in_compiled_code(what: str) -> None:
    def function(lib: Any, x: Any) -> Any:
        whole = functools.partial(AT_EDGES[what], lib)
        return whole(x) if lib is torch else jit(whole)(x)

    expected, ours = both(at_edges(function))
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("what", SAME)
def test_a_call_gives_what_torchs_gives(what: str) -> None:
    expected, ours = both(SAME[what])
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert np.shape(one) == np.shape(other)


@pytest.mark.parametrize("what", REFUSED)
def test_what_torch_refuses_is_refused(what: str) -> None:
    assert both(REFUSED[what]) == [None, None]


@pytest.mark.parametrize(
    "arguments",
    [{"args": (5,), "size": (1,)}, {"high": 9, "size": (2,)}, {"args": (2, 9), "size": (2, 3)},
     {"args": (5, (4,))}, {"args": (2, 9, (4,))}, {"low": 2, "high": 9, "size": (2,)}],
)  # fmt: skip
def test_randint_takes_its_arguments_as_torch_does(arguments: dict[str, Any]) -> None:
    options = {key: value for key, value in arguments.items() if key != "args"}
    theirs, ours = (
        lib.randint(*arguments.get("args", ()), **options) for lib in (torch, minitorch)
    )
    assert tuple(ours.shape) == tuple(theirs.shape)
    low = 2 if 2 in (*arguments.get("args", ()), options.get("low")) else 0
    high = 5 if 5 in arguments.get("args", ()) else 9
    assert low <= ours.min().item() and ours.max().item() < high


def test_an_array_beside_a_tensor_gives_a_tensor_that_is_followed() -> None:
    x = minitorch.ones(2, dtype=minitorch.float64, requires_grad=True)
    y = (np.array([3.0, 4.0]) * x - np.array([1.0, 1.0])) / np.array([2.0, 2.0])
    y.sum().backward()
    assert y.tolist() == [1.0, 1.5]
    assert x.grad.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_state_of_an_optimizer_is_read_and_written_as_torchs(name: str) -> None:
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    finals = []
    for lib in (torch, minitorch):
        w = lib.tensor(np.array([1.0, -2.0, 3.0]), requires_grad=True)
        optimizer = getattr(lib.optim, name)([w], lr=0.1, **options)
        for turn in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            state = optimizer.state[w]
            moments = {key: value for key, value in state.items() if getattr(value, "ndim", 0)}
            assert moments and all(lib.is_tensor(value) for value in moments.values())
            for key in moments:
                state[key].mul_(2)  # in place
                if turn:
                    state[key] = lib.zeros(3, dtype=lib.float64) + 0.5  # another
        finals.append(w.detach().numpy())
    np.testing.assert_allclose(finals[1], finals[0], rtol=1e-9)


def test_a_determinant_of_0_has_an_infinite_gradient_and_its_neighbours_their_own() -> None:
    grads = []
    for lib in (torch, minitorch):
        x = lib.tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 1.0], [0.0, 2.0]]], requires_grad=True)
        lib.slogdet(x)[1].sum().backward()
        grads.append(np.abs(x.grad.numpy()))
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


@pytest.mark.parametrize("last", [1.0, 1e-6, 0.0])
def test_the_gradient_of_det_has_all_digits_however_nearly_singular_a_matrix_is(
    last: float,
) -> None:
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    x = minitorch.tensor(np.float32((left * [2, 1, last]) @ right), requires_grad=True)
    minitorch.linalg.det(x).backward()
    a, b, c = x.detach().numpy().astype(float)
    cofactors = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)])
    np.testing.assert_allclose(x.grad.numpy(), cofactors, atol=1e-6)


@pytest.mark.parametrize("n", [200, 4096, 5000])
def test_sums_of_rows_round_as_a_tree_of_sums_does(n: int) -> None:
    x = minitorch.full((40, n), 0.1)
    for sums in (x.sum(-1), x.mean(-1) * n, x.norm(dim=-1) ** 2 * 10):
        np.testing.assert_allclose(sums.numpy(), np.float64(np.float32(0.1)) * n, 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_an_einsum_of_two_operands_is_torchs_with_its_gradients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = ("".join(rng.permutation(list("abcd"))[: rng.integers(1, 5)]) for _ in range(2))
    letters = sorted({*left, *right})
    result = "".join(rng.permutation(letters)[: rng.integers(len(letters) + 1)])
    sizes = dict(zip("abcd", rng.integers(1, 5, 4), strict=True))
    arrays = [rng.standard_normal([sizes[c] for c in term]) for term in (left, right)]

    def call(lib: Any) -> Any:
        a, b = (lib.tensor(array, requires_grad=True) for array in arrays)
        y = lib.einsum(f"{left},{right}->{result}", a, b)
        (y * y).sum().backward()
        return y, a.grad, b.grad

    theirs, ours = both(call)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (lambda library: 1.5, IndexError),
        (lambda library: library.tensor([1.0]), IndexError),
        (lambda library: library.ones(3, dtype=library.bool), IndexError),
        (lambda library: slice(None, None, -1), ValueError),
    ],
    ids=["a float", "floats", "a mask too long", "a step back"],
)
def test_an_index_that_cannot_be_raises_what_torch_raises(
    index: Callable[[Any], Any], error: type[Exception]
) -> None:
    for library in (torch, minitorch):
        with pytest.raises(error):
            library.zeros(2, 4)[index(library)]


def test_a_number_in_a_text_is_written_as_a_number() -> None:
    for library in (torch, minitorch):
        loss, steps, losses = library.tensor(0.5), library.tensor(3), library.ones(2)
        assert f"{loss} {loss:.2f} {steps} {steps:03d}" == "0.5 0.50 3 003"
        assert f"{losses}" == repr(losses)
        with pytest.raises(TypeError, match="format"):
            f"{losses:.2f}"


def test_what_torch_refuses_gives_no_numbers() -> None:
    for library in (torch, minitorch):
        with pytest.raises(RuntimeError):
            library.normal(0.0, -1.0, (2,))
        with pytest.raises(RuntimeError):
            library.nn.functional.one_hot(library.tensor([1.0]), 2)


def exchanged(lib: Any) -> dict[str, Any]:
    """Return tensors of a library as other libraries take them: views, one number, none."""
    x = lib.arange(12).reshape(3, 4)
    half = lib.float16
    views = {"a view": x[::2, 1:], "turned": x.T, "one row for three": x[:1].expand(3, 4)}
    return {**views, "a number": x.sum(), "nothing": x[:0], "halves": x.to(half), "bools": x > 4}


@pytest.mark.parametrize("take", [torch.tensor, torch.from_dlpack, np.from_dlpack])
@pytest.mark.parametrize("kind", exchanged(torch))
def test_other_libraries_take_tensors(take: Callable[[Any], Any], kind: str) -> None:
    ours, theirs = exchanged(minitorch)[kind], exchanged(torch)[kind]
    taken = take(ours)
    assert str(taken.dtype).removeprefix("torch.") == str(ours.dtype)
    assert np.array_equal(np.asarray(taken), theirs.numpy())


def test_memory_is_shared_with_other_libraries() -> None:
    ours = minitorch.zeros(3)
    torch.from_dlpack(ours)[0] = 1
    theirs = torch.zeros(3)
    minitorch.from_dlpack(theirs)[1] = 2
    assert (ours.tolist(), theirs.tolist()) == ([1, 0, 0], [0, 2, 0])
    assert np.shares_memory(minitorch.from_dlpack(ours).numpy(), ours.numpy())


def test_torch_takes_an_array_that_runs_backwards() -> None:
    backwards = minitorch.from_numpy(np.arange(3)[::-1])
    assert torch.from_dlpack(backwards).tolist() == [2, 1, 0]


def test_what_other_libraries_cannot_take_is_refused() -> None:
    with pytest.raises(GradientError, match=r"Use \.detach"):
        torch.tensor(minitorch.ones(2, requires_grad=True))
    with pytest.raises(DTypeError, match="bfloat16"):
        torch.tensor(minitorch.ones(2, dtype=minitorch.bfloat16))
    with pytest.raises(DTypeError, match=r"from_dlpack: got a list, .* Use minitorch\.tensor"):
        minitorch.from_dlpack([1, 2])
    with pytest.raises(DTypeError, match=r"got an input of type torch\.Tensor, .* of minitorch"):
        minitorch.ones(2) + torch.ones(2)  # type: ignore[operator]
