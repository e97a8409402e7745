"""In-place updates that are recorded: `y += x`, `y.mul_(x)`, `out[i] = y` on a result.

The tensor keeps its memory and moves to a new place in the graph: what it was becomes an input, its
past. Operators that used it before the update still mean that past; they are pointed to it at the
next backward (`resolve_history`), by when they were made, so that the way forward pays nothing. A
value that the past's gradient reads is gone, and the clock says so.

A view has no past of its own: an update through it is one of its base, the tensor that owns the
memory, and any view means, wherever it is used, what its base was at that time.

May import: this folder, arrays, op, ops.
Source: PyTorch's rebase_history, CopySlices and the regeneration of views.
"""

import math
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.library import Array, Namespace, copy_array, owner
from ..op import Gradients, KeepsSpec, Methods, Op, ReadsShapes, apply
from ..ops.elementwise.casting import cast_to
from ..ops.elementwise.unary import zeros_like
from .hooks import Hooks
from .versions import clock

if TYPE_CHECKING:
    from .tensor import Tensor


FREED = -1
"""`_stamp` of a tensor whose graph a backward has consumed."""

_moved: weakref.WeakValueDictionary[int, "Tensor"] = weakref.WeakValueDictionary()
"""The living tensors that have a past, by id."""
_unrecorded: "set[weakref.ref[Tensor]]" = set()
"""The living views that are not recorded."""


def hides_base(tensor: "Tensor") -> bool:
    """Tell whether `tensor` was made under `no_grad` as a view of a tensor that is not known."""
    return getattr(tensor, "viewing", ()) is None and owner(tensor.array) is not tensor.array


def past_of(tensor: "Tensor") -> "Tensor":
    """Return what `tensor` is before an update: its place in the graph, over the same memory."""
    copies = tensor.op is not None and tensor.op.copies_output
    before = tensor._new(copy_array(tensor.array) if copies else tensor.array)
    before.requires_grad, before.op, before.inputs = tensor.requires_grad, tensor.op, tensor.inputs
    before._stamp = tensor._stamp
    before.hooks, tensor.hooks = tensor.hooks, None
    if before.hooks is not None and before.hooks.retain:
        before.hooks.retain, tensor.hooks = False, Hooks()
        tensor.hooks.retain = True
    return before


# ── views ───────────────────────────────────────────────────────────────────────────────────────

Path = tuple[tuple[Op, tuple["Tensor", ...]], ...]
"""The operators from a base to a view of it, each with its further inputs."""


def is_view(tensor: "Tensor") -> bool:
    """Tell whether a recorded operator made `tensor` as a view of its first input."""
    return tensor.op is not None and _shows(tensor, tensor.op, tensor.inputs)


def _shows(tensor: "Tensor", op: Op, inputs: tuple["Tensor", ...]) -> bool:
    return op.views and owner(inputs[0].array) is owner(tensor.array)


def base_of(view: "Tensor") -> tuple["Tensor", Path]:
    """Return the tensor whose memory `view` shows, and how to get from there to the view."""
    path: list[tuple[Op, tuple[Tensor, ...]]] = []
    while True:
        op_and_inputs = (view.op, view.inputs) if view.op else getattr(view, "viewing", None)
        if op_and_inputs is None or not _shows(view, *op_and_inputs):
            return view, tuple(reversed(path))
        op, (view, *others) = op_and_inputs
        path.append((op, tuple(others)))


def can_view(tensor: "Tensor", shape: tuple[int, ...]) -> bool:
    """Tell whether `tensor`, if its base lies in order, could be seen under `shape`."""
    base, path = base_of(tensor)
    elements = np.empty(base.shape, np.int8)  # never touched: it costs an address
    for op, others in path:
        elements = op.compute(np, elements, *(source.array for source in others))
    return np.may_share_memory(elements, elements.reshape(shape))


def note_view(view: "Tensor", op: Op, inputs: tuple["Tensor", ...]) -> None:
    """Remember how a view that is not recorded was made, in case its base will be."""
    view.viewing = op, inputs
    _unrecorded.add(weakref.ref(view, _unrecorded.discard))


def _record_views(base: "Tensor") -> None:
    """Record the living views of `base`, which has become a recorded value by an update."""
    for reference in list(_unrecorded):
        view = reference()
        if view is not None and view.viewing and base_of(view)[0] is base:
            view.op, view.inputs = view.viewing
            view.requires_grad = True
            _unrecorded.discard(reference)


def apply_views(base: Any, path: Path) -> Any:
    """Return the view of `base`, a tensor, at the end of `path`."""
    for op, others in path:
        base = apply(op, base, *others)
    return base


class UpdateView(ReadsShapes, KeepsSpec):
    """The first input with the second in the place of a view of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def compute(self, xp: Namespace, base: Array, value: Array) -> Array:
        """Return a copy of the base with the view's elements replaced."""
        places = np.arange(math.prod(base.shape)).reshape(base.shape)
        for op, others in self.path:
            places = op.compute(np, places, *(source.array for source in others))
        flat = xp.reshape(base, (-1,)) + 0
        flat[places.reshape(-1)] = xp.reshape(value, (-1,))
        return xp.reshape(flat, base.shape)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the gradient without the overwritten places, and for the value that of them."""
        value = node.inputs[1]
        base_grad = apply(UpdateView(self.path), out_grad, zeros_like(value))
        return base_grad, apply_views(out_grad, self.path)


def rebase(base: "Tensor", before: "Tensor", path: Path, result: "Tensor") -> None:
    """Give `base`, which was just overwritten by `result` at the end of `path`, that history."""
    result = cast_to(result, base.dtype)
    was_recorded = base.requires_grad
    base.past = (*getattr(base, "past", ()), (clock.now, before))
    _moved[id(base)] = base
    base.requires_grad, base._stamp = True, clock.now
    base.op, inputs = (UpdateView(path), (before, result)) if path else (result.op, result.inputs)
    base.inputs = tuple([_as_of(source, clock.now - 1, {}) for source in inputs])
    if not was_recorded:
        _record_views(base)


# ── at the next backward ────────────────────────────────────────────────────────────────────────


def resolve_history(roots: Iterable["Tensor"]) -> None:
    """Point every operator below `roots` at what its inputs were when it was made."""
    if not len(_moved):
        return
    seen = set(roots)
    waiting = list(seen)
    regenerated: dict[tuple[int, int], Tensor] = {}
    while waiting:
        value = waiting.pop()
        if value.op is None or value._stamp == FREED:
            continue
        if not is_view(value):  # a view's base was resolved where the view is used
            stamp = value._stamp
            value.inputs = tuple([_as_of(source, stamp, regenerated) for source in value.inputs])
        for source in value.inputs:
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def _as_of(source: "Tensor", stamp: int, regenerated: dict[tuple[int, int], "Tensor"]) -> "Tensor":
    """Return `source` as it was at the time `stamp`; of a view, the view of its base then."""
    before: Tensor
    for moment, before in getattr(source, "past", ()):
        if stamp < moment:
            return before
    views = []
    while is_view(source):
        views.append(source)
        source = source.inputs[0]
    if not views:
        return source
    base = _as_of(source, stamp, regenerated)
    if base is source:
        return views[0]
    for view in reversed(views):
        key = id(view), id(base)
        if key not in regenerated:
            copy = view._new(view.array)
            copy.requires_grad, copy.op, copy._stamp = True, view.op, view._stamp
            copy.inputs = (base, *view.inputs[1:])
            regenerated[key] = copy
        base = regenerated[key]
    return base
