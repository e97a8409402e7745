"""Adam, and AdamW, whose weight decay does not pass through the moments."""

from typing import Any

import numpy as np

from minitorch.arrays.library import Array, namespace
from minitorch.ops.elementwise import compiled
from minitorch.optim.optimizer import Optimizer, Params, full_like, hyperparameters

ONE_PASS = 2**12  # elements, from which on a kernel is worth its call


class Adam(Optimizer):
    """Decaying means m of g and v of g^2, corrected for their start at 0.

        w -= lr * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

    Weight decay adds weight_decay * w to g. With `amsgrad`, v is the largest so far.

    Source: Kingma & Ba, ICLR 2015; Reddi, Kale & Kumar, ICLR 2018.
    """

    decoupled = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **others: bool | None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def update(self, w: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, exp_avg=full_like(w), exp_avg_sq=full_like(w))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = full_like(w)
        state["step"] += 1
        if self._in_one_pass(w, g, state, group):
            return
        lr, (b1, b2) = group["lr"], group["betas"]
        if group["weight_decay"]:
            if self.decoupled:
                w *= 1.0 - lr * group["weight_decay"]
            else:
                g = g + group["weight_decay"] * w
        m, v = state["exp_avg"], state["exp_avg_sq"]
        m += (1.0 - b1) * (g - m)
        v *= b2
        v += (1.0 - b2) * (g * g)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest[...] = largest + (v - largest) * (v > largest)
            v = largest
        t = state["step"]
        root = v**0.5
        root *= 1.0 / (1.0 - b2**t) ** 0.5
        root += group["eps"]
        w -= (lr / (1.0 - b1**t)) * m / root

    def _in_one_pass(self, w: Array, g: Array, state: dict[str, Any], group: Any) -> bool:
        """Do the same, to the bit, in one kernel where the arrays are large; tell whether."""
        arrays = (w, g, state["exp_avg"], state["exp_avg_sq"])
        coupled = group["weight_decay"] and not self.decoupled
        if group["amsgrad"] or coupled or not compiled.fits(namespace(w), *arrays, least=ONE_PASS):
            return False
        if not all(a.flags.c_contiguous for a in arrays):
            return False
        lr, (b1, b2), t = group["lr"], group["betas"], state["step"]
        keep = 1.0 - lr * group["weight_decay"]
        root_scale = 1.0 / (1.0 - b2**t) ** 0.5
        numbers = [keep, 1.0 - b1, b2, 1.0 - b2, root_scale, group["eps"], lr / (1.0 - b1**t)]
        flat = (*(a.reshape(-1) for a in arrays), np.array(numbers, w.dtype))
        compiled.run_rows("adam", flat, 0.0)
        return True


class AdamW(Adam):
    """Adam with weight decay taken off the weights: w *= 1 - lr * weight_decay.

    Source: Loshchilov & Hutter, ICLR 2019.
    """

    decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **others: bool | None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **others)
