"""Multi-head attention. Legend: N batch, L queries, S keys, E features, H heads, D features a head.

Source: Vaswani et al., Attention Is All You Need, 2017; parameters as PyTorch names them.
"""

import math
from typing import Any

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, DTypeError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.ops.products.linalg import mT
from minitorch.tensor.tensor import Tensor, tensor


class MultiheadAttention(Module):
    """Attention of `num_heads` heads, each over its own embed_dim / num_heads features."""

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: got embed_dim {embed_dim} and num_heads {num_heads}, "
                "expected positive numbers of which the second divides the first."
            )
        if add_bias_kv or add_zero_attn:
            raise ArgumentError(
                "MultiheadAttention: got add_bias_kv or add_zero_attn, which are not here. "
                "Put the key and the value that all attend to into the input."
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self._same_dim = self.kdim == self.vdim == embed_dim
        self._add_projections(bias, device, dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def _add_projections(self, bias: bool, device: DeviceLike, dtype: DTypeLike) -> None:
        """Add one weight for all three projections where the sizes allow, else three."""
        size = self.embed_dim
        shapes = {
            "in_proj_weight": (3 * size, size),
            "q_proj_weight": (size, size),
            "k_proj_weight": (size, self.kdim),
            "v_proj_weight": (size, self.vdim),
        }
        for name, shape in shapes.items():
            wanted = self._same_dim == (name == "in_proj_weight")
            param = empty_parameter(shape, device, dtype) if wanted else None
            self.register_parameter(name, param)
        param = empty_parameter((3 * size,), device, dtype) if bias else None
        self.register_parameter("in_proj_bias", param)

    def reset_parameters(self) -> None:
        """Draw the projections anew; biases are 0."""
        for name, param in self._parameters.items():
            if param is not None and name.endswith("_weight"):
                init.xavier_uniform_(param)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor,
        key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the attended values, and the weights.

        Args:
            query: (L, N, E), (N, L, E) with `batch_first`, or (L, E).
            key: (S, N, kdim), likewise.
            value: (S, N, vdim), likewise.
            key_padding_mask: (N, S); True where a key is to be ignored, or numbers to add.
            need_weights: also return the weights, (N, L, S), or None.
            attn_mask: (L, S) or (N * heads, L, S); True where attention is not allowed, or numbers
                to add.
            average_attn_weights: the mean over heads; otherwise (N, heads, L, S).
            is_causal: says that `attn_mask` is the causal one, which must be given.
        Raises:
            ShapeError: query, key, value and masks do not fit each other.
            DTypeError: a mask is neither of bools nor of floats.
        """
        if is_causal and attn_mask is None:
            raise ArgumentError("MultiheadAttention: got is_causal without attn_mask. Give both.")
        single = query.ndim == 2
        if {query.ndim, key.ndim, value.ndim} not in ({2}, {3}):
            raise ShapeError(
                f"MultiheadAttention: got query {tuple(query.shape)}, key {tuple(key.shape)} and "
                f"value {tuple(value.shape)}, expected 3 axes each, or 2 without a batch."
            )
        q_NLE, k_NSE, v_NSE = (self._batch_first(t, single) for t in (query, key, value))
        self._check(q_NLE, k_NSE, v_NSE)
        q_NLE, k_NSE, v_NSE = self._project(q_NLE, k_NSE, v_NSE)
        q, k, v = self._heads(q_NLE), self._heads(k_NSE), self._heads(v_NSE)
        scores_NHLS = (q @ mT(k)) * (1.0 / math.sqrt(self.head_dim))
        scores_NHLS = scores_NHLS + self._bias(scores_NHLS, key_padding_mask, attn_mask, single)
        weights_NHLS = F.softmax(scores_NHLS, dim=-1)
        if self.dropout and self.training:
            weights_NHLS = F.dropout(weights_NHLS, self.dropout, True)
        mixed_NLE = (weights_NHLS @ v).transpose(1, 2).reshape(*q_NLE.shape)
        out = self.out_proj(mixed_NLE)
        out = out.squeeze(0) if single else out if self.batch_first else out.transpose(0, 1)
        if not need_weights:
            return out, None
        weights = weights_NHLS.mean(1) if average_attn_weights else weights_NHLS
        return out, weights.squeeze(0) if single else weights

    def _batch_first(self, t: Tensor, single: bool) -> Tensor:
        if single:
            return t.unsqueeze(0)
        return t if self.batch_first else t.transpose(0, 1)

    def _check(self, q_NLE: Tensor, k_NSE: Tensor, v_NSE: Tensor) -> None:
        batch, keys = q_NLE.shape[0], k_NSE.shape[1]
        wanted = (batch, keys, self.kdim), (batch, keys, self.vdim)
        got = tuple(k_NSE.shape), tuple(v_NSE.shape)
        if q_NLE.shape[-1] != self.embed_dim or got != wanted:
            raise ShapeError(
                f"MultiheadAttention: got query {tuple(q_NLE.shape)}, key {got[0]} and value "
                f"{got[1]} (batch first), expected {(batch, q_NLE.shape[1], self.embed_dim)}, "
                f"{wanted[0]} and {wanted[1]}."
            )

    def _project(self, *inputs_NLE: Any) -> list[Any]:
        size, packed, bias = self.embed_dim, self.in_proj_weight, self.in_proj_bias
        projected = []
        for i, (name, x) in enumerate(zip("qkv", inputs_NLE, strict=True)):
            rows = slice(i * size, (i + 1) * size)
            weight = getattr(self, f"{name}_proj_weight") if packed is None else packed[rows]
            projected.append(F.linear(x, weight, None if bias is None else bias[rows]))
        return projected

    def _heads(self, x_NLE: Tensor) -> Tensor:
        """Return (N, H, L, D)."""
        return x_NLE.reshape(*x_NLE.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def _bias(
        self, scores_NHLS: Tensor, padding: Tensor | None, mask: Tensor | None, single: bool
    ) -> Any:
        """Return what the masks add to the scores: 0 where allowed, -infinity where not."""
        total: Any = 0.0
        n, h, *plane = scores_NHLS.shape
        if padding is not None:
            wanted = (plane[1],) if single else (n, plane[1])
            if tuple(padding.shape) != wanted:
                raise ShapeError(
                    f"MultiheadAttention: got key_padding_mask {tuple(padding.shape)}, expected "
                    f"{wanted}, a batch first."
                )
            wide = _as_additive_mask(padding.unsqueeze(0) if single else padding, scores_NHLS)
            total = total + wide.unsqueeze(1).unsqueeze(1)
        if mask is not None:
            if tuple(mask.shape) not in (tuple(plane), (n * h, *plane)):
                raise ShapeError(
                    f"MultiheadAttention: got attn_mask {tuple(mask.shape)}, expected "
                    f"{tuple(plane)}, or {(n * h, *plane)} for each head of each row."
                )
            wide = _as_additive_mask(mask, scores_NHLS)
            if wide.ndim == 3:
                wide = wide.reshape(-1, self.num_heads, *wide.shape[1:])
            total = total + wide
        return total


def _as_additive_mask(mask: Tensor, like: Tensor) -> Tensor:
    """Return the numbers that a mask adds."""
    if mask.dtype.kind == "f":
        return mask
    if mask.dtype.kind != "b":
        raise DTypeError(
            f"MultiheadAttention: got a mask of {mask.dtype}, expected bools (True where attention "
            "is not allowed) or floats to add. Compare first: mask == 0."
        )
    zero = tensor(0.0, dtype=like.dtype, device=like.device)
    return zero.expand(*mask.shape).masked_fill(mask, -math.inf)
