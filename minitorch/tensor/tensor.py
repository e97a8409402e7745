"""`Tensor`, the imperative value: it computes at once and remembers how it was computed.

A tensor that requires a gradient keeps the operator and the inputs it came from (`op`, `inputs`).
That is the whole graph; reference counting frees it when its last tensor is dropped. Torch's
operators are methods (`ops.methods`), its in-place updates are in `inplace`, its conversions
in `conversions`.

May import: this folder, errors, arrays, op, ops, backward.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..arrays import library as _arrays
from ..arrays.library import (
    HOST_TYPES,
    Array,
    Device,
    DeviceLike,
    DType,
    DTypeLike,
    as_dtype,
    asarray,
    device_of,
    dtype_of,
    float16,
    float32,
)
from ..arrays.shapes import INTEGERS
from ..backward import backward
from ..errors import DTypeError, GradientError, ModifiedInPlace, ShapeError
from ..op import Op, check_result
from ..ops.elementwise.rows import compute_in_float32
from .conversions import Exchange
from .eager import explain, host_arrays, prepare, quiet, run_op
from .hooks import Handle, Hooks, add_hook
from .modes import recording
from .rebase import FREED, note_view
from .versions import clock

_blank = object.__new__
_ndarray = np.ndarray


class Tensor(Exchange):
    """An array that remembers how it came to be. `Tensor(data)` is float32, as in torch."""

    __slots__ = (
        "__weakref__", "_grad", "_stamp", "array", "hooks", "inputs", "op", "past",
        "requires_grad", "viewing",
    )  # fmt: skip

    array: Array
    """The numbers: an array of the device's library; NumPy's scalars count as 0-d arrays."""
    requires_grad: bool
    op: Op | None
    inputs: tuple["Tensor", ...]
    hooks: Hooks | None
    past: "tuple[tuple[int, Tensor], ...]"
    """What this tensor was before each recorded in-place update; not set before the first."""
    viewing: "tuple[Op, tuple[Tensor, ...]] | None"
    """How a view that is not recorded was made, None under `no_grad`; not set on anything else."""
    _grad: "Tensor | None"
    _stamp: int
    has_numbers: ClassVar[bool] = True
    """False for what stands for a tensor while a function is traced."""

    def __init__(self, *data: Any) -> None:
        sizes = len(data) > 1 or (len(data) == 1 and isinstance(data[0], INTEGERS))
        source = np.zeros(data) if sizes else data[0] if data else ()
        self.array = asarray(plain(source), _arrays.get_default_dtype())
        self.requires_grad, self.op, self.inputs = False, None, ()
        self._grad, self._stamp, self.hooks = None, clock.now, None

    @staticmethod
    def _new(array: Array) -> "Tensor":
        """Return a leaf around `array`, which is not copied."""
        leaf: Tensor = _blank(Tensor)
        leaf.array = array
        leaf.requires_grad, leaf.op, leaf.inputs = False, None, ()
        leaf._grad, leaf._stamp, leaf.hooks = None, clock.now, None
        return leaf

    @classmethod
    def _from_filled(cls, array: Array) -> "Tensor":
        """Return a leaf around an array of one number, to be written into."""
        return cls._new(array)

    @classmethod
    def _draw(cls, op: Op, place: Device) -> "Tensor":
        """Return the random numbers that `op` draws, on a device."""
        return cls._new(op.compute(_arrays.namespace_on(place)))

    def _apply(self, op: Op, inputs: tuple[Any, ...]) -> "Tensor":
        """Return `op` of `inputs`; remembered when an input requires a gradient."""
        try:
            if op.views and len(inputs) == 1 and type(self.array) is _ndarray:
                result = op.compute(np, self.array)  # nothing to prepare, nor to warn of
            elif (arrays := host_arrays(op, inputs, Tensor)) is None:
                inputs = prepare(op, inputs, Tensor)
                result = run_op(op, [value.array for value in inputs])
            elif op.on_arrays:
                if arrays[0].dtype is float16:
                    result = quiet.run(compute_in_float32, op, np, *arrays)
                else:
                    result = quiet.run(op.compute, np, *arrays)
            else:  # a learner's operator, which might come back into that context
                result = check_result(op, op.compute(np, *arrays))
        except Exception as error:
            better = explain(op, inputs, error)
            if better is error:
                raise
            raise better from error
        output: Tensor = _blank(Tensor)
        output.array = result
        output.requires_grad, output.op, output.inputs = False, None, ()
        output._grad, output._stamp, output.hooks = None, clock.now, None
        if recording.on:
            _record(output, op, inputs)
        elif op.views:
            output.viewing = None
        return output

    # ── what it is ──────────────────────────────────────────────────────────────────────────────

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        shape = self.array.shape
        return shape if type(shape) is tuple else tuple(shape)

    @property
    def dtype(self) -> DType:
        """The dtype of the numbers."""
        dtype = self.array.dtype
        return dtype if type(self.array) in HOST_TYPES else dtype_of(self.array)

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def device(self) -> Device:
        """Where the numbers are."""
        return device_of(self.array)

    @property
    def wants(self) -> tuple[bool, ...]:
        return tuple([value.requires_grad for value in self.inputs])

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made this tensor."""
        return self.op is None

    @property
    def grad_fn(self) -> Op | None:
        """The operator that made this tensor, when it is recorded."""
        return self.op

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward` has added up here; None before the first."""
        if self._grad is None and self.op is not None and not (self.hooks and self.hooks.retain):
            import warnings

            warnings.warn(
                "grad: this tensor is the result of an operator, whose gradient backward does not "
                "keep. Call retain_grad() on it before backward.",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise DTypeError(f"grad: got {type(value).__name__}, expected a Tensor or None.")
            if value.shape != self.shape:
                raise ShapeError(f"grad: got shape {value.shape}, expected {self.shape}.")
        self._grad = value

    @property
    def data(self) -> "Tensor":
        """The same numbers, in the same memory, with no history."""
        return Tensor._new(self._own_array())

    @data.setter
    def data(self, value: "Tensor") -> None:
        self.array = value.array
        clock.tick(self.array) if isinstance(self.array, np.ndarray) else None

    # ── gradients ───────────────────────────────────────────────────────────────────────────────

    def backward(
        self,
        gradient: "Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: "Tensor | Sequence[Tensor] | None" = None,
    ) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf that it depends on.

        Args:
            gradient: gradient of this tensor; may be left out for a tensor of one element.
            retain_graph: keep the graph for another backward; as `create_graph` unless given.
            create_graph: record the gradients too, so that they can be differentiated.
            inputs: the tensors whose `.grad` is added to, in the place of all leaves.
        Raises:
            GradientError: nothing here requires a gradient, or `gradient` is missing.
            GraphFreed: an earlier backward has used the graph up.
            ModifiedInPlace: a value that backward needs was overwritten.
            NoGradientRule: an operator has no `gradient`; names it.
        """
        backward(self, gradient, retain_graph, create_graph, inputs)

    def accumulate(self, grad: "Tensor", create_graph: bool) -> None:
        """Add `grad` to `.grad`: in place, so that a gradient stays where it is in memory."""
        have = self._grad
        if have is None:
            self._grad = grad
        elif create_graph or not isinstance(have.array, np.ndarray):
            self._grad = have + grad
        else:
            have.array += grad.array
            clock.tick(have.array)
        self._call_hooks_after()

    def add_part(self, part: Any) -> bool:
        """Add a gradient that is mostly 0 to `.grad`, if there is one to add to; tell whether."""
        have = self._grad
        if have is None or type(have.array) is not np.ndarray or have.dtype != part.values.dtype:
            return False
        part.add_to(have.array)
        clock.tick(have.array)
        self._call_hooks_after()
        return True

    def _call_hooks_after(self) -> None:
        if self.hooks is not None:
            for hook in tuple(self.hooks.after.values()):
                hook(self)

    def retain_grad(self) -> None:
        """Make backward keep the gradient of this tensor in `.grad`, though it is not a leaf."""
        if not self.requires_grad:
            raise GradientError("retain_grad: this tensor does not require a gradient.")
        self._own_hooks().retain = True

    def register_hook(self, hook: Callable[["Tensor"], object]) -> Handle:
        """Call `hook(grad)` when the gradient is ready; what it returns replaces it."""
        if not self.requires_grad:
            raise GradientError("register_hook: this tensor does not require a gradient.")
        return add_hook(self._own_hooks().before, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[["Tensor"], object]) -> Handle:
        """Call `hook(param)` as soon as the gradient of this leaf is complete in `.grad`.

        The argument is the tensor itself, not its gradient.
        """
        if self.op is not None or not self.requires_grad:
            raise GradientError(
                "register_post_accumulate_grad_hook: got a tensor that is not a leaf that requires "
                "a gradient. Use register_hook."
            )
        return add_hook(self._own_hooks().after, hook)

    def _own_hooks(self) -> Hooks:
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set whether this leaf requires a gradient; return it.

        Raises:
            GradientError: not a leaf, or not of floating dtype.
        """
        if requires_grad and self.dtype.kind != "f":
            raise GradientError(
                f"requires_grad_: got {self.dtype}, expected a floating dtype: only those have "
                "gradients. Convert with .float()."
            )
        if self.op is not None and not requires_grad:
            raise GradientError("requires_grad_: this tensor is not a leaf. Use detach().")
        self.requires_grad = requires_grad
        return self

    def detach(self) -> "Tensor":
        """Return the same numbers, in the same memory, with no history."""
        return Tensor._new(self._own_array())

    def _check_unmodified(self) -> None:
        """Raise if a value that the gradient of `op` needs was overwritten since."""
        op = self.op
        if op is None or self._stamp == FREED:
            return
        needed = [*self.inputs] if op.reads_inputs else []
        if op.reads_indices:
            needed = [value for value in needed if not _is_floating(value.array)]
        if op.reads_across and sum(self.wants) == 1 and any(self.wants[: op.reads_across]):
            needed = [value for value in needed if not value.requires_grad]
        needed += [self] if op.reads_output else []
        for value in needed:
            if clock.last(value.array) > self._stamp:
                which = "its result" if value is self else f"an input of shape {value.shape}"
                raise ModifiedInPlace(
                    f"backward: {which} of {op.name} was overwritten in place after {op.name} used "
                    f"it (version {value._version}). Update a clone, or update after backward."
                )

    @property
    def _version(self) -> int:
        """How often the memory of this tensor was written to in place."""
        return clock.count(self.array)


def _record(result: Tensor, op: Op, inputs: tuple[Tensor, ...]) -> None:
    """Let the result of an operator know its inputs where one requires a gradient."""
    for value in inputs:
        if value.requires_grad and (result.array.dtype is float32 or _is_floating(result.array)):
            result.requires_grad, result.op, result.inputs = True, op, inputs
            return
    if op.views:
        note_view(result, op, inputs)


def tensor(
    data: object,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Return a new tensor with a copy of `data`: a number, nested lists, or an array.

    Python floats become float32, Python integers int64; an array keeps its dtype.

    Raises:
        DTypeError: not numbers, or of no dtype that minitorch has.
    """
    data = plain(data.detach().clone() if isinstance(data, Tensor) else data)  # so traces see it
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is None and not hasattr(data, "dtype"):
        wanted = _infer_dtype(data)
    leaf = Tensor._new(asarray(data, wanted, _arrays.device(device)))
    as_dtype(leaf.array.dtype)
    return leaf.requires_grad_() if requires_grad else leaf


def _infer_dtype(data: object) -> Any:
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise DTypeError(f"tensor: the rows differ in length: {error}. Pad them.") from error
    if array.dtype.kind == "c":
        as_dtype(array.dtype)  # which says what to do
    if array.dtype.kind not in "bifu":
        raise DTypeError(
            f"tensor: got {type(data).__name__} with elements of {array.dtype}, expected numbers."
        )
    if array.dtype.kind == "f" and not _holds_arrays(data):
        return _arrays.get_default_dtype()
    return _arrays.get_default_dtype() if array.size == 0 else as_dtype(array.dtype)


def _holds_arrays(data: object) -> bool:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return hasattr(data, "__array__")


def plain(data: object) -> Any:
    """Return `data` with tensors, also inside lists, replaced by their arrays."""
    if isinstance(data, Tensor):
        return data.array
    if isinstance(data, list | tuple):
        return [plain(item) for item in data]
    return data


def _is_floating(array: Array) -> bool:
    """Tell whether gradients flow through `array`: not through integers nor truth values."""
    dtype = array.dtype
    if type(array) in HOST_TYPES:
        return dtype.kind == "f"
    return bool(getattr(dtype, "is_floating_point", False))  # of torch's and bfloat16
