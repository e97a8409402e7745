"""Losses as modules: a function of `nn.functional` with its options fixed, and their names."""

from __future__ import annotations

from minitorch.nn import functional as F
from minitorch.nn.function_module import FunctionModule


class Loss(FunctionModule):
    """A function of input and target; `reduction` is "mean", "sum" or "none", as in PyTorch."""

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch does."""
        return ""


class MSELoss(Loss, of=F.mse_loss, options="reduction"):
    """(x - y)^2."""


class L1Loss(Loss, of=F.l1_loss, options="reduction"):
    """|x - y|."""


class SmoothL1Loss(Loss, of=F.smooth_l1_loss, options="reduction beta"):
    """(x - y)^2 / (2 beta) within beta, |x - y| - beta / 2 outside."""


class HuberLoss(Loss, of=F.huber_loss, options="reduction delta"):
    """(x - y)^2 / 2 within delta, delta (|x - y| - delta / 2) outside."""


class CrossEntropyLoss(
    Loss, of=F.cross_entropy, options="weight ignore_index reduction label_smoothing"
):
    """-log softmax(x) at the target class, over axis 1; a target of x's shape is probabilities."""


class NLLLoss(Loss, of=F.nll_loss, options="weight ignore_index reduction"):
    """-x at the target class, where x is already a log probability."""


class BCELoss(Loss, of=F.binary_cross_entropy, options="weight reduction"):
    """-(y log x + (1 - y) log(1 - x))."""


class BCEWithLogitsLoss(
    Loss, of=F.binary_cross_entropy_with_logits, options="weight reduction pos_weight"
):
    """Binary cross-entropy of sigmoid(x), without overflow."""


class KLDivLoss(Loss, of=F.kl_div, options="reduction log_target"):
    """y (log y - x), where x is a log probability."""


class TripletMarginLoss(Loss, of=F.triplet_margin_loss, options="margin p eps swap reduction"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
