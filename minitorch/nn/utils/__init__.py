"""What works on the parameters of a whole model: gradients kept small, all as one vector."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from minitorch.arrays.library import Array, Namespace, asarray, device_of, namespace
from minitorch.errors import ArgumentError, GradientError, ShapeError
from minitorch.nn.utils import rnn as rnn
from minitorch.op import Op, Spec
from minitorch.ops.shaping.joining import cat
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor, tensor
from minitorch.tensor.versions import clock


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients so that the norm of all of them together is at most `max_norm`.

    Returns: that norm before scaling, 0-d.
    Raises:
        GradientError: with `error_if_nonfinite`, when the norm is infinite or not a number.
    Source: Pascanu, Mikolov & Bengio, ICML 2013.
    """
    grads = _gradients(parameters)
    if not all(hasattr(grad, "array") for grad in grads):  # a trace, which has no numbers yet
        return _clip_symbols(grads, max_norm, float(norm_type))
    norm = _norm_of([grad.array for grad in grads], float(norm_type))
    if error_if_nonfinite and not math.isfinite(norm):
        raise GradientError(
            f"clip_grad_norm_: got a gradient norm of {norm}, expected a finite one. Look for the "
            "step before, or leave error_if_nonfinite out to scale it all the same."
        )
    scale = min(1.0, max_norm / (norm + 1e-6))  # the small number is PyTorch's
    for grad in grads:
        array = grad._own_array()
        with np.errstate(invalid="ignore"):  # infinite gradients, scaled to 0, are no number
            array *= scale
        clock.tick(array)
    return tensor(norm, dtype=grads[0].dtype if grads else None)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Cut every element of the gradients to [-clip_value, clip_value]."""
    for grad in _gradients(parameters):
        if not hasattr(grad, "array"):
            grad.copy_(grad.clamp(-clip_value, clip_value))
            continue
        array = grad._own_array()
        array[...] = namespace(array).clip(array, -clip_value, clip_value)
        clock.tick(array)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if not isinstance(parameters, Iterable):
        raise TypeError(
            f"clip_grad: got a {type(parameters).__name__}, expected an iterable of parameters. "
            "Write model.parameters()."
        )
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in listed if p.grad is not None]


class TotalNorm(Op):
    """The norm of all elements of all inputs together."""

    on_arrays = True
    reads_output = False

    def __init__(self, order: float) -> None:
        self.order = order

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return it, 0-d."""
        return asarray(_norm_of(arrays, self.order), arrays[0].dtype, device_of(arrays[0]))

    def infer(self, *specs: Spec) -> Spec:
        return Spec((), specs[0].dtype)


def _clip_symbols(grads: list[Tensor], max_norm: float, order: float) -> Tensor:
    norm: Tensor = TotalNorm(order)(*grads)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    with no_grad():
        for grad in grads:
            grad.mul_(scale)
    return norm


def _norm_of(arrays: Sequence[Array], order: float) -> float:
    if order <= 0.0:
        raise ArgumentError(f"clip_grad_norm_: got norm_type {order}, expected one above 0.")
    if math.isinf(order):
        return max((float(abs(a).max()) for a in arrays), default=0.0)
    if order == 2.0 and all(isinstance(a, np.ndarray) for a in arrays):
        return math.sqrt(sum(float(np.vdot(a, a)) for a in arrays))
    return float(sum(float((abs(a) ** order).sum()) for a in arrays) ** (1.0 / order))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after another."""
    return cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of `vec` into the parameters, in place.

    Raises:
        ShapeError: the vector is longer or shorter than all parameters together.
    """
    listed = list(parameters)
    total = sum(param.numel() for param in listed)
    if vec.shape != (total,):
        raise ShapeError(
            f"vector_to_parameters: got shape {vec.shape}, expected {(total,)}, all elements."
        )
    start = 0
    with no_grad():
        for param in listed:
            param.copy_(vec[start : start + param.numel()].reshape(*param.shape))
            start += param.numel()


__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]
