"""Attention in panels against PyTorch: results, gradients, masks, groups, dropout, memory."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.arrays.library import namespace
from minitorch.errors import ArgumentError, ShapeError
from minitorch.graph import jit, trace
from minitorch.nn import functional as F
from minitorch.op import Spec
from minitorch.ops.elementwise import compiled
from minitorch.ops.networks import attention_panels
from minitorch.ops.networks.attention import Attention, AttentionGradients

RNG = np.random.default_rng(0)
FIRST = RNG.bit_generator.state
SIZES = [(5, 7), (64, 64), (260, 300), (1, 40)]  # queries, keys; the third in panels


@pytest.fixture(autouse=True)
def the_same_draws() -> None:
    """A test draws the same numbers whichever ran before it."""
    RNG.bit_generator.state = FIRST


@pytest.fixture(params=["a kernel", "panels"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What attends where nothing is masked or dropped, whatever this processor is."""
    monkeypatch.setattr(compiled, "_has_avx_2_alone", lambda: request.param == "a kernel")
    return str(request.param)


def mask_of(kind: str, length: int, keys: int) -> np.ndarray | None:
    if kind == "bool":
        return RNG.random((length, keys)) < 0.6
    if kind == "a row that sees nothing":
        allowed = np.ones((2, 1, length, keys), bool)
        allowed[1, 0, 0] = False
        return allowed
    return RNG.normal(size=(length, keys)) if kind == "numbers" else None


def both(
    arrays: list[np.ndarray], mask: np.ndarray | None, **how: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Result and gradients: ours and PyTorch's."""
    found = []
    for lib, functional in ((minitorch, F), (torch, torch.nn.functional)):
        leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
        attn_mask = None if mask is None else lib.tensor(mask)
        y = functional.scaled_dot_product_attention(*leaves, attn_mask=attn_mask, **how)
        weights = np.random.default_rng(1).normal(size=tuple(y.shape)).astype(arrays[0].dtype)
        y.backward(lib.tensor(weights))
        found.append([y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    return found[0], found[1]


@pytest.mark.parametrize("mask", ["", "causal", "bool", "a row that sees nothing", "numbers"])
@pytest.mark.parametrize(("length", "keys"), SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_and_its_gradients_are_torchs(
    dtype: str, length: int, keys: int, mask: str, by: str
) -> None:
    shapes = (2, 3, length, 8), (2, 3, keys, 8), (2, 3, keys, 6)
    arrays = [RNG.normal(size=shape).astype(dtype) for shape in shapes]
    given = mask_of(mask, length, keys)
    if given is not None and given.dtype.kind == "f":
        given = given.astype(dtype)
    ours, theirs = both(arrays, given, is_causal=mask == "causal", scale=0.4)
    near = {"rtol": 1e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-12}
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, **near)


@pytest.mark.parametrize("size", [3, 16, 21])
@pytest.mark.parametrize("keys", [1, 6, 40])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_query_reads_a_cache_where_it_lies_as_torchs_does(
    dtype: str, turned: bool, keys: int, size: int
) -> None:
    q = RNG.normal(size=(2, 1, 3, size)).astype(dtype).swapaxes(1, 2)
    cache = RNG.normal(size=(2, 2, 50, 3, size) if turned else (2, 2, 3, 50, size)).astype(dtype)
    k, v = cache.swapaxes(2, 3)[..., :keys, :] if turned else cache[..., :keys, :]
    args = [[lib.as_tensor(a) for a in (q, k, v)] for lib in (minitorch, torch)]
    ours = F.scaled_dot_product_attention(*args[0], scale=0.5)
    theirs = torch.nn.functional.scaled_dot_product_attention(*args[1], scale=0.5)
    near = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), **near)


def test_a_wrong_gradient_would_not_pass_for_torchs(by: str) -> None:
    arrays = [RNG.normal(size=(2, 300, 8)) for _ in range(3)]
    ours, theirs = both(arrays, None, is_causal=True)
    for a, b in zip(ours, theirs, strict=True):
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(a * 1.0005, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_keys_have_the_gradients_of_all(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_has_avx_2_alone", lambda: False)
    arrays = RNG.normal(size=(4, 2, 300, 8))
    whole = attention_panels.gradients(*arrays, attention_panels.Weighing(0.3, causal))
    monkeypatch.setattr(attention_panels, "UNPACKED", 2**14)  # 32 keys of 64 rows
    blocks = attention_panels.gradients(*arrays, attention_panels.Weighing(0.3, causal))
    np.testing.assert_allclose(blocks, whole, 1e-12, 1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_lie_inside_rows_and_turned_matrices_are_taken(causal: bool, by: str) -> None:
    arrays = [RNG.normal(size=(2, n, 3, e)).swapaxes(1, 2) for n, e in ((50, 9), (70, 9), (70, 20))]
    arrays[1] = np.asfortranarray(arrays[1])
    for a, b in zip(*both(arrays, None, is_causal=causal), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_rows_with_nan_or_infinities_are_nan_and_no_others(by: str) -> None:
    q, k, v = RNG.normal(size=(3, 1, 40, 8))
    q[0, 3, 2], q[0, 7, 2] = np.nan, np.inf
    ours, theirs = both([q, k, v], None)
    np.testing.assert_array_equal(np.isnan(ours[0]).all(-1)[0].nonzero()[0], [3, 7])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_matrices_and_change_no_bit(threads: int, by: str) -> None:
    arrays = RNG.normal(size=(4, 3, 260, 8))
    how = attention_panels.Weighing(0.3, True)
    before = minitorch.get_num_threads()
    found = []
    for count in (1, threads):
        minitorch.set_num_threads(count)
        found.append(attention_panels.gradients(*arrays, how))
    minitorch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("length", [6, 260])
def test_groups_of_heads_and_second_gradients_are_torchs(length: int, by: str) -> None:
    arrays = [RNG.normal(size=(2, heads, length, 4)) for heads in (4, 2, 2)]
    found = []
    for lib, functional in ((minitorch, F), (torch, torch.nn.functional)):
        leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = functional.scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)
        grad = minitorch.grad if lib is minitorch else torch.autograd.grad
        first = grad((y * y * y).sum(), leaves, create_graph=True)
        second = grad(sum((g * g).sum() for g in first), leaves)
        found.append([t.detach().numpy() for t in (y, *first, *second)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * abs(b).max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [6, 260])
@pytest.mark.parametrize("inside_rows", [False, True])
def test_a_traced_step_has_torchs_gradients_first_and_second(
    causal: bool, length: int, inside_rows: bool, by: str
) -> None:
    arrays = list(RNG.normal(size=(5, 2, length, 3, 4)))
    if not inside_rows:
        arrays = [np.ascontiguousarray(a.swapaxes(1, 2)) for a in arrays]
    found = []
    for lib, functional in ((minitorch, F), (torch, torch.nn.functional)):

        def step(*leaves: Any, lib: Any = lib, functional: Any = functional) -> Any:
            q, k, v, g, _ = (x.transpose(1, 2) if inside_rows else x for x in leaves)
            grad = minitorch.grad if lib is minitorch else torch.autograd.grad
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            first = grad(y, leaves[:3], g, create_graph=True)
            total = sum((x * x).sum() + (x * leaves[4]).sum() for x in first)
            return y, *first, *grad(total, leaves[:4])

        leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            outputs = (jit(step) if lib is minitorch else step)(*leaves)
        found.append([t.detach().numpy() for t in outputs])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * abs(b).max())


def test_one_node_of_a_graph_attends_where_there_is_a_kernel_or_rows_are_long(by: str) -> None:
    def names(*leaves: minitorch.Tensor, **how: Any) -> set[str]:
        traced = trace(lambda *x: F.scaled_dot_product_attention(*x, **how))(*leaves)
        return {node.op.name for node in traced.graph.nodes if node.op}

    for length, size in ((6, 4), (260, 4)):
        same = [minitorch.zeros(2, length, size) for _ in range(3)]
        taken = "scaled_dot_product_attention" in names(*same)
        assert taken is (by == "a kernel" or length == 260)
        assert "softmax" in names(*same[:2], minitorch.zeros(2, length, 5))
        assert "softmax" in names(*same, dropout_p=0.5)


@pytest.mark.parametrize("length", [6, 260])
def test_a_traced_scale_is_that_of_each_call(length: int, by: str) -> None:
    x = minitorch.tensor(RNG.normal(size=(2, length, 4)))
    outside = minitorch.tensor(0.5, requires_grad=True)
    attend = F.scaled_dot_product_attention
    given = jit(lambda x, scale: attend(x, x, x, scale=scale))
    found = jit(lambda x: attend(x, x, x, scale=outside))
    for scale in (0.5, 2.0):
        with minitorch.no_grad():
            outside.fill_(scale)
        wanted = attend(x, x, x, scale=scale).numpy()
        for y in (given(x, minitorch.tensor(scale)), found(x)):
            np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("torch_arrays")
@pytest.mark.parametrize("causal", [False, True])
def test_operators_of_attention_compute_on_a_device_as_on_this_processor(causal: bool) -> None:
    arrays = RNG.normal(size=(4, 2, 5, 3))
    theirs = [torch.tensor(a) for a in arrays]
    xp = namespace(theirs[0])
    for op, used in (
        (Attention(0.4, causal, 0.0, 0), slice(1, 4)),
        (AttentionGradients(0.4, causal), slice(0, 4)),
    ):
        wanted = op.compute(np, *arrays[used])
        np.testing.assert_allclose(op.compute(xp, *theirs[used]), wanted, 1e-9, 1e-12)
        spec = op.infer(*[Spec(a.shape, a.dtype) for a in arrays[used]])
        assert spec == Spec(wanted.shape, wanted.dtype)


def test_parameters_with_unlike_leading_axes_are_attended_in_a_trace() -> None:
    shapes = (1, 5, 4), (3, 6, 4), (3, 6, 2)
    q, k, v = (minitorch.tensor(RNG.normal(size=n), requires_grad=True) for n in shapes)
    mask = minitorch.tensor(RNG.random((5, 6)) < 0.6)
    for attn_mask in (None, mask):

        def rows(x: minitorch.Tensor, attn_mask: Any = attn_mask) -> minitorch.Tensor:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask) * x
            return y.reshape(y.shape[0] * y.shape[1], 2)

        x = minitorch.ones((), dtype=minitorch.float64)
        np.testing.assert_allclose(
            jit(rows)(x).detach().numpy(), rows(x).detach().numpy(), 1e-9, 1e-12
        )


def test_attention_over_no_tokens_is_nothing() -> None:
    none = np.zeros((2, 0, 4))
    assert Attention(0.4, True, 0.0, 0).compute(np, none, none, none).shape == (2, 0, 4)
    assert AttentionGradients(0.4, True).compute(np, none, none, none, none).shape == (3, 2, 0, 4)


def test_dropped_weights_are_the_same_on_the_way_back() -> None:
    arrays = [RNG.normal(size=(2, 260, 4)) for _ in range(3)]
    leaves = [minitorch.tensor(a, requires_grad=True) for a in arrays]
    weights = minitorch.tensor(RNG.normal(size=(2, 260, 4)))

    def loss(*values: Any) -> Any:
        minitorch.manual_seed(3)
        y = F.scaled_dot_product_attention(*values, dropout_p=0.3, is_causal=True)
        return (y * weights).sum()

    loss(*leaves).backward()
    recorded = minitorch.grad(loss(*leaves), leaves, create_graph=True)
    for i, (leaf, again) in enumerate(zip(leaves, recorded, strict=True)):
        way = RNG.normal(size=leaf.shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = [minitorch.tensor(a + step * way * (i == k)) for k, a in enumerate(arrays)]
            ends.append(float(loss(*moved)))
        assert leaf.grad is not None
        slope = float((leaf.grad.numpy() * way).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)
        np.testing.assert_allclose(again.detach().numpy(), leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("shares", [0, 1, 2, 3])
def test_panels_cover_every_score_that_counts_once(shares: int) -> None:
    shapes = (
        ((2, 3, 700, 700), True),
        ((5, 300, 900), False),
        ((4, 9), False),
        ((9, 8, 64, 64), True),
    )
    for shape, causal in shapes:
        seen = np.zeros(shape, int)
        for panel in attention_panels.panels(shape, causal, shares):
            seen[panel.lead][..., panel.rows, : panel.keys] += 1
        rows = np.arange(shape[-2])[:, None]
        counts = rows >= np.arange(shape[-1]) if causal else np.True_
        assert (seen[np.broadcast_to(counts, shape)] == 1).all()
        assert seen.max() == 1


PEAK = """
import sys
from pathlib import Path
import numpy as np
import minitorch
from minitorch.arrays.library import namespace
from minitorch.errors import ArgumentError
from minitorch.graph import jit, trace
from minitorch.nn import functional as F
from minitorch.op import Spec

def peak_kib():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

def step(length):
    x = [minitorch.ones(2, length, 16, requires_grad=True) for _ in range(3)]
    F.scaled_dot_product_attention(*x, is_causal=True).sum().backward()

step(300)
before = peak_kib()
step(int(sys.argv[1]))
print(1024 * (peak_kib() - before))
"""


def test_memory_grows_with_the_tokens_and_not_with_their_square() -> None:
    """A table of all scores has 134 MB at 4,096 tokens and 537 MB at 8,192."""
    peaks = [
        int(subprocess.run([sys.executable, "-c", PEAK, str(length)], check=True,
                           capture_output=True, text=True).stdout)
        for length in (4096, 8192)
    ]  # fmt: skip
    assert 1e6 < peaks[0] < 30e6
    assert peaks[1] < 60e6


@pytest.mark.parametrize("tokens", [4, 300])
def test_dropout_takes_probabilities_alone(tokens: int) -> None:
    x = minitorch.ones(2, tokens, 4, requires_grad=True)
    for p in (2.0, -0.1, float("nan")):
        with pytest.raises(ArgumentError, match=r"dropout_p = .*, expected a probability"):
            F.scaled_dot_product_attention(x, x, x, dropout_p=p)
    F.scaled_dot_product_attention(x, x, x, dropout_p=1.0).sum().backward()
    assert x.grad is not None
    assert not x.grad.numpy().any()


def test_what_is_no_matrix_and_a_scale_that_is_no_number_are_refused() -> None:
    x: Any = minitorch.ones(1, 2, 4)
    word: Any = "x"
    with pytest.raises(ArgumentError, match=r"scale = 'x', expected a number"):
        F.scaled_dot_product_attention(x, x, x, scale=word)
    with pytest.raises(ShapeError, match=r"query \(4,\)"):
        F.scaled_dot_product_attention(x[0, 0], x[0, 0], x[0, 0])
