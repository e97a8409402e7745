"""Hooks around a module's forward, and in its backward, which see the gradients of both ends.

Source: torch's `BackwardHook`, an identity on each side of the forward.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minitorch.errors import GradientError
from minitorch.tensor.function import Function
from minitorch.tensor.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

Grads = Sequence[Tensor | None]


class _Passing(Function):
    """Tensors as they are; `see(grads)` returns the gradients that go on."""

    @staticmethod
    def forward(ctx: Any, see: Callable[[Grads], Grads], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.see = see
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *ctx.see(grads))


def _pass(values: tuple[object, ...], see: Callable[[Grads], Grads]) -> tuple[Any, ...]:
    """Return `values`, the gradients of whose tensors `see` gets, None for other values."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]

    def see_all(grads: Grads) -> Grads:
        by_place = dict(zip(places, grads, strict=True))
        replaced = see(tuple([by_place.get(i) for i in range(len(values))]))
        return [replaced[i] for i in places]

    passed = dict(zip(places, _Passing.apply(see_all, *[values[i] for i in places]), strict=True))
    return tuple([passed.get(i, value) for i, value in enumerate(values)])


def call_with_hooks(module: "Module", args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Return `module.forward` of the arguments, with hooks before it, after it and in backward."""
    own = module.__dict__
    for hook in list(own["_forward_pre_hooks"].values()):
        changed = hook(module, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    hooks = list(own["_backward_hooks"].values())
    if hooks:
        output = _call_with_backward_hooks(module, hooks, args, kwargs)
    else:
        output = module.forward(*args, **kwargs)
    for hook in list(own["_forward_hooks"].values()):
        changed = hook(module, args, output)
        output = output if changed is None else changed
    return output


def _call_with_backward_hooks(
    module: "Module",
    hooks: Sequence[Callable[..., object]],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Any:
    """Return `module.forward`, whose backward calls `hook(module, grad_input, grad_output)`."""
    arrived: list[Grads] = []

    def run_hooks(grad_input: Grads) -> Grads:
        for hook in hooks:
            replaced = hook(module, grad_input, arrived[-1])
            if replaced is not None:
                gradients = replaced if isinstance(replaced, tuple) else (replaced,)
                if len(gradients) != len(grad_input):
                    raise GradientError(
                        f"register_full_backward_hook: a hook of {type(module).__name__} returned "
                        f"{len(gradients)} gradients, expected {len(grad_input)}, one an input."
                    )
                grad_input = gradients
        return grad_input

    def note_outputs(grad_output: Grads) -> Grads:
        arrived.append(grad_output)
        if not flows_on:  # no argument's gradient will come
            run_hooks((None,) * len(args))
        return grad_output

    flows_on = any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
    output = module.forward(*(_pass(args, run_hooks) if flows_on else args), **kwargs)
    if isinstance(output, tuple):
        return _pass(output, note_outputs)
    return _pass((output,), note_outputs)[0]
