"""Adadelta."""

from __future__ import annotations

from typing import Any

from minitorch.arrays import Array
from minitorch.optim.optimizer import Optimizer, Params, filled_like


class Adadelta(Optimizer):
    """v = rho v + (1 - rho) g^2; d = g sqrt(u + eps) / sqrt(v + eps); w -= lr d.

    u is to d what v is to g, and moves after d was computed.

    Source: Zeiler, ADADELTA: An Adaptive Learning Rate Method, arXiv 1212.5701, 2012.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: dict[str, Any]) -> None:
        """Raise unless the hyperparameters make sense."""
        super().check(group)
        if not 0.0 <= group["rho"] <= 1.0:
            self.refuse("rho", group["rho"], "one in [0, 1]")

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Take one step on `w`."""
        if not state:
            state.update(step=0, square_avg=filled_like(w), acc_delta=filled_like(w))
        state["step"] += 1
        if group["weight_decay"]:
            g = g + group["weight_decay"] * w
        rho, eps = group["rho"], group["eps"]
        v, u = state["square_avg"], state["acc_delta"]
        v *= rho
        v += (1.0 - rho) * (g * g)
        d = g * (u + eps) ** 0.5 / (v + eps) ** 0.5
        u *= rho
        u += (1.0 - rho) * (d * d)
        w -= group["lr"] * d
