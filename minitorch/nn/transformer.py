"""Transformers: encoder, decoder, both. Legend as in `attention`.

Source: Vaswani et al., Attention Is All You Need, 2017; parameters as PyTorch names them.
"""

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.attention import MultiheadAttention
from minitorch.nn.containers import ModuleList
from minitorch.nn.function_modules import Dropout
from minitorch.nn.linear import Linear
from minitorch.nn.module import Module
from minitorch.nn.normalization import LayerNorm
from minitorch.tensor.creation import full
from minitorch.tensor.tensor import Tensor


class _Layer(Module):
    """Attentions, then a two-layer network at every place, each added to its input.

    The layer norms stand after each sum, or with `norm_first` before each part.
    """

    attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], object] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        options = {"batch_first": batch_first, **kind}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, **options))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **kind)
        self.norm_first = norm_first
        numbers = range(1, len(self.attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **kind))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _function(activation)

    def _through(self, x: Tensor, *attend: Callable[[Tensor], tuple[Any, ...]]) -> Tensor:
        """Return `x` after each attention and the network, in the order of the norms."""
        for i, part in enumerate((*attend, self._feed), 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            before = norm(x) if self.norm_first else x
            x = x + dropout(part(before)[0])
            x = x if self.norm_first else norm(x)
        return x

    def _feed(self, x: object) -> tuple[Any, ...]:
        return (self.linear2(self.dropout(self.activation(self.linear1(x)))),)


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a two-layer network at every place, each added to its input."""

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return a tensor of the shape of `src`; masks as in `MultiheadAttention`."""
        masks = (src_key_padding_mask, False, src_mask)
        return self._through(src, lambda x: self.self_attn(x, x, x, *masks, is_causal=is_causal))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory`, then a two-layer network, each added to its input."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return a tensor of the shape of `tgt`; masks as in `MultiheadAttention`."""
        own, other = self.self_attn, self.multihead_attn
        masks = (tgt_key_padding_mask, False, tgt_mask)
        far = (memory_key_padding_mask, False, memory_mask)
        return self._through(
            tgt,
            lambda x: own(x, x, x, *masks, is_causal=tgt_is_causal),
            lambda x: other(x, memory, memory, *far, is_causal=memory_is_causal),
        )


class _Stack(Module):
    """Layers one after another, each a copy of the one given, and a last norm if wanted."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _through(self, x: Tensor, *rest: object) -> Tensor:
        for layer in self.layers:
            x = layer(x, *rest)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Encoder layers one after another, each a copy of the one given, and a last norm."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, **_: object
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """Decoder layers one after another, each a copy of the one given, and a last norm."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self._through(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """An encoder of `src`, and a decoder of `tgt` that attends to what the encoder gives."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], object] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*sizes, *options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*sizes, *options), num_decoder_layers, norm()
        )
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return a tensor of the shape of `tgt`; masks as in `MultiheadAttention`."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: got src {src.shape} and tgt {tgt.shape}, expected both with "
                f"{self.d_model} features last."
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        out: Tensor = self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return out

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> Tensor:
        """Return (sz, sz): 0 for what a place may attend to, itself and before, else -infinity."""
        full_mask = full((sz, sz), -math.inf, device=device, dtype=dtype)
        return full_mask.triu(1)


def _function(activation: str | Callable[[object], object]) -> Callable[[Any], Any]:
    """Return the function of that name."""
    if callable(activation):
        return activation
    named: dict[str, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in named:
        raise ArgumentError(
            f"Transformer: got activation {activation!r}, expected 'relu', 'gelu' or a function."
        )
    return named[activation]
