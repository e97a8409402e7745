"""Activations with torch's `inplace` argument: with it the result overwrites the input.

May import: errors, ops.
"""

import functools
from collections.abc import Callable
from typing import Any

from ...errors import DTypeError
from ...ops import activation, elementwise


def overwriting(function: Callable[..., object], options: int = 0) -> Callable[..., Any]:
    """Return `function` with a last argument `inplace`, after its own `options`.

    Raises:
        DTypeError: `inplace` on what is no tensor.
        GradientError: it is a leaf that requires a gradient, or a view, while recording.
    """

    @functools.wraps(function)
    def call(input: object, *given: object, inplace: bool = False, **named: object) -> Any:
        if len(given) > options:
            *given, inplace = given  # type: ignore[assignment]
        if not inplace:
            return function(input, *given, **named)
        if not hasattr(input, "_updated"):
            raise DTypeError(
                f"{function.__name__}: got inplace=True for {type(input).__name__}, expected a "
                "tensor. Leave inplace out."
            )
        return input._updated(f"{function.__name__}_", function, *given, **named)

    return call


elu = overwriting(activation.elu, 1)
hardsigmoid = overwriting(activation.hardsigmoid)
hardswish = overwriting(activation.hardswish)
hardtanh = overwriting(activation.hardtanh, 2)
leaky_relu = overwriting(activation.leaky_relu, 1)
mish = overwriting(activation.mish)
relu = overwriting(elementwise.relu)
relu6 = overwriting(activation.relu6)
selu = overwriting(activation.selu)
silu = overwriting(activation.silu)
