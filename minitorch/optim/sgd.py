"""Stochastic gradient descent."""

from typing import Any

from minitorch.arrays.library import Array
from minitorch.ops.elementwise.compiled import descend
from minitorch.optim.optimizer import Optimizer, Params, full_like, hyperparameters


class SGD(Optimizer):
    """w -= lr g; with momentum, b = mu b + (1 - dampening) g and w -= lr b.

    Nesterov looks ahead: w -= lr (g + mu b). Weight decay adds weight_decay * w to g.

    Source: Sutskever et al., ICML 2013, in PyTorch's form, where lr stands outside b.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        **others: bool | None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def check(self, group: dict[str, Any]) -> None:
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0.0 or group["dampening"] != 0.0):
            self.refuse("nesterov", True, "it with a momentum and with dampening 0")

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["weight_decay"]:
            g = g + group["weight_decay"] * w
        momentum = group["momentum"]
        if momentum:
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = b = full_like(w)
                b += g
            else:
                b = state["momentum_buffer"]
                b *= momentum
                b += g if not group["dampening"] else (1.0 - group["dampening"]) * g
            g = g + momentum * b if group["nesterov"] else b
        if not descend(w, g, group["lr"]):
            w -= group["lr"] * g
