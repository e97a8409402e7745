"""Losses as modules: a function of `nn.functional` with its options fixed, and their names."""

from __future__ import annotations

from minitorch.nn import functional as F
from minitorch.nn.function_module import FunctionModule


class Loss(FunctionModule):
    """A function of input and target; `reduction` is "mean", "sum" or "none", as in PyTorch."""


class MSELoss(Loss, options="reduction"):
    """(x - y)^2."""

    function = staticmethod(F.mse_loss)


class L1Loss(Loss, options="reduction"):
    """|x - y|."""

    function = staticmethod(F.l1_loss)


class SmoothL1Loss(Loss, options="reduction beta"):
    """(x - y)^2 / (2 beta) within beta, |x - y| - beta / 2 outside."""

    function = staticmethod(F.smooth_l1_loss)


class HuberLoss(Loss, options="reduction delta"):
    """(x - y)^2 / 2 within delta, delta (|x - y| - delta / 2) outside."""

    function = staticmethod(F.huber_loss)


class CrossEntropyLoss(Loss, options="weight ignore_index reduction label_smoothing"):
    """-log softmax(x) at the target class, over axis 1; a target of x's shape is probabilities."""

    function = staticmethod(F.cross_entropy)


class NLLLoss(Loss, options="weight ignore_index reduction"):
    """-x at the target class, where x is already a log probability."""

    function = staticmethod(F.nll_loss)


class BCELoss(Loss, options="weight reduction"):
    """-(y log x + (1 - y) log(1 - x))."""

    function = staticmethod(F.binary_cross_entropy)


class BCEWithLogitsLoss(Loss, options="weight reduction pos_weight"):
    """Binary cross-entropy of sigmoid(x), without overflow."""

    function = staticmethod(F.binary_cross_entropy_with_logits)


class KLDivLoss(Loss, options="reduction log_target"):
    """y (log y - x), where x is a log probability."""

    function = staticmethod(F.kl_div)


class TripletMarginLoss(Loss, options="margin p eps swap reduction"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    function = staticmethod(F.triplet_margin_loss)
