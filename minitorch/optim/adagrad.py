"""Adagrad."""

from __future__ import annotations

from typing import Any

from minitorch.arrays import Array
from minitorch.optim.optimizer import Optimizer, Params, filled_like


class Adagrad(Optimizer):
    """a += g^2; w -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(a) + eps).

    Source: Duchi, Hazan & Singer, JMLR 12, 2011.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: dict[str, Any]) -> None:
        """Raise unless the hyperparameters make sense."""
        super().check(group)
        if not group["initial_accumulator_value"] >= 0.0:
            start = group["initial_accumulator_value"]
            self.refuse("initial_accumulator_value", start, "0 or more")

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Take one step on `w`."""
        if not state:
            state.update(step=0, sum=filled_like(w, group["initial_accumulator_value"]))
        if group["weight_decay"]:
            g = g + group["weight_decay"] * w
        rate = group["lr"] / (1.0 + state["step"] * group["lr_decay"])
        state["step"] += 1
        total = state["sum"]
        total += g * g
        w -= rate * g / (total**0.5 + group["eps"])
