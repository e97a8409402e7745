"""Whole derivatives of functions: Jacobian and Hessian, row by row."""

from collections.abc import Callable
from typing import Any

from minitorch.backward import grad
from minitorch.errors import GradientError
from minitorch.ops.shaping.joining import stack
from minitorch.tensor.tensor import Tensor


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
    points = [
        x if create_graph and x.requires_grad else x.detach().requires_grad_()
        for x in ((inputs,) if single else inputs)
    ]
    result = function(*points)
    if not isinstance(result, Tensor):
        raise GradientError(
            f"jacobian: the function gave {type(result).__name__}, expected one tensor."
        )
    elements = list(result.reshape(-1)) if result.requires_grad else []
    rows = [grad(y, points, None, True, create_graph, allow_unused=True) for y in elements]
    blocks = []
    for k, point in enumerate(points):
        nothing = point.new_zeros(result.numel(), *point.shape)
        shares = [nothing[i] if row[k] is None else row[k] for i, row in enumerate(rows)]
        block = stack(shares) if shares else nothing
        blocks.append(block.reshape(result.shape + point.shape))
    return blocks[0] if single else tuple(blocks)


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
