"""The encoder half of a transformer. Legend as in `attention`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.nn.attention import MultiheadAttention
from minitorch.nn.containers import ModuleList
from minitorch.nn.dropout import Dropout
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import LayerNorm
from minitorch.tensor import Tensor


class TransformerEncoderLayer(Module):
    """Self-attention, then a two-layer network at every place, each added to its input.

    The layer norms stand after each sum, or with `norm_first` before each part.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        named = {"relu": F.relu, "gelu": F.gelu}
        if not callable(activation) and activation not in named:
            raise ArgumentError(
                f"TransformerEncoderLayer: got activation {activation!r}, expected 'relu', 'gelu' "
                "or a function."
            )
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation if callable(activation) else named[activation]

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Any:
        """Return a tensor of the shape of `src`; masks as in `MultiheadAttention`."""
        x: Any = src
        masks = (src_mask, src_key_padding_mask)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *masks)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, *masks))
        return self.norm2(x + self._feed(x))

    def _attend(self, x: Any, mask: Any, padding: Any) -> Any:
        mixed, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask)
        return self.dropout1(mixed)

    def _feed(self, x: Any) -> Any:
        wide = self.dropout(self.activation(self.linear1(x)))
        return self.dropout2(self.linear2(wide))


class TransformerEncoder(Module):
    """Layers one after another, each a copy of the one given, and a last norm if wanted."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, **_: Any
    ) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        """Return a tensor of the shape of `src`."""
        x: Any = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return x if self.norm is None else self.norm(x)
