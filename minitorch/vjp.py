"""The gradient rule of one value: its operator's `gradient`, called and checked.

May import: errors, op, sweep. What comes back are values of the same kind as went in: tensors that
record, or nodes of a graph.
"""

from collections.abc import Sequence
from typing import Any

from .errors import GradientError, NoGradientRule, ShapeError
from .op import Value
from .sweep import ancestors, count_uses, sweep


def on_values(value: Any, grad: object) -> Sequence[Any]:
    """Rule of the sweep on values of any kind: each gradient is a new value of that kind."""
    op = value.op
    try:
        shares = op.gradient(grad, value)
    except NoGradientRule as error:
        types = ", ".join(f"{source.dtype} {tuple(source.shape)}" for source in value.inputs)
        raise NoGradientRule(f"{error} (Its inputs: {types}.)") from None
    if not isinstance(shares, tuple | list):
        shares = (shares,)
    if not op.on_arrays:
        check_shares(value, shares)
    return tuple(shares)


def check_shares(value: Any, shares: Sequence[object]) -> None:
    """Raise what is wrong with the gradients that an operator's own `gradient` returned.

    Raises:
        GradientError: not one for each input.
        ShapeError: a gradient has another shape than its input.
    """
    name, inputs = value.op.name, value.inputs
    if len(shares) != len(inputs):
        raise GradientError(
            f"{name}.gradient: got {len(shares)} gradients, expected {len(inputs)}, one for each "
            "input. Return None for an input that has none."
        )
    for i, (source, share) in enumerate(zip(inputs, shares, strict=True)):
        if share is None:
            if getattr(source, "requires_grad", False):
                raise GradientError(
                    f"{name}.gradient: got None for input {i}, which requires a gradient. Return "
                    "zeros if it does not depend on it, or detach the input."
                )
            continue
        if not isinstance(share, Value):
            raise GradientError(
                f"{name}.gradient: got {type(share).__name__} for input {i}, expected a "
                f"{type(source).__name__}. Write the gradient in the library's operators."
            )
        if None not in (*share.shape, *source.shape) and tuple(share.shape) != tuple(source.shape):
            raise ShapeError(
                f"{name}.gradient: input {i} has shape {tuple(source.shape)} but its gradient has "
                f"shape {tuple(share.shape)}. If the input was broadcast, each element was used "
                "several times: what should happen to those contributions?"
            )


def pull_back(result: Any, grad: Any, sources: Sequence[Any]) -> list[Any]:
    """Return the gradient of each of `sources`, given that of `result`; None where none flows.

    For rules that differentiate what they compute; while they do, tensors must record.
    """
    between = ancestors(sources, [result])
    shares: dict[Any, Any] = {}
    uses = count_uses([result], between.__contains__)
    sweep({result: grad}, uses, on_values, shares.__setitem__, sources)
    return [shares.get(source) for source in sources]
