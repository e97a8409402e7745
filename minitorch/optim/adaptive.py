"""Steps scaled by the squares of past gradients: Adagrad, Adadelta, RMSprop."""

from typing import Any

from minitorch.arrays.library import Array
from minitorch.optim.optimizer import Optimizer, Params, full_like, hyperparameters


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
        **others: bool | None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, sum=full_like(w, group["initial_accumulator_value"]))
        if group["weight_decay"]:
            g = g + group["weight_decay"] * w
        rate = group["lr"] / (1.0 + state["step"] * group["lr_decay"])
        state["step"] += 1
        total = state["sum"]
        total += g * g
        w -= rate * g / (total**0.5 + group["eps"])


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
        **others: bool | None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def check(self, group: dict[str, Any]) -> None:
        super().check(group)
        if not 0.0 <= group["rho"] <= 1.0:
            self.refuse("rho", group["rho"], "one in [0, 1]")

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, square_avg=full_like(w), acc_delta=full_like(w))
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
        **others: bool | None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, square_avg=full_like(w))
            if group["momentum"]:
                state["momentum_buffer"] = full_like(w)
            if group["centered"]:
                state["grad_avg"] = full_like(w)
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
