"""Losses. `reduction` is "mean", "sum" or "none"."""

import math
from typing import Any

import numpy as np

from ..arrays import as_dtype, cast
from ..errors import ArgumentError, AxisError, ShapeError
from ..op import Op, Spec, apply
from ..shapes import broadcast
from .binary import where, xlogy
from .casting import cast_to
from .elementwise import abs, exp, log, log1p, logsigmoid, sqrt, zeros_like
from .gathering import gather
from .movement import insert_axes, remove_axes, reshape
from .normalization import LogSoftmax, Softmax
from .pointwise import clamp_min
from .reduction import mean, sum
from .statistics import vector_norm


def reduced(loss: Any, reduction: str) -> Any:
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


# ── classes ─────────────────────────────────────────────────────────────────────────────────────


def _in_range(index: Any, classes: int) -> bool:
    """Tell whether all of a NumPy vector is in range(classes), with one comparison."""
    if index.dtype == np.int64:
        return not index.size or bool(index.view(np.uint64).max() < classes)
    return not index.size or bool(index.min() >= 0 and index.max() < classes)


def _rows(xp: Any, index: Any, classes: int, ignore: int) -> tuple[Any, Any, Any]:
    """Return the classes made safe to index with, which rows count (None: all), and how many.

    Raises:
        AxisError: a class out of range.
    """
    if xp is np and not 0 <= ignore < classes and _in_range(index, classes):
        return index, None, len(index)
    counts = index != ignore
    safe = xp.where(counts, index, xp.zeros_like(index))
    if xp is np and not _in_range(safe, classes):
        raise AxisError(
            f"cross_entropy: got a class of {int(safe.max())} or {int(safe.min())}, expected 0 to "
            f"{classes - 1}."
        )
    return safe, counts, xp.sum(cast(counts, np.dtype(np.int64)))


class CrossEntropy(Op):
    """Mean over rows of ln Σ exp x - x[class]: one pass, no table of probabilities."""

    on_arrays = True
    fixed = 0
    reads_output = False
    name = "cross_entropy"

    def __init__(self, ignore_index: int) -> None:
        self.ignore_index = ignore_index

    def compute(self, xp: Any, x: Any, index: Any) -> Any:
        """Return the mean for logits (n, classes) and classes (n,)."""
        safe, counts, n = _rows(xp, index, x.shape[1], self.ignore_index)
        away = x - xp.max(x, axis=1, keepdims=True)
        picked = away[xp.arange(x.shape[0]), safe]
        losses = xp.log(xp.sum(xp.exp(away), axis=1)) - picked
        if counts is not None:
            losses = xp.where(counts, losses, xp.zeros_like(losses))
        return xp.sum(losses) / n

    def infer(self, *specs: Spec) -> Spec:
        """Return a 0-d spec.

        Raises:
            ShapeError: not (n, classes) and (n,).
        """
        x, index = specs[0].shape, specs[1].shape
        if len(x) != 2 or len(index) != 1 or (x[0] != index[0] and None not in (x[0], index[0])):
            raise ShapeError(
                f"cross_entropy: got logits {x} and classes {index}, expected (n, classes) and (n,)."
            )
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return (softmax - one hot) / n, times the gradient."""
        x, index = node.inputs
        return apply(CrossEntropyGrad(self.ignore_index), x, index, out_grad), None


class CrossEntropyGrad(Op):
    """(softmax x - one hot) · g / n: the gradient of `CrossEntropy`, itself differentiable."""

    on_arrays = True
    reads_output = False

    def __init__(self, ignore_index: int) -> None:
        self.ignore_index = ignore_index

    def compute(self, xp: Any, x: Any, index: Any, g: Any) -> Any:
        """Return the gradient of the logits."""
        safe, counts, n = _rows(xp, index, x.shape[1], self.ignore_index)
        y = Softmax(1).compute(xp, x)
        y[xp.arange(x.shape[0]), safe] -= 1
        if counts is not None:
            y = xp.where(counts[:, None], y, xp.zeros_like(y))
        y *= g / n
        return y

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the logits."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Softmax has the derivative y (v - Σ v y); the one hot part has none."""
        x, index, g = node.inputs
        weighted = apply(CrossEntropyWeights(self.ignore_index), x, index) * out_grad
        y = apply(Softmax(1), x)
        curved = weighted * y - y * sum(weighted * y, 1, True)
        slope = apply(CrossEntropyGrad(self.ignore_index), x, index, g * 0.0 + 1.0)
        return curved * g, None, sum(slope * out_grad)


class CrossEntropyWeights(Op):
    """1 / n in each row that counts, else 0: of the shape of the logits."""

    on_arrays = True
    reads_inputs = reads_output = False

    def __init__(self, ignore_index: int) -> None:
        self.ignore_index = ignore_index

    def compute(self, xp: Any, x: Any, index: Any) -> Any:
        """Return the weights."""
        _, counts, n = _rows(xp, index, x.shape[1], self.ignore_index)
        weights = xp.ones_like(x) / n
        return weights if counts is None else xp.where(counts[:, None], weights, 0 * weights)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the logits."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The weights do not depend on the logits."""
        return None, None


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return ln Σ exp x - x[class] for logits `input` and classes, or probabilities, `target`.

    Args:
        input: logits (classes,), (n, classes) or (n, classes, ...).
        target: classes, of the shape without the classes' axis, or probabilities of the shape of
            `input`.
        weight: of each class, (classes,).
        size_average: not used; here for the order of torch's arguments.
        ignore_index: a class whose rows do not count.
        reduce: not used; as `size_average`.
        reduction: "mean" (over the weights of the rows), "sum" or "none".
        label_smoothing: the part of the target that is spread over all classes, 0 to 1.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: an unknown reduction, or a smoothing out of range.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            f"cross_entropy: got label_smoothing {label_smoothing}, expected 0 to 1."
        )
    plain = weight is None and reduction == "mean" and not label_smoothing
    by_class = as_dtype(target.dtype).kind != "f"
    if plain and by_class and len(input.shape) == 2 and len(target.shape) == 1:
        op = CrossEntropy(ignore_index)
        op.infer(Spec(tuple(input.shape), input.dtype), Spec(tuple(target.shape), target.dtype))
        return apply(op, input, target)
    d = 0 if len(input.shape) == 1 else 1
    logs = apply(LogSoftmax(d), input)
    if not by_class:
        return _soft(logs, target, weight, reduction, label_smoothing, d)
    hard = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction="none")
    counts = target != ignore_index
    share = _class_weights(logs, target, weight, counts)
    if label_smoothing:
        classes = logs.shape[d]
        scaled = logs if weight is None else logs * _along(weight, len(logs.shape), d)
        spread = where(counts, -sum(scaled, d), 0.0) * (label_smoothing / classes)
        hard = hard * (1.0 - label_smoothing) + spread
    return sum(hard) / sum(share) if reduction == "mean" else reduced(hard, reduction)


def _along(weight: Any, rank: int, d: int) -> Any:
    return reshape(weight, [-1 if i == d else 1 for i in range(rank)])


def _soft(logs: Any, target: Any, weight: Any, reduction: str, smoothing: float, d: int) -> Any:
    if tuple(target.shape) != tuple(logs.shape):
        raise ShapeError(
            f"cross_entropy: got probabilities {tuple(target.shape)}, expected {tuple(logs.shape)}."
        )
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / logs.shape[d]
    scaled = logs if weight is None else logs * _along(weight, len(logs.shape), d)
    losses = -sum(scaled * target, d)
    if reduction != "mean":
        return reduced(losses, reduction)
    return sum(losses) / float(max(math.prod(losses.shape), 1))


def _class_weights(logs: Any, target: Any, weight: Any, counts: Any) -> Any:
    if weight is None:
        return cast_to(counts, logs.dtype)
    return where(counts, weight[where(counts, target, 0)], 0.0)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return -input[class] for log-probabilities; arguments as `cross_entropy`."""
    d = 0 if len(input.shape) == 1 else 1
    wanted = tuple(input.shape[:d]) + tuple(input.shape[d + 1 :])
    if not input.shape or tuple(target.shape) != wanted:
        raise ShapeError(
            f"nll_loss: got target {tuple(target.shape)} for input {tuple(input.shape)}, expected "
            f"{wanted}."
        )
    counts = target != ignore_index
    safe = where(counts, target, zeros_like(target))
    picked = remove_axes(gather(input, d, insert_axes(safe, (d,))), (d,))
    share = _class_weights(input, target, weight, counts)
    losses = where(counts, -picked * share, 0.0)
    return sum(losses) / sum(share) if reduction == "mean" else reduced(losses, reduction)


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────


def _same_shape(name: str, input: Any, target: Any) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(
            f"{name}: got {tuple(input.shape)} and target {tuple(target.shape)}, expected the same. "
            "A broadcast here is most often a mistake; reshape one."
        )


def mse_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Return (input - target)²."""
    away = input - target
    return reduced(away * away if weight is None else away * away * weight, reduction)


def l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """Return |input - target|."""
    away = abs(input - target)
    return reduced(away if weight is None else away * weight, reduction)


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """Return a square below `beta`, a straight line above: d²/2β and |d| - β/2."""
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: got beta {beta}, expected 0 or more.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    away = abs(input - target)
    return reduced(where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta), reduction)


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Return d²/2 below `delta`, δ(|d| - δ/2) above."""
    if delta <= 0:
        raise ArgumentError(f"huber_loss: got delta {delta}, expected more than 0.")
    away = abs(input - target)
    loss = where(away <= delta, away * away * 0.5, (away - 0.5 * delta) * delta)
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return -(t ln p + (1 - t) ln(1 - p)), each logarithm -100 at least."""
    _same_shape("binary_cross_entropy", input, target)
    yes, no = clamp_min(log(input), -100.0), clamp_min(log1p(-input), -100.0)
    loss = (target - 1.0) * no - target * yes
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """Return the binary cross-entropy of sigmoid(input), without overflow."""
    _same_shape("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        loss = (1.0 - target) * input - logsigmoid(input)
    else:
        loss = (1.0 - target) * input - logsigmoid(input) * ((pos_weight - 1.0) * target + 1.0)
    return reduced(loss if weight is None else loss * weight, reduction)


def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """Return t (ln t - input) for log-probabilities `input`; "batchmean" sums and divides by n."""
    if log_target:
        loss = exp(target) * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(loss) / float(input.shape[0] if input.shape else 1)
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return the negative log-likelihood of counts; `full` adds Stirling's term."""
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Return the negative log-likelihood of normal distributions; `full` adds the constant."""
    if not hasattr(var, "shape"):
        var = zeros_like(input) + var
    if tuple(var.shape) == tuple(input.shape[:-1]) and tuple(var.shape) != tuple(input.shape):
        var = insert_axes(var, (len(var.shape),))
    held = clamp_min(var.detach() if hasattr(var, "detach") else var, eps)
    held = var + (held - (var.detach() if hasattr(var, "detach") else var))
    away = input - target
    loss = (log(held) + away * away / held) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


# ── margins and distances ───────────────────────────────────────────────────────────────────────


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return `input` where the target is 1, max(0, margin - input) where it is -1."""
    far = clamp_min(margin - input, 0.0)
    return reduced(where(target != 1, far, 0.0) + where(target != -1, input, 0.0), reduction)


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return max(0, margin - target (input1 - input2))."""
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0.0), reduction)


def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return ln(1 + exp(-target·input))."""
    return reduced(-logsigmoid(target * input), reduction)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosine of the angle between the vectors along `dim`; norms count `eps` at least."""
    shape = broadcast(tuple(x1.shape), tuple(x2.shape), op="cosine_similarity")
    x1, x2 = x1.expand(shape), x2.expand(shape)
    left = clamp_min(vector_norm(x1, 2, dim, True), eps)
    right = clamp_min(vector_norm(x2, 2, dim, True), eps)
    return sum((x1 / left) * (x2 / right), dim)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """Return the p-norm of x1 - x2 + eps along the last axis."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    d = len(target.shape)
    epsilon = 1e-12
    dots = sum(input1 * input2, d)
    lengths = sqrt((sum(input1 * input1, d) + epsilon) * (sum(input2 * input2, d) + epsilon))
    cos = dots / lengths
    zero = zeros_like(cos)
    loss = where(target == 1, 1.0 - cos, zero) + where(
        target == -1, clamp_min(cos - margin, 0.0), zero
    )
    return reduced(loss, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Return max(0, margin + distance to the positive - distance to the negative)."""
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        other = pairwise_distance(positive, negative, p, eps)
        far = where(other < far, other, far)
    return reduced(clamp_min(near - far + margin, 0.0), reduction)
