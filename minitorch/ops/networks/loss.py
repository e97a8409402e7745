"""Losses. `reduction` is "mean", "sum" or "none"."""

import builtins
from typing import Any

from ...arrays.shapes import broadcast
from ...errors import ArgumentError, ShapeError
from ...op import Kind, Methods
from ..elementwise.activation import logsigmoid
from ..elementwise.binary import where, xlogy
from ..elementwise.formulas import Formula, at_once
from ..elementwise.pointwise import clamp_min
from ..elementwise.rows import binary
from ..elementwise.unary import abs, exp, log, log1p, sigmoid, sign
from ..products.linalg import matmul, mT
from ..reducing.reduction import mean, sum
from ..reducing.statistics import root, vector_norm
from ..shaping.movement import insert_axes


def reduce_loss(loss: Kind, reduction: str) -> Kind:
    """Return the mean, the sum, or all elements of a loss.

    Raises:
        ArgumentError: an unknown reduction.
    """
    if reduction == "mean":
        return mean(loss)
    if reduction == "sum":
        return sum(loss)
    if reduction == "none":
        return loss
    raise ArgumentError(f"loss: got reduction {reduction!r}, expected 'mean', 'sum' or 'none'.")


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────


def _same_shape(name: str, input: Methods, target: Methods) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(
            f"{name}: got {tuple(input.shape)} and target {tuple(target.shape)}, expected equal. "
            "A broadcast here is most often a mistake; reshape one."
        )


def _square(x: Any, target: Any) -> Any:
    away = x - target
    return away * away


_MSE = Formula(
    "mse_loss",
    _square,
    lambda g, x, target: g * ((x - target) * 2.0),
    lambda g, x, target: g * ((target - x) * 2.0),
)


def mse_loss(input: Kind, target: Kind, *, reduction: str = "mean") -> Kind:
    """Return (input - target)²."""
    return reduce_loss(_MSE(input, target), reduction)


def l1_loss(input: Kind, target: Methods, *, reduction: str = "mean") -> Kind:
    """Return |input - target|."""
    return reduce_loss(abs(input - target), reduction)


def smooth_l1_loss(
    input: Kind, target: Kind, *, reduction: str = "mean", beta: float = 1.0
) -> Kind:
    """Return a square below `beta`, a straight line above: d²/2β and |d| - β/2."""
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: got beta {beta}, expected 0 or more.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return reduce_loss(_SMOOTH_L1(input, target, numbers=(beta,)), reduction)


def _smooth(x: Any, target: Any, beta: float) -> Any:
    away = abs(x - target)
    return where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta)


def _smooth_slope(g: Any, x: Any, target: Any, beta: float) -> Any:
    away = x - target
    return g * where(abs(away) >= beta, sign(away), away / beta)


_SMOOTH_L1 = Formula(
    "smooth_l1_loss",
    _smooth,
    _smooth_slope,
    lambda g, x, target, beta: -_smooth_slope(g, x, target, beta),
)


def huber_loss(input: Kind, target: Kind, reduction: str = "mean", delta: float = 1.0) -> Kind:
    """Return d²/2 below `delta`, δ(|d| - δ/2) above."""
    if delta <= 0:
        raise ArgumentError(f"huber_loss: got delta {delta}, expected more than 0.")
    return reduce_loss(_HUBER(input, target, numbers=(delta,)), reduction)


def _huber_slope(g: Any, x: Any, target: Any, delta: float) -> Any:
    away = x - target
    return g * where(abs(away) >= delta, sign(away) * delta, away)


_HUBER = Formula(
    "huber_loss",
    lambda x, target, delta: _smooth(x, target, delta) * delta,
    _huber_slope,
    lambda g, x, target, delta: -_huber_slope(g, x, target, delta),
)


def binary_cross_entropy(
    input: Kind, target: Methods, weight: Methods | None = None, *, reduction: str = "mean"
) -> Kind:
    """Return -(t ln p + (1 - t) ln(1 - p)), each logarithm -100 at least.

    Raises:
        ArgumentError: an input or a target that is no probability.
    """
    _same_shape("binary_cross_entropy", input, target)
    _probabilities("inputs", input, "Use binary_cross_entropy_with_logits.")
    _probabilities("targets", target, "Classes are 0 and 1; of more, use cross_entropy.")
    loss = _binary_cross_entropy(input, target)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def _probabilities(name: str, value: Methods, next_step: str) -> None:
    array = getattr(value, "array", None)
    if array is not None and not ((array >= 0) & (array <= 1)).all():
        raise ArgumentError(
            f"binary_cross_entropy: got {name} from {float(array.min()):.4g} to "
            f"{float(array.max()):.4g}, expected 0 to 1. {next_step}"
        )


def _entropy_of_two(p: Any, target: Any) -> Any:
    yes, no = (where(x < -100.0, -100.0, x) for x in (log(p), log1p(-p)))
    return (target - 1.0) * no - target * yes


_binary_cross_entropy = binary(
    "binary_cross_entropy",
    lambda xp, p, target: at_once(_entropy_of_two, (p, target)),
    lambda g, p, target, y: g * ((p - target) / clamp_min((1.0 - p) * p, 1e-12)),
    lambda g, p, target, y: g * (log1p(-p) - log(p)),
    "The binary cross-entropy of a probability, whose slope is bounded where it is 0 or 1.",
    promotes="float",
    reads="x",
)


def binary_cross_entropy_with_logits(
    input: Kind,
    target: Kind,
    weight: Methods | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Kind | None = None,
) -> Kind:
    """Return the binary cross-entropy of sigmoid(input), without overflow."""
    _same_shape("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = _WITH_LOGITS(input, target)
    else:
        loss = (1.0 - target) * input - logsigmoid(input) * ((pos_weight - 1.0) * target + 1.0)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


_WITH_LOGITS = Formula(
    "binary_cross_entropy_with_logits",
    lambda x, target: (1.0 - target) * x - where(x < 0, x, 0.0) + log1p(exp(-abs(x))),
    lambda g, x, target: g * (sigmoid(x) - target),
    lambda g, x, target: g * -x,
)


def kl_div(input: Kind, target: Kind, *, reduction: str = "mean", log_target: bool = False) -> Kind:
    """Return t (ln t - input) for log-probabilities `input`; "batchmean" sums and divides by n."""
    entropy = exp(target) * target if log_target else xlogy(target, target)
    loss = entropy - (exp(target) if log_target else target) * input
    if reduction == "batchmean":
        return sum(loss) / float(input.shape[0] if input.shape else 1)
    return reduce_loss(loss, reduction)


# ── margins and distances ───────────────────────────────────────────────────────────────────────


def _cosines(x1: Methods, x2: Methods, left: Methods, right: Methods) -> Methods:
    return (x1 / left) * (x2 / right)


_COSINES = Formula(
    "cosine_similarity",
    _cosines,
    lambda g, x1, x2, left, right: g * (x2 / right) / left,
    lambda g, x1, x2, left, right: g * (x1 / left) / right,
    lambda g, x1, x2, left, right: -(g * _cosines(x1, x2, left, right) / left),
    lambda g, x1, x2, left, right: -(g * _cosines(x1, x2, left, right) / right),
)


def cosine_similarity(x1: Kind, x2: Kind, dim: int = 1, eps: float = 1e-8) -> Kind:
    """Return the cosine of the angle between the vectors along `dim`; norms are `eps` at least."""
    shape = broadcast(tuple(x1.shape), tuple(x2.shape), op="cosine_similarity")
    x1, x2 = (x if tuple(x.shape) == shape else x.expand(shape) for x in (x1, x2))
    left = clamp_min(vector_norm(x1, 2, dim, True), eps)
    right = clamp_min(vector_norm(x2, 2, dim, True), eps)
    return sum(_COSINES(x1, x2, left, right), dim)


def pairwise_distance(
    x1: Kind, x2: object, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Kind:
    """Return the p-norm of x1 - x2 + eps along the last axis."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def cdist(
    x1: Kind, x2: Kind, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Kind:
    """Return the p-norm of the difference of each row of (..., n, d) and each of (..., m, d).

    Euclidean distances of more than 25 rows come from one product of matrices, as in torch, unless
    `compute_mode` is "donot_use_mm_for_euclid_dist"; "use_mm_for_euclid_dist" does so always.

    Raises:
        ShapeError: fewer than two axes, or rows of different sizes.
        ArgumentError: a negative `p`, or an unknown mode.
    """
    always, never = "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"
    a, b = len(x1.shape), len(x2.shape)
    if builtins.min(a, b) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist: got {tuple(x1.shape)} and {tuple(x2.shape)}, expected (..., n, d) and "
            "(..., m, d)."
        )
    if p < 0 or compute_mode not in (always, never, f"{always}_if_necessary"):
        raise ArgumentError(f"cdist: got p {p} and compute_mode {compute_mode!r}.")
    many = builtins.max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and compute_mode != never and (many or compute_mode == always):
        lengths = sum(x1 * x1, -1, True) + mT(sum(x2 * x2, -1, True))
        return root(clamp_min(lengths - matmul(x1, mT(x2)) * 2.0, 0.0))
    return vector_norm(insert_axes(x1, (a - 1,)) - insert_axes(x2, (b - 2,)), p, -1)


def triplet_margin_loss(
    anchor: Kind,
    positive: Methods,
    negative: Methods,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Kind:
    """Return max(0, margin + distance to the positive - distance to the negative)."""
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: got margin {margin}, expected more than 0.")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        other = pairwise_distance(positive, negative, p, eps)
        far = where(other < far, other, far)
    return reduce_loss(clamp_min(near - far + margin, 0.0), reduction)


def cosine_embedding_loss(
    input1: Kind, input2: Kind, target: Methods, margin: float = 0.0, *, reduction: str = "mean"
) -> Kind:
    """Return 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    alike = cosine_similarity(input1, input2, -1)
    apart: Kind = clamp_min(alike - margin, 0.0)
    loss: Kind = where(target == 1, 1 - alike, apart)
    return reduce_loss(loss, reduction)


def margin_ranking_loss(
    input1: Kind, input2: Kind, target: Methods, margin: float = 0.0, *, reduction: str = "mean"
) -> Kind:
    """Return max(0, margin - target (input1 - input2)): the first is to be larger where it is 1."""
    loss: Kind = clamp_min(margin - (input1 - input2) * target, 0.0)
    return reduce_loss(loss, reduction)
