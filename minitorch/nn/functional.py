"""Torch's `nn.functional`: the operators of a network, by name; each is defined in `ops`.

Some activations take torch's `inplace`: with it the result overwrites the input.
"""

import collections.abc
import functools
from typing import Any

from .. import errors
from ..exports import public_names
from ..ops import random
from ..ops.elementwise import activation
from ..ops.elementwise import unary as elementwise
from ..ops.elementwise.activation import gelu as gelu
from ..ops.elementwise.activation import glu as glu
from ..ops.elementwise.activation import logsigmoid as logsigmoid
from ..ops.elementwise.activation import prelu as prelu
from ..ops.elementwise.activation import sigmoid as sigmoid
from ..ops.elementwise.activation import softplus as softplus
from ..ops.elementwise.activation import softsign as softsign
from ..ops.elementwise.activation import tanh as tanh
from ..ops.networks import attention
from ..ops.networks.attention import scaled_dot_product_attention as scaled_dot_product_attention
from ..ops.networks.cross_entropy import cross_entropy as cross_entropy
from ..ops.networks.loss import binary_cross_entropy as binary_cross_entropy
from ..ops.networks.loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from ..ops.networks.loss import cosine_embedding_loss as cosine_embedding_loss
from ..ops.networks.loss import cosine_similarity as cosine_similarity
from ..ops.networks.loss import huber_loss as huber_loss
from ..ops.networks.loss import kl_div as kl_div
from ..ops.networks.loss import l1_loss as l1_loss
from ..ops.networks.loss import margin_ranking_loss as margin_ranking_loss
from ..ops.networks.loss import mse_loss as mse_loss
from ..ops.networks.loss import pairwise_distance as pairwise_distance
from ..ops.networks.loss import smooth_l1_loss as smooth_l1_loss
from ..ops.networks.loss import triplet_margin_loss as triplet_margin_loss
from ..ops.networks.nll_loss import nll_loss as nll_loss
from ..ops.networks.normalization import batch_norm as batch_norm
from ..ops.networks.normalization import group_norm as group_norm
from ..ops.networks.normalization import instance_norm as instance_norm
from ..ops.networks.normalization import layer_norm as layer_norm
from ..ops.networks.normalization import normalize as normalize
from ..ops.networks.normalization import rms_norm as rms_norm
from ..ops.networks.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from ..ops.networks.pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from ..ops.networks.pooling import avg_pool1d as avg_pool1d
from ..ops.networks.pooling import avg_pool2d as avg_pool2d
from ..ops.networks.pooling import max_pool1d as max_pool1d
from ..ops.networks.pooling import max_pool2d as max_pool2d
from ..ops.networks.resizing import interpolate as interpolate
from ..ops.networks.resizing import pixel_shuffle as pixel_shuffle
from ..ops.networks.softmax import log_softmax as log_softmax
from ..ops.networks.softmax import softmax as softmax
from ..ops.products.conv import conv1d as conv1d
from ..ops.products.conv import conv2d as conv2d
from ..ops.products.conv import conv_transpose2d as conv_transpose2d
from ..ops.products.linalg import linear as linear
from ..ops.reducing import statistics
from ..ops.shaping.borders import pad as pad
from ..ops.shaping.gathering import one_hot as one_hot
from ..tensor.modes import no_grad
from ..tensor.tensor import Tensor


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` (count, size) that `input` names; `padding_idx` gets no gradient.

    Args:
        input: integers, any shape.
        weight: the table.
        padding_idx: a row that is not trained.
        max_norm: rows that are asked for and longer are first shortened to it, in the table.
        norm_type: p of the norm that `max_norm` is of.
        scale_grad_by_freq: not here.
        sparse: changes nothing: gradients are never sparse.
    Raises:
        DTypeError: the input is not of integers.
        AxisError: a number below 0, or of no row.
        ArgumentError: `scale_grad_by_freq`.
    """
    if scale_grad_by_freq:
        raise errors.ArgumentError(
            "embedding: got scale_grad_by_freq=True, which is not here. Scale the gradient."
        )
    vectors = attention.embedding(input, weight, padding_idx)
    if max_norm is None:
        return vectors
    with no_grad():
        rows = input.unique()
        norms = statistics.vector_norm(weight[rows], norm_type, 1, True)
        weight[rows] = weight[rows] * (max_norm / (norms + 1e-7)).clamp(max=1.0)
    return attention.embedding(input, weight, padding_idx)


def _make_inplace(
    function: collections.abc.Callable[..., object], options: int = 0
) -> collections.abc.Callable[..., Any]:
    """Return `function` with a last argument `inplace`, after its own `options`.

    Raises:
        DTypeError: `inplace` on what is no tensor.
        GradientError: it is a leaf that requires a gradient, or a view, while recording.
    """

    @functools.wraps(function)
    def call(input: object, *more: object, inplace: bool = False, **named: object) -> Any:
        if len(more) > options:
            *more, inplace = more  # type: ignore[assignment]
        if not inplace:
            return function(input, *more, **named)
        if not hasattr(input, "_update"):
            raise errors.DTypeError(
                f"{function.__name__}: got inplace=True for {type(input).__name__}, expected a "
                "tensor. Leave inplace out."
            )
        return input._update(f"{function.__name__}_", function, *more, **named)

    return call


dropout = _make_inplace(random.dropout, 2)
elu = _make_inplace(activation.elu, 1)
hardsigmoid = _make_inplace(activation.hardsigmoid)
hardswish = _make_inplace(activation.hardswish)
hardtanh = _make_inplace(activation.hardtanh, 2)
leaky_relu = _make_inplace(activation.leaky_relu, 1)
mish = _make_inplace(activation.mish)
relu = _make_inplace(elementwise.relu)
relu6 = _make_inplace(activation.relu6)
selu = _make_inplace(activation.selu)
silu = _make_inplace(activation.silu)

__all__ = sorted({*public_names(globals())} - {"Tensor", "no_grad"})
