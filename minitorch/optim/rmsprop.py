"""RMSprop."""

from __future__ import annotations

from typing import Any

from minitorch.arrays import Array
from minitorch.optim.optimizer import Optimizer, Params, filled_like


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; w -= lr g / (sqrt(v) + eps), with momentum if asked.

    `centered` divides by the standard deviation instead: sqrt(v - mean(g)^2).

    Source: Tieleman & Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Take one step on `w`."""
        if not state:
            state.update(step=0, square_avg=filled_like(w))
            if group["momentum"]:
                state["momentum_buffer"] = filled_like(w)
            if group["centered"]:
                state["grad_avg"] = filled_like(w)
        state["step"] += 1
        if group["weight_decay"]:
            g = g + group["weight_decay"] * w
        alpha, v = group["alpha"], state["square_avg"]
        v *= alpha
        v += (1.0 - alpha) * (g * g)
        if group["centered"]:
            mean = state["grad_avg"]
            mean += (1.0 - alpha) * (g - mean)
            g = g / ((v - mean * mean) ** 0.5 + group["eps"])
        else:
            g = g / (v**0.5 + group["eps"])
        if group["momentum"]:
            b = state["momentum_buffer"]
            b *= group["momentum"]
            b += g
            g = b
        w -= group["lr"] * g
