"""`Function`: an operation with a backward of the program's own, in PyTorch's form.

`Op` is the library's own form, which runs in graphs and in `jit` too; a `Function` is for tensors.

May import: errors, arrays, op, this folder.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..arrays.library import Device, DType, copy_array
from ..errors import GradientError, ModifiedInPlace, ShapeError
from ..op import Op
from .creation import as_tensor, zeros
from .hub import Arriving, Output, attach
from .modes import no_grad, recording
from .tensor import Tensor
from .versions import clock

Values = Sequence[object]
Spec = tuple[tuple[int, ...], DType, Device]


class Context:
    """What `forward` leaves for `backward`: attributes of any name, and saved tensors.

    Attributes:
        needs_input_grad: for each argument of `apply`, whether it requires a gradient.
        hub: what the results come from, while a backward that is recorded runs.
    """

    def __init__(self, args: Sequence[object]) -> None:
        self.needs_input_grad = tuple([getattr(arg, "requires_grad", False) for arg in args])
        self.hub: Tensor | None = None
        self.places: dict[int, int] = {}  # saved tensors that are results: which one
        self._saved: list[tuple[Tensor | None, int]] = []
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors, arguments or results, for `backward`."""
        self._saved = [(tensor, clock.now) for tensor in tensors]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that `forward` saved.

        Raises:
            ModifiedInPlace: one was overwritten since.
        """
        tensors = []
        for i, (tensor, stamp) in enumerate(self._saved):
            if tensor is not None and clock.last(tensor.array) > stamp:
                raise ModifiedInPlace(
                    f"saved_tensors: a tensor of shape {tensor.shape} was overwritten in place "
                    "after save_for_backward. Save a clone, or update after backward."
                )
            if tensor is not None and i in self.places and self.hub is not None:
                tensor = Tensor._new(tensor.array)  # the result, with its place in the graph
                tensor.requires_grad, tensor.op = True, Output(self.places[i])
                tensor.inputs = (self.hub,)
            tensors.append(tensor)
        return tuple(tensors)

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Let these results require no gradient."""
        self._constant = results

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros, rather than None, for a result that is not used."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Refuse: a `Function` overwrites no argument."""
        raise GradientError(
            "mark_dirty: got an argument that forward overwrites, expected none. Return a new "
            "tensor, and copy_() it over the argument outside."
        )


def _missing(*args: object) -> NoReturn:
    raise NotImplementedError(
        "Function: forward or backward is missing. Define forward(ctx, ...) and "
        "backward(ctx, grad, ...) as static methods."
    )


class Function:
    """Base of operations with a backward of their own: write both, then call `apply`.

    class Sign(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sign()

        @staticmethod
        def backward(ctx, grad):
            return grad

    `backward` gets the gradient of each result, and returns one for each argument of `forward`:
    None where there is none.
    """

    forward: Callable[..., object] = staticmethod(_missing)
    backward: Callable[..., object] = staticmethod(_missing)
    setup_context: Callable[..., object] | None = None

    @classmethod
    def apply(cls, *args: object) -> Any:
        """Return `forward` of the arguments, remembered with `backward` for its gradient."""
        ctx = Context(args)
        with no_grad():
            if cls.setup_context is None:
                outputs = cls.forward(ctx, *args)
            else:
                outputs = cls.forward(*args)
                cls.setup_context(ctx, args, outputs)
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        tensors = tuple([Tensor._new(r.array) if isinstance(r, Tensor) else r for r in results])
        if recording.on and any(ctx.needs_input_grad):
            _remember(cls, ctx, args, results, tensors)
        return tensors if isinstance(outputs, tuple) else tensors[0]


def _remember(
    cls: type[Function], ctx: Context, args: Values, results: Values, tensors: Values
) -> None:
    """Let what `forward` made remember how to go back."""
    for i, (tensor, _) in enumerate(ctx._saved):
        for place, result in enumerate(results):
            if tensor is result and not any(tensor is arg for arg in args):
                ctx.places[i] = place
    flowing = {
        place: value
        for place, (result, value) in enumerate(zip(results, tensors, strict=True))
        if isinstance(value, Tensor) and value.dtype.kind == "f"
        if not any(result is constant for constant in ctx._constant)
    }
    inputs = tuple([arg for arg in args if isinstance(arg, Tensor)])
    call = _Call(cls, ctx, [isinstance(arg, Tensor) for arg in args], tensors)
    attach(call, inputs, flowing)


class _Call(Op):
    """One call of a `Function`, for its backward."""

    on_arrays = True
    reads_inputs = False

    def __init__(
        self, cls: type[Function], ctx: Context, tensors: list[bool], values: Values
    ) -> None:
        self.cls, self.ctx, self.tensors = cls, ctx, tensors
        self.specs = [
            (r.shape, r.dtype, r.device) if isinstance(r, Tensor) else None for r in values
        ]

    @property
    def name(self) -> str:
        """The name of the function's class."""
        return self.cls.__name__

    def attributes(self) -> dict[str, object]:
        """Return nothing: what it holds belongs to one call."""
        return {}

    def gradient(self, out_grad: Arriving, node: Tensor) -> Any:
        """Return what `backward` gives for each tensor among the arguments."""
        records = isinstance(node, Tensor)
        by_place = out_grad.by_place
        grads = [self._as_tensor(by_place.get(i), spec) for i, spec in enumerate(self.specs)]
        self.ctx.hub = node if records else None
        try:
            shares = self.cls.backward(self.ctx, *grads)
        finally:
            self.ctx.hub = None
        shares = self._of_tensors(shares if isinstance(shares, tuple) else (shares,), node)
        if records:
            return tuple([s.clone() if any(s is g for g in grads) else s for s in shares])
        received = [grad.array for grad in grads if grad is not None]
        arrays: list[Any] = [None if share is None else share.array for share in shares]
        return tuple([copy_array(a) if any(a is r for r in received) else a for a in arrays])

    def _as_tensor(self, grad: object, spec: Spec | None) -> Tensor | None:
        """Return the gradient of a result as `backward` gets it: a tensor, or None."""
        if grad is None and spec is not None and self.ctx._materialize:
            shape, dtype, device = spec
            return zeros(shape, dtype=dtype, device=device)
        return grad if grad is None or isinstance(grad, Tensor) else as_tensor(grad)

    def _of_tensors(self, shares: Sequence[Any], node: Tensor) -> list[Any]:
        """Return the gradients of the tensors among the arguments.

        Raises:
            GradientError: there is not one for each argument.
            ShapeError: one has another shape than its argument.
        """
        count = len(self.tensors)
        if len(shares) < count or any(share is not None for share in shares[count:]):
            raise GradientError(
                f"{self.name}.backward: got {len(shares)} gradients, expected {count}, one for "
                "each argument of forward. Return None for one that has none."
            )
        picked = [share for share, tensor in zip(shares, self.tensors, strict=False) if tensor]
        for i, (share, source) in enumerate(zip(picked, node.inputs, strict=True)):
            if share is not None and tuple(share.shape) != tuple(source.shape):
                raise ShapeError(
                    f"{self.name}.backward: tensor {i} has shape {tuple(source.shape)} but its "
                    f"gradient has shape {tuple(share.shape)}. Sum over what was broadcast."
                )
        return picked
