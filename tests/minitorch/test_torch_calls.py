"""Calls that torch's own samples leave out: other dtypes, edges, wrong input, modules, graphs."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import graph
from minitorch.errors import ArgumentError, DTypeError, MinitorchError

Call = Callable[[Any], Any]
ROWS = np.array([[3, -1, 3], [0, 3, -2], [7, 7, -7]])
NAN = np.array([1.0, np.nan, 3.0, np.nan, 2.0], np.float32)
POINTS = np.random.default_rng(0).normal(size=(99, 3)).astype(np.float32)
IMAGE = np.random.default_rng(1).normal(size=(2, 3, 5, 7)).astype(np.float32)
MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is no tuple in a result, in order."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def outcome(call: Call, lib: Any) -> Any:
    """Return the values of a call as (dtype, array), None where it is refused."""
    try:
        with warnings.catch_warnings(action="ignore"):
            found = list(leaves(call(lib)))
    except (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return [
        (str(v.dtype).removeprefix("torch."), v.detach().numpy()) if lib.is_tensor(v) else (v, v)
        for v in found
    ]


def scattered(reduce: str, include: bool, dtype: str) -> Call:
    return lambda lib: lib.tensor(ROWS.astype(dtype)).scatter_reduce(
        1,
        lib.tensor([[0, 0, 2], [1, 1, 1], [2, 0, 0]]),
        lib.tensor(ROWS[::-1].astype(dtype).copy()),
        reduce,
        include_self=include,
    )


def resized(mode: str, **options: Any) -> Call:
    return lambda lib: lib.nn.functional.interpolate(lib.tensor(IMAGE), mode=mode, **options)


def of(name: str, *args: Any, array: Any = ROWS, **options: Any) -> Call:
    return lambda lib: getattr(lib, name)(lib.tensor(array), *args, **options)


def sloped(name: str, a: Any, b: Any, dtype: str) -> Call:
    """The function of two values and its gradients, of 256 elements or more by a kernel."""

    def call(lib: Any) -> Any:
        values = [lib.tensor(v).to(getattr(lib, dtype)).requires_grad_(True) for v in (a, b)]
        out = getattr(lib, name)(*values)
        return (out, *lib.autograd.grad(out.sum(), values))

    return call


def masked(mask: Call) -> Call:
    """Attention of two heads, over two rows of four queries and five keys, with a mask."""

    def call(lib: Any) -> Any:
        q, kv = lib.ones(2, 4, 6), lib.ones(2, 5, 6)
        return lib.nn.MultiheadAttention(6, 2, batch_first=True)(q, kv, kv, attn_mask=mask(lib))

    return call


NO_NUMBER = np.where(IMAGE.max() == IMAGE, np.nan, IMAGE)
SAME: dict[str, Call] = {
    **{
        f"{name} of {dtype} along {dim}": of(name, dim, array=ROWS.astype(dtype))
        for name in ("cummax", "cummin", "diff")
        for dtype in ("int8", "int64", "float32", "bool", "uint8")
        for dim in (0, 1)
    },
    **{f"{name} of NaN": of(name, 0, array=NAN) for name in ("cummax", "cummin")},
    "diff of bools": of("diff", array=ROWS > 2),
    "diff, twice, between others": lambda lib: lib.diff(
        lib.tensor(ROWS), 2, 0, lib.tensor(ROWS[:1]), lib.tensor(ROWS[1:])
    ),
    "fmod of integers": of("fmod", 2),
    "fmod of signs": lambda lib: lib.fmod(lib.tensor([-5.5, 5.5, 7.0]), lib.tensor([2, -2, 0])),
    "fmod in place": lambda lib: lib.tensor(ROWS).fmod_(2),
    **{
        f"{name} and gradients of {dtype} by {np.shape(b)}": sloped(name, POINTS.T * 9, b, dtype)
        for name in ("fmod", "remainder")
        for dtype in ("float32", "float64")
        for b in (POINTS.T - 0.5, np.full((3, 1), -0.75), np.array(0.75), np.zeros(99))
    },
    "frac": of("frac", array=POINTS),
    **{
        f"scatter_reduce {reduce} {include} {dtype}": scattered(reduce, include, dtype)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
        for dtype in ("float32", "int64", "int32")
    },
    "index_fill of integers": lambda lib: lib.tensor(ROWS).index_fill(1, lib.tensor([0, -1]), 9),
    "index_fill in place": lambda lib: lib.tensor(ROWS).index_fill_(0, lib.tensor([1]), 2),
    "take from the end": lambda lib: lib.take(lib.tensor(ROWS), lib.tensor([[0, -1], [4, 4]])),
    **{
        f"tensor_split at {cut}": of("tensor_split", cut, 1)
        for cut in (1, 2, 5, (1, 1), (0, 5), (2, 1), [-1], ())
    },
    "tensor_split at a tensor": lambda lib: lib.tensor(ROWS).tensor_split(lib.tensor([1, 2])),
    "tensordot of integers": lambda lib: lib.tensordot(lib.tensor(ROWS), lib.tensor(ROWS), 1),
    "tensordot over axes": lambda lib: lib.tensordot(
        lib.tensor(IMAGE), lib.tensor(IMAGE), ([0, 3], [0, -1])
    ),
    "tensordot over nothing": lambda lib: lib.tensordot(lib.tensor(ROWS), lib.tensor(ROWS), 0),
    **{
        f"cdist {p} {mode}": lambda lib, p=p, mode=mode: lib.cdist(
            lib.tensor(POINTS), lib.tensor(POINTS[:4] + 1), p, mode
        )
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, math.inf)
        for mode in ("use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist")
    },
    "cosine_similarity": lambda lib: lib.cosine_similarity(
        lib.tensor(POINTS), lib.tensor(POINTS[:1]), dim=-1
    ),
    "CosineSimilarity": lambda lib: lib.nn.CosineSimilarity(0, 1e-3)(
        lib.tensor(POINTS), lib.tensor(POINTS * 2)
    ),
    **{
        f"{mode} {options}": resized(mode, **options)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
        for options in (
            {"size": (9, 3)},
            {"size": 1},
            {"scale_factor": 2},
            {"scale_factor": (0.7, 1.3)},
            {"scale_factor": 1.3, "recompute_scale_factor": True},
        )
    },
    **{
        f"{mode} by corners {size}": resized(mode, size=size, align_corners=True)
        for mode in ("bilinear", "bicubic")
        for size in ((1, 14), (10, 2), (5, 7))
    },
    "NaN stays with its neighbours": lambda lib: lib.isnan(
        lib.nn.functional.interpolate(lib.tensor(NO_NUMBER), scale_factor=2, mode="bilinear")
    ),
    "Upsample": lambda lib: lib.nn.Upsample(scale_factor=3, mode="bilinear", align_corners=True)(
        lib.tensor(IMAGE)
    ),
    **{
        f"matrix norm {order}": lambda lib, order=order: lib.linalg.norm(lib.tensor(IMAGE), order)
        for order in ("fro", None)
    },
    **{
        f"norm of a matrix {order}": lambda lib, order=order: lib.linalg.norm(
            lib.tensor(MATRIX), order
        )
        for order in ("fro", "nuc", None, 1, -1, 2, -2, math.inf, -math.inf)
    },
    "determinants": lambda lib: (
        lib.linalg.det(lib.tensor(MATRIX)),
        lib.tensor(MATRIX - 5).slogdet(),
        lib.linalg.slogdet(lib.zeros(2, 2)),
    ),
    "solve": lambda lib: (
        lib.linalg.solve(lib.tensor(MATRIX), lib.tensor(MATRIX[0])),
        lib.linalg.solve(lib.tensor(MATRIX), lib.tensor(POINTS[:5, :2]), left=False),
    ),
    "eigenvalues": lambda lib: lib.linalg.eigh(lib.tensor(MATRIX)).eigenvalues,
    "singular values, and shapes": lambda lib: (
        lib.linalg.svd(lib.tensor(POINTS)).S,
        lib.linalg.svd(lib.tensor(POINTS)).U.shape,
        lib.linalg.svd(lib.tensor(POINTS), full_matrices=False).U.shape,
    ),
    **{
        f"result_type {a} {b}": lambda lib, a=a, b=b: str(
            lib.result_type(*(v if isinstance(v, int | float) else lib.tensor(v) for v in (a, b)))
        ).removeprefix("torch.")
        for a, b in itertools.product(
            [1, 2.0, True, (1,), (1.5,), (True,), ((1, 2),), ()], [1.0, 3, (2.5,), (1,)]
        )
    },
}
REFUSED: dict[str, Call] = {
    **{
        f"subtraction of bools {i}": call
        for i, call in enumerate(
            [
                lambda lib: lib.tensor([True]) - 1,
                lambda lib: 1 - lib.tensor([True]),
                lambda lib: lib.tensor([True]) - lib.tensor([1.0]),
                lambda lib: lib.tensor([1]) - lib.tensor([True]),
                lambda lib: lib.tensor([1.0]) - True,
                lambda lib: lib.tensor([1]).sub_(True),
                lambda lib: lib.tensor([True]).sub(1, alpha=2),
                lambda lib: lib.tensor(True) - lib.tensor(1.5),
            ]
        )
    },
    "fmod by zero": of("fmod", 0),
    "index_fill with floats as places": lambda lib: lib.ones(3).index_fill(0, lib.ones(1), 1),
    "index_fill beyond the end": lambda lib: lib.ones(3).index_fill(0, lib.tensor([3]), 1),
    "index_fill with several": lambda lib: lib.ones(3).index_fill(
        0, lib.tensor([0, 1]), lib.ones(2)
    ),
    "take beyond the end": of("take", torch.tensor([9])),
    "take by floats": lambda lib: lib.take(lib.ones(3), lib.ones(1)),
    "scatter_reduce by another": scattered("median", True, "float32"),
    "scatter_reduce of two dtypes": lambda lib: lib.ones(2).scatter_reduce(
        0, lib.tensor([0]), lib.tensor([1]), "sum"
    ),
    "tensor_split into none": of("tensor_split", 0),
    "tensor_split of a number": lambda lib: lib.tensor(1.0).tensor_split(2),
    "diff of a number": lambda lib: lib.tensor(1.0).diff(),
    "diff, minus once": of("diff", -1),
    "tensordot of other sizes": lambda lib: lib.tensordot(lib.ones(2, 3), lib.ones(2, 3), 1),
    "tensordot over axes unalike": lambda lib: lib.tensordot(
        lib.ones(2, 2), lib.ones(2, 2), ([0, 1], [0])
    ),
    "cdist of other sizes": lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(2, 4)),
    "cdist of -1": lambda lib: lib.cdist(lib.ones(2, 3), lib.ones(2, 3), -1.0),
    "resizing to nothing": resized("bilinear", size=(0, 3)),
    "resizing by nothing": resized("bilinear"),
    "resizing by both": resized("bilinear", size=3, scale_factor=2.0),
    "resizing of other axes": resized("linear", size=3),
    "resizing by another mode": resized("cubic", size=3),
    "corners of the nearest": resized("nearest", size=3, align_corners=True),
    "resizing by three factors": resized("area", scale_factor=(1.0, 2.0, 3.0)),
    "the determinant of no square": lambda lib: lib.linalg.det(lib.ones(2, 3)),
    "the determinant of integers": lambda lib: lib.linalg.det(lib.tensor(ROWS)),
    "solving with a singular matrix": lambda lib: lib.linalg.solve(lib.ones(2, 2), lib.ones(2)),
    "the inverse of a singular matrix": lambda lib: lib.linalg.inv(lib.zeros(2, 2)),
    "solving for other rows": lambda lib: lib.linalg.solve(lib.ones(2, 2), lib.ones(3, 1)),
    "solving in two dtypes": lambda lib: lib.linalg.solve(
        lib.tensor(MATRIX), lib.ones(2, 1, dtype=lib.float64)
    ),
    "another triangle": lambda lib: lib.linalg.eigh(lib.tensor(MATRIX), "M"),
    "the norm of three axes": lambda lib: lib.linalg.norm(lib.ones(2, 2, 2), 1),
    "another norm": lambda lib: lib.linalg.norm(lib.ones(2, 2), 3),
    "a grid of matrices": lambda lib: lib.meshgrid(lib.ones(2, 3), lib.ones(2), indexing="ij"),
    "draws by weights that are infinite": lambda lib: lib.tensor([math.inf, 1.0]).multinomial(1),
    "whole numbers up to two and a half": lambda lib: lib.randint(0, 2.5, (2,)),
    "draws from a number": lambda lib: lib.tensor(3.0).multinomial(1),
    "an equation with a number": lambda lib: lib.einsum("i1->i", lib.ones(3, 1)),
    "one mask for each row, not for each head": masked(lambda lib: lib.zeros(2, 4, 5)),
    "a mask of one row": masked(lambda lib: lib.zeros(1, 5)),
    "sizes that are no whole numbers": lambda lib: lib.zeros(5 / 2, 3),
    "one size that is no whole number": lambda lib: lib.nn.Linear(4 / 2, 3),
    "a shape that is no whole numbers": lambda lib: lib.ones(6).view(6 / 2, 2),
    "an axis that is no whole number": lambda lib: lib.ones(2, 2).transpose(0.0, 1),
    "pieces that are no whole numbers": lambda lib: lib.ones(4).split([1.5, 2.5]),
    "one and a half pieces": lambda lib: lib.ones(4).chunk(1.5),
    "a border of one half": lambda lib: lib.nn.functional.pad(lib.ones(3), (0.5, 1)),
    "padding by halves": lambda lib: lib.nn.functional.conv2d(
        lib.ones(1, 1, 3, 3), lib.ones(1, 1, 2, 2), padding=(0.5, 1)
    ),
    "two and a half steps": lambda lib: lib.linspace(0, 1, 2.5),
    "rows up to one half": lambda lib: lib.ones(4)[: 4 / 2],
    "minus one numbers in random order": lambda lib: lib.randperm(-1),
    "a weight for each of four classes of three": lambda lib: lib.nn.functional.nll_loss(
        lib.ones(2, 3), lib.tensor([0, 1]), weight=lib.ones(4)
    ),
    "a mask of integers": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        *[lib.ones(1, 2, 2)] * 3, attn_mask=lib.ones(2, 2).long()
    ),
    "a row that is not there": lambda lib: lib.nn.Embedding(3, 2, max_norm=1.0)(lib.tensor([3])),
}


@pytest.mark.parametrize("what", SAME)
def test_a_call_gives_torchs_values_in_torchs_dtypes(what: str) -> None:
    expected, ours = outcome(SAME[what], torch), outcome(SAME[what], minitorch)
    assert (ours is None) == (expected is None)
    for (dtype, one), (wanted, other) in zip(ours or (), expected or (), strict=True):
        assert dtype == wanted
        if isinstance(other, np.ndarray):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("what", REFUSED)
def test_what_torch_refuses_is_refused_by_an_error_of_ours(what: str) -> None:
    assert outcome(REFUSED[what], torch) is None
    with pytest.raises((MinitorchError, IndexError, ValueError, TypeError)):
        REFUSED[what](minitorch)


def test_masks_of_integers_are_refused_with_a_next_step() -> None:
    with pytest.raises(AssertionError, match="only bool and floating"):
        masked(lambda lib: lib.ones(4, 5).long())(torch)
    with pytest.raises(DTypeError, match="mask == 0"):
        masked(lambda lib: lib.ones(4, 5).long())(minitorch)


@pytest.mark.parametrize("name", ["split", "chunk"])
def test_a_number_has_no_axis_to_cut(name: str) -> None:
    with pytest.raises(MinitorchError, match=f"{name}: got a 0-d value"):
        getattr(minitorch.tensor(1.0), name)(1)


def test_antialias_and_singular_matrices_are_refused_with_a_next_step() -> None:
    with pytest.raises(ArgumentError, match=r"antialias=True.*Use mode='area'"):
        resized("bilinear", size=3, antialias=True)(minitorch)
    with pytest.raises(ArgumentError, match=r"linalg\.solve: a matrix is singular.*use svd"):
        minitorch.linalg.solve(minitorch.ones(2, 2), minitorch.ones(2))
    with pytest.raises(DTypeError, match="sub: got bool and int64, expected no bools"):
        minitorch.tensor([True]) - 1


COMPLEX = ["fft", "complex64", "view_as_complex", "cfloat", "polar", "stft"]


@pytest.mark.parametrize("name", COMPLEX)
def test_names_of_complex_numbers_say_that_they_are_outside(name: str) -> None:
    assert hasattr(torch, name)
    with pytest.raises(AttributeError, match=rf"^minitorch\.{name}: complex .* not here: keep .*$"):
        getattr(minitorch, name)
    for make in (lambda: minitorch.zeros(2, dtype="complex64"), lambda: minitorch.tensor([1j])):
        with pytest.raises(DTypeError, match=r"complex numbers .* not here"):
            make()


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
def test_an_embedding_shortens_the_rows_that_are_asked_for_as_torchs_does(norm_type: float) -> None:
    table = np.random.default_rng(3).normal(size=(6, 4)) * 3
    numbers = np.array([[0, 2], [2, 5]])
    found = []
    for lib in (torch, minitorch):
        weight = lib.nn.Parameter(lib.tensor(table))
        layer = lib.nn.Embedding(6, 4, 1, max_norm=1.5, norm_type=norm_type, _weight=weight)
        layer.weight = weight
        rows = layer(lib.tensor(numbers))
        (rows * rows).sum().backward()
        found.append([v.detach().numpy() for v in (rows, weight, weight.grad)])
        assert "max_norm=1.5" in repr(layer)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert (found[1][1][[1, 3, 4]] == table[[1, 3, 4]]).all()


def test_steps_in_memory_are_torchs_for_random_views() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(0, 4, size=rng.integers(0, 4)))
        views: list[Any] = [lib.zeros(shape) for lib in (torch, minitorch)]
        if shape and 0 not in shape:
            order = [int(n) for n in rng.permutation(len(shape))]
            start = int(rng.integers(0, shape[order[0]]))
            views = [
                x.permute(order)[start:].unsqueeze(0).expand(2, *[-1] * len(shape)) for x in views
            ]
        ours, theirs = (  # a step to nowhere may be any
            [step if size > 1 else 0 for size, step in zip(x.shape, x.stride(), strict=True)]
            for x in views
        )
        assert ours == theirs, shape
        if shape:
            assert views[1].stride(-1) == views[1].stride()[-1]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_copies_lie_in_memory_as_torchs(order: tuple[int, ...]) -> None:
    for copy in ("clone", "contiguous"):
        steps = []
        for lib in (torch, minitorch):
            x = lib.arange(60.0).reshape(3, 4, 5).permute(order)
            copies = [getattr(v, copy)() for v in (x, x[..., ::2])]
            steps.append([tuple(v.stride()) for v in copies])
            assert (copies[0] == x).all() and (copies[1] == x[..., ::2]).all()
        assert steps[0] == steps[1]


@pytest.mark.parametrize("name", ["sigmoid", "sign", "erf", "logical_not", "nan_to_num"])
def test_a_function_of_elements_leaves_them_where_they_are(name: str) -> None:
    ours, theirs = (getattr(lib.ones(40, 50).t(), name)() for lib in (minitorch, torch))
    assert tuple(ours.stride()) == theirs.stride()


def test_a_turned_matrix_is_seen_under_a_shape_that_takes_its_axes_apart() -> None:
    x = minitorch.zeros(300, 200)
    for shape in ((100, 2, 300), (200, -1), (-1, 300), (200, 30, 10)):
        x.t().reshape(shape).add_(1)
    x.t().reshape(-1).add_(1)
    x.t().reshape(300, 200).add_(1)
    assert (x == 4).all()


def test_matrices_are_taken_apart_in_graphs_and_batches_too() -> None:
    x = np.random.default_rng(5).normal(size=(2, 3, 3))
    node = graph.placeholder("float64", [2, 3, 3])
    u, s, vh = minitorch.linalg.svd(node)
    values = minitorch.linalg.eigh(node).eigenvalues
    (slope,) = graph.gradients(minitorch.det(node), [node])
    results = graph.Session().run([u, s, vh, values, slope], {node: x})
    np.testing.assert_allclose(results[0] * results[1][:, None] @ results[2], x, rtol=1e-9)
    np.testing.assert_allclose(results[3], np.linalg.eigvalsh(x), rtol=1e-9)
    cofactors = np.linalg.det(x)[:, None, None] * np.swapaxes(np.linalg.inv(x), 1, 2)
    np.testing.assert_allclose(results[4], cofactors, rtol=1e-9)


def test_equal_singular_values_leave_the_gradient_of_their_sum_finite() -> None:
    for x in (np.eye(3), np.zeros((3, 2)), np.ones((2, 3))):
        ours = minitorch.tensor(x, requires_grad=True)
        theirs = torch.tensor(x, requires_grad=True)
        for lib, value in ((minitorch, ours), (torch, theirs)):
            lib.linalg.norm(value, "nuc").backward()
        product = theirs.grad @ theirs.grad.mT  # of zeros any rotation is a subgradient
        np.testing.assert_allclose((ours.grad @ ours.grad.mT).numpy(), product.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    "how", [(2,), (3, 1, 1, 2), ((2, 3), (1, 2), (0, 1), (2, 1)), (2, 2, 1, 3)]
)
def test_windows_as_columns_are_torchs(how: Any) -> None:
    results = []
    for lib in (minitorch, torch):
        x = lib.tensor(IMAGE).requires_grad_()
        columns = lib.nn.functional.unfold(x, *how)
        assert lib.nn.functional.unfold(x[0], *how).shape == columns.shape[1:]
        (columns * columns).sum().backward()
        results.append((columns.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def name_arguments_of_functions(lib: Any, x: Any, first: Any) -> list[Any]:
    return [
        *(getattr(lib, f)(input=x, dim=1) for f in ("sum", "mean", "softmax", "argmax", "cumsum")),
        *(getattr(lib, f)(input=x, other=x + 1) for f in ("add", "div", "mul", "maximum", "eq")),
        *(getattr(lib, f)(input=x) for f in ("exp", "relu", "abs", "isnan", "flatten")),
        lib.matmul(input=x, other=x.T),
        lib.bmm(input=x[None], mat2=x.T[None]),
        lib.addmm(input=lib.ones(2, 2), mat1=x, mat2=x.T),
        lib.clamp(input=x, min=0),
        lib.pow(input=x, exponent=2),
        lib.lerp(input=x, end=x + 1, weight=0.5),
        lib.where(condition=x > 0, input=x, other=-x),
        lib.gather(input=x, dim=1, index=first[:, None]),
        lib.masked_fill(input=x, mask=x > 0, value=2.0),
        lib.reshape(input=x, shape=(3, 2)),
        lib.transpose(input=x, dim0=0, dim1=1),
        lib.std(input=x, dim=1, unbiased=False),
    ]


def name_arguments_of_networks(lib: Any, x: Any, first: Any) -> list[Any]:
    nn, F = lib.nn, lib.nn.functional
    return [
        *(getattr(F, f)(input=x) for f in ("relu", "gelu", "elu", "softplus", "normalize")),
        *(getattr(F, f)(input=x, dim=1) for f in ("softmax", "log_softmax")),
        F.pad(input=x, pad=(1, 1)),
        F.linear(input=x, weight=x),
        F.layer_norm(input=x, normalized_shape=(3,)),
        F.batch_norm(input=x, running_mean=None, running_var=None, training=True),
        F.one_hot(input=first),
        F.dropout(input=x, training=False),
        nn.CrossEntropyLoss()(input=x, target=first),
        nn.TripletMarginLoss()(anchor=x, positive=x, negative=x + 1),
        *(m(input=x) for m in (nn.ReLU(), nn.Flatten(), nn.LayerNorm(3), nn.BatchNorm1d(3))),
        nn.Sequential(nn.Identity(), nn.Dropout(0.5)).eval()(input=x),
        nn.Embedding.from_pretrained(x)(input=first),
        nn.GRU(3, 2)(input=x, hx=lib.zeros(1, 2))[1] * 0,
        nn.LSTMCell(3, 2)(input=x, hx=(lib.zeros(2, 2), lib.zeros(2, 2)))[0] * 0,
    ]


@pytest.mark.parametrize("call", [name_arguments_of_functions, name_arguments_of_networks])
def test_arguments_have_torchs_names(call: Any) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3) - 2
    results = [call(lib, lib.tensor(x), lib.tensor([0, 1])) for lib in (minitorch, torch)]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5)
