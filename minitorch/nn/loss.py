"""Losses as modules: a function of `nn.functional` with its options fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from minitorch.nn import functional as F
from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class Loss(Module):
    """A function of input and target; tensors among the options become buffers.

    `reduction` is "mean", "sum" or "none", as in PyTorch.
    """

    function: ClassVar[Callable[..., Any]]
    defaults: ClassVar[Mapping[str, Any]] = {"reduction": "mean"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = list(self.defaults)
        unknown = sorted(kwargs.keys() - self.defaults.keys())
        if len(args) > len(names) or unknown:
            got = unknown or list(args)
            raise TypeError(f"{self._get_name()}: got {got}, expected {names}.")
        given = {**self.defaults, **dict(zip(names, args, strict=False)), **kwargs}
        for name, value in given.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Tensor) -> Tensor:
        """Return the loss of (input, target)."""
        options = {name: getattr(self, name) for name in self.defaults}
        result: Tensor = type(self).function(*args, **options)
        return result


class MSELoss(Loss):
    """(x - y)^2."""

    function = staticmethod(F.mse_loss)


class L1Loss(Loss):
    """|x - y|."""

    function = staticmethod(F.l1_loss)


class SmoothL1Loss(Loss):
    """(x - y)^2 / (2 beta) within beta, |x - y| - beta / 2 outside."""

    function = staticmethod(F.smooth_l1_loss)
    defaults: ClassVar[Mapping[str, Any]] = {"reduction": "mean", "beta": 1.0}


class HuberLoss(Loss):
    """(x - y)^2 / 2 within delta, delta (|x - y| - delta / 2) outside."""

    function = staticmethod(F.huber_loss)
    defaults: ClassVar[Mapping[str, Any]] = {"reduction": "mean", "delta": 1.0}


class CrossEntropyLoss(Loss):
    """-log softmax(x) at the target class, over axis 1; a target of x's shape is probabilities."""

    function = staticmethod(F.cross_entropy)
    defaults: ClassVar[Mapping[str, Any]] = {
        "weight": None,
        "ignore_index": -100,
        "reduction": "mean",
        "label_smoothing": 0.0,
    }


class NLLLoss(Loss):
    """-x at the target class, where x is already a log probability."""

    function = staticmethod(F.nll_loss)
    defaults: ClassVar[Mapping[str, Any]] = {
        "weight": None,
        "ignore_index": -100,
        "reduction": "mean",
    }


class BCELoss(Loss):
    """-(y log x + (1 - y) log(1 - x))."""

    function = staticmethod(F.binary_cross_entropy)
    defaults: ClassVar[Mapping[str, Any]] = {"weight": None, "reduction": "mean"}


class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of sigmoid(x), without overflow."""

    function = staticmethod(F.binary_cross_entropy_with_logits)
    defaults: ClassVar[Mapping[str, Any]] = {
        "weight": None,
        "reduction": "mean",
        "pos_weight": None,
    }


class KLDivLoss(Loss):
    """y (log y - x), where x is a log probability."""

    function = staticmethod(F.kl_div)
    defaults: ClassVar[Mapping[str, Any]] = {"reduction": "mean", "log_target": False}


class TripletMarginLoss(Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    function = staticmethod(F.triplet_margin_loss)
    defaults: ClassVar[Mapping[str, Any]] = {
        "margin": 1.0,
        "p": 2.0,
        "eps": 1e-6,
        "swap": False,
        "reduction": "mean",
    }
