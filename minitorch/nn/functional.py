"""Torch's `nn.functional`: the operators of a network, by name; each is defined in `ops`.

Some activations take torch's `inplace`: with it the result overwrites the input.
"""

import collections.abc
import functools
import math
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
from ..ops.products.conv import each
from ..ops.products.linalg import linear as linear
from ..ops.reducing import statistics
from ..ops.shaping.borders import pad as pad
from ..ops.shaping.gathering import one_hot as one_hot
from ..tensor.creation import ones, rand_like, zeros_like
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


def _drop_channels(input: Tensor, p: float, training: bool, axes: int) -> Tensor:
    """Return `input` with whole channels dropped, each its last `axes` axes."""
    shape = (*input.shape[: input.ndim - axes], *(1,) * axes)
    keep = ones(shape, dtype=input.dtype, device=input.device)
    return input * random.dropout(keep, p, training) if training else input


def _dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return `input`, (N, C, L) or (C, L), with each channel 0 with probability `p`, as dropout."""
    return _drop_channels(input, p, training, 1)


def _dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return `input`, (N, C, H, W) or (C, H, W), with each channel 0 with probability `p`."""
    return _drop_channels(input, p, training, 2)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return draws from classes by softmax(logits), as smooth functions of `logits`.

    Args:
        logits: along `dim` a logarithm of a weight for each class.
        tau: how near to 0 and 1 the draws are: the smaller, the nearer.
        hard: return 0 and 1, with the gradient of the smooth draws.
        eps: changes nothing, as in torch.
        dim: the axis of the classes.
    Source: Jang, Gu & Poole, ICLR 2017; Maddison, Mnih & Teh, ICLR 2017.
    """
    noise = -(-rand_like(logits).log()).log()
    smooth = softmax((logits + noise) / tau, dim)
    if not hard:
        return smooth
    places = smooth.argmax(dim, keepdim=True)
    return zeros_like(smooth).scatter(dim, places, 1.0) - smooth.detach() + smooth


def unfold(
    input: Tensor,
    kernel_size: int | collections.abc.Sequence[int],
    dilation: int | collections.abc.Sequence[int] = 1,
    padding: int | collections.abc.Sequence[int] = 0,
    stride: int | collections.abc.Sequence[int] = 1,
) -> Tensor:
    """Return the windows of images (N, C, H, W) as columns, (N, C * elements, windows)."""
    if input.ndim == 3:
        return unfold(input[None], kernel_size, dilation, padding, stride)[0]
    sizes, gaps, (high, wide), steps = (
        each("unfold", value, 2) for value in (kernel_size, dilation, padding, stride)
    )
    windows = pad(input, (wide, wide, high, high))
    for d in (0, 1):
        windows = windows.unfold(d + 2, gaps[d] * (sizes[d] - 1) + 1, steps[d])
    windows = windows[..., :: gaps[0], :: gaps[1]].permute(0, 1, 4, 5, 2, 3)
    n, c, *_, rows, columns = windows.shape
    return windows.reshape(n, c * math.prod(sizes), rows * columns)


dropout = _make_inplace(random.dropout, 2)
dropout1d = _make_inplace(_dropout1d, 2)
dropout2d = _make_inplace(_dropout2d, 2)
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

NOT_HERE = {"NOT_HERE", "Tensor", "each", "no_grad", "ones", "rand_like", "zeros_like"}
__all__ = sorted({*public_names(globals())} - NOT_HERE)
