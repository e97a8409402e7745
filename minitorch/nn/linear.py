"""Linear maps, and tables of rows. Legend: B batch, I input features, O output features."""

import math

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor


class Identity(Module):
    """The input, unchanged; takes and ignores any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x_BI W_OI^T + b_O, with any number of leading axes in place of B.

    Both start uniform within 1 / sqrt(in_features) of 0.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in_features), device, dtype)
        self.register_parameter(
            "bias", empty_parameter((out_features,), device, dtype) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return shape (..., O) for an input of shape (..., I)."""
        try:
            weight, bias = self._parameters["weight"], self._parameters["bias"]
        except KeyError:  # a tensor in a parameter's place: pruned, or computed by a hook
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


class Embedding(Module):
    """Rows of a (num_embeddings, embedding_dim) table; row `padding_idx` is 0 and gets no gradient.

    The table starts normal with mean 0 and deviation 1. Its gradient is never sparse. With
    `max_norm`, rows that are asked for and longer, by the `norm_type`-norm, are shortened to it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(
                f"Embedding: got padding_idx {padding_idx}, expected one within {num_embeddings}."
            )
        if scale_grad_by_freq:
            raise ArgumentError(
                "Embedding: got scale_grad_by_freq=True, which is not here. Scale the gradient."
            )
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is not None:
            self.weight = Parameter(_weight, not _freeze)
        else:
            self.weight = empty_parameter((num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> "Embedding":
        """Return an embedding over a given table, not trained unless `freeze` is false."""
        if embeddings.ndim != 2:
            raise ShapeError(
                f"Embedding.from_pretrained: got shape {tuple(embeddings.shape)}, expected "
                "(count, size)."
            )
        count, size = embeddings.shape
        embedding = cls(count, size, padding_idx, max_norm, norm_type, _weight=embeddings)
        embedding.weight.requires_grad_(not freeze)
        return embedding

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        """Return (..., embedding_dim) for integers of shape (...)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        pad = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        most = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        most += "" if self.norm_type == 2.0 else f", norm_type={self.norm_type}"
        return f"{self.num_embeddings}, {self.embedding_dim}{pad}{most}"
