"""Derivatives by function: `backward` of several tensors; Jacobian and Hessian, row by row."""

from collections.abc import Callable
from typing import Any

from .backward import backward as _backward
from .backward import grad
from .errors import GradientError
from .ops.joining import stack
from .tensor import Tensor


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradients of `tensors`, weighted by `grad_tensors`, to `.grad` of their leaves.

    Args:
        tensors: a tensor or several.
        grad_tensors: the weight of each one's elements; may be left out for one element.
        retain_graph, create_graph: as for `Tensor.backward`.

    Raises: what `Tensor.backward` raises.
    """
    outputs = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    single = grad_tensors is None or isinstance(grad_tensors, Tensor)
    weights = [grad_tensors] * len(outputs) if single else list(grad_tensors)
    _backward(outputs, weights, retain_graph, create_graph)


def jacobian(function: Callable[..., object], inputs: Any, create_graph: bool = False) -> Any:
    """Return the derivative of each element of the result by each element of each input.

    Args:
        function: takes the inputs, returns one tensor.
        inputs: a tensor, or a tuple of them; they need not require a gradient.
        create_graph: record the result, so that it can be differentiated.

    Returns:
        shape (*result.shape, *input.shape), or a tuple of these. An input that the result does
        not depend on gives zeros.
    """
    single = isinstance(inputs, Tensor)
    points = _points((inputs,) if single else tuple(inputs), create_graph)
    result = function(*points)
    if not isinstance(result, Tensor):
        raise GradientError(
            f"jacobian: the function gave {type(result).__name__}, expected one tensor."
        )
    rows = [_row(result, i, points, create_graph) for i in range(result.numel())]
    blocks = tuple(
        stack([row[k] for row in rows]).reshape(result.shape + point.shape)
        if rows
        else point.new_zeros(result.shape + point.shape)
        for k, point in enumerate(points)
    )
    return blocks[0] if single else blocks


def _points(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    if create_graph:
        return tuple(x if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _row(result: Tensor, i: int, points: tuple[Tensor, ...], create_graph: bool) -> list[Tensor]:
    if not result.requires_grad:
        return [point.new_zeros(point.shape) for point in points]
    shares = grad(
        result.reshape(-1)[i],
        points,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )
    return [
        point.new_zeros(point.shape) if share is None else share
        for share, point in zip(shares, points, strict=True)
    ]


def hessian(function: Callable[..., Tensor], inputs: Any, create_graph: bool = False) -> Any:
    """Return the second derivatives of a function whose result is one number.

    Returns:
        shape (*input.shape, *input.shape); for several inputs a tuple of tuples.
    """
    single = isinstance(inputs, Tensor)
    points = (inputs,) if single else tuple(inputs)

    def gradient_by(k: int) -> Callable[..., Tensor]:
        def slope(*args: Tensor) -> Tensor:
            value = function(*args)
            if value.numel() != 1:
                raise GradientError(
                    f"hessian: the function gave shape {value.shape}, expected one number."
                )
            share = grad(value.reshape(()), args[k], create_graph=True, allow_unused=True)[0]
            return args[k].new_zeros(args[k].shape) if share is None else share

        return slope

    blocks = tuple(jacobian(gradient_by(k), points, create_graph) for k in range(len(points)))
    return blocks[0][0] if single else blocks
