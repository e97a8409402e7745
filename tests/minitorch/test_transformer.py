"""Encoder, decoder and the two together against PyTorch, with its weights."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import nn
from minitorch.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # PyTorch's own
SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}


def pair(name: str, **options: Any) -> tuple[Any, Any]:
    """Our module and PyTorch's, in float64, with the same weights, none of them at its start."""
    torch.manual_seed(0)
    ours, theirs = getattr(nn, name)(**options).double(), getattr(torch.nn, name)(**options)
    theirs = theirs.double()
    for param in theirs.parameters():
        param.data.normal_(0.0, 0.5)
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({k: minitorch.tensor(v.numpy()) for k, v in state.items()})
    return ours, theirs


def inputs(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape) for shape in shapes]


def agree(ours: Any, theirs: Any, arrays: list[np.ndarray], masks: dict[str, Any]) -> None:
    """Results, and gradients of the inputs and of every parameter."""
    mine = [minitorch.tensor(a, requires_grad=True) for a in arrays]
    others = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = ours(*mine, **{k: minitorch.tensor(v) for k, v in masks.items()})
    want = theirs(*others, **{k: torch.tensor(v) for k, v in masks.items()})
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-11)
    weights = np.random.default_rng(2).normal(size=tuple(want.shape))
    (out * minitorch.tensor(weights)).sum().backward()
    (want * torch.tensor(weights)).sum().backward()
    mine += [p for _, p in sorted(ours.named_parameters())]
    others += [p for _, p in sorted(theirs.named_parameters())]
    for a, b in zip(mine, others, strict=True):
        assert b.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-9)


def causal(n: int) -> np.ndarray:
    return np.triu(np.full((n, n), -np.inf), 1)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_is_torchs(norm_first: bool, batch_first: bool) -> None:
    options = {"norm_first": norm_first, "batch_first": batch_first, "activation": "gelu"}
    two = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    ours, theirs = pair("Transformer", **SIZES, **two, **options)
    shapes = ((3, 5, 8), (3, 4, 8)) if batch_first else ((5, 3, 8), (4, 3, 8))
    padding = np.zeros((3, 5), bool)
    padding[1, 3:] = True
    masks = {
        "tgt_mask": causal(4),
        "memory_mask": np.random.default_rng(3).normal(size=(4, 5)),
        "src_key_padding_mask": np.where(padding, -np.inf, 0.0),
        "memory_key_padding_mask": np.where(padding, -np.inf, 0.0),
        "tgt_key_padding_mask": np.random.default_rng(4).normal(size=(3, 4)),
    }
    agree(ours, theirs, inputs(*shapes), masks)


@pytest.mark.parametrize("bias", [True, False])
def test_a_decoder_layer_is_torchs(bias: bool) -> None:
    ours, theirs = pair("TransformerDecoderLayer", **SIZES, bias=bias)
    agree(ours, theirs, inputs((4, 3, 8), (5, 3, 8)), {"tgt_mask": causal(4)})


def test_a_decoder_without_a_last_norm_and_without_a_batch_is_torchs() -> None:
    ours, theirs = (
        lib.nn.TransformerDecoder(lib.nn.TransformerDecoderLayer(**SIZES), 2).double()
        for lib in (minitorch, torch)
    )
    state = {k: minitorch.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    agree(ours, theirs, inputs((4, 8), (5, 8)), {})


def test_the_mask_of_what_comes_later_is_torchs() -> None:
    for dtype in ("float32", "float64"):
        ours, theirs = (
            lib.nn.Transformer.generate_square_subsequent_mask(4, dtype=getattr(lib, dtype))
            for lib in (minitorch, torch)
        )
        assert ours.tolist() == theirs.tolist()
        assert f"torch.{ours.dtype}" == str(theirs.dtype)


def test_a_transformer_says_what_does_not_fit() -> None:
    net = nn.Transformer(**SIZES, num_encoder_layers=1, num_decoder_layers=1)
    with pytest.raises(ShapeError, match="expected both with 8 features"):
        net(minitorch.ones(2, 1, 8), minitorch.ones(2, 1, 4))
    with pytest.raises(ArgumentError, match="is_causal without attn_mask"):
        net(minitorch.ones(2, 1, 8), minitorch.ones(2, 1, 8), tgt_is_causal=True)
    with pytest.raises(ArgumentError, match="expected 'relu', 'gelu'"):
        nn.Transformer(**SIZES, activation="step")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim, shape", [(-1, (32, 16, 33)), (0, (64, 300))])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "layer_norm of two axes"])
def test_large_rows_and_their_gradients_to_the_second_order_are_torchs(
    name: str, dim: int, shape: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    if name == "softmax":
        x[..., 1, 1:4] = -np.inf  # as a mask leaves them
    found = []
    for lib in (minitorch, torch):
        functional = lib.nn.functional
        leaves, weights = [lib.tensor(x, requires_grad=True)], lib.tensor(g)
        if name == "softmax":
            y = functional.softmax(leaves[0], dim)
        elif name == "layer_norm":
            y = functional.layer_norm(leaves[0], shape[-1:])
        else:
            leaves += [lib.tensor(g[0].reshape(shape[1:]) + k, requires_grad=True) for k in (0, 1)]
            y = functional.layer_norm(leaves[0], shape[1:], *leaves[1:])
        loss = (y * y * weights).sum()
        plain = lib.autograd.grad(loss, leaves, retain_graph=True)
        first = lib.autograd.grad(loss, leaves, create_graph=True)
        second = lib.autograd.grad((first[0] * weights).sum(), leaves[:2])
        found.append([t.detach().numpy() for t in (y, *plain, *first, *second)])
    close = 1e-4 if dtype == "float32" else 1e-11
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, close, close)
