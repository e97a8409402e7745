"""In-place updates that are recorded: `y += x`, `y.mul_(x)`, `out[i] = y` on a result.

The tensor keeps its memory and moves to a new place in the graph: what it was becomes an input, its
past. Operators that used it before the update still mean that past; they are pointed to it at the
next backward (`settle`), by when they were made, so that the way forward pays nothing. A value that
the past's gradient reads is gone, and the clock says so.

May import: arrays, clock, errors, hooks, ops.casting; tensor, to check types.
Source: PyTorch's rebase_history.
"""

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .arrays import owner
from .clock import clock
from .errors import ModifiedInPlace
from .hooks import Hooks
from .ops.casting import cast_to, clone

if TYPE_CHECKING:
    from .tensor import Tensor


FREED = -1
"""`_stamp` of a tensor whose graph a backward has consumed."""

_moved: weakref.WeakValueDictionary[int, "Tensor"] = weakref.WeakValueDictionary()
"""The living tensors that have a past, by id."""


def owns_memory(tensor: Any) -> bool:
    """Tell whether `tensor` is no view: no other tensor would miss an update of it."""
    memory = owner(tensor.array)
    if memory is tensor.array:
        return True
    return bool(tensor.op) and all(owner(s.array) is not memory for s in tensor.inputs)


def past_of(tensor: Any, copy: bool) -> tuple["Tensor", "Tensor"]:
    """Return what `tensor` is before an update: its place in the graph, over the same memory.

    Args:
        tensor: what is going to be updated.
        copy: the update's own gradient reads the numbers, so they must be kept.
    """
    past = tensor._new(tensor.array)
    past.requires_grad, past.op, past.inputs = tensor.requires_grad, tensor.op, tensor.inputs
    past._stamp = tensor._stamp
    past.hooks, tensor.hooks = tensor.hooks, None
    if past.hooks is not None and past.hooks.retain:
        past.hooks.retain, tensor.hooks = False, Hooks()
        tensor.hooks.retain = True
    return past, clone(past) if copy else past


def rebase(tensor: Any, past: "Tensor", result: "Tensor") -> None:
    """Give `tensor`, whose memory has just been overwritten, the history of `result`."""
    result = cast_to(result, tensor.dtype)
    tensor.requires_grad, tensor.op, tensor.inputs = True, result.op, result.inputs
    tensor._stamp = clock.now
    tensor.past = (*getattr(tensor, "past", ()), (clock.now, past))
    _moved[id(tensor)] = tensor


def settle(roots: Iterable["Tensor"]) -> None:
    """Point every operator below `roots` at what its inputs were when it was made.

    Raises:
        ModifiedInPlace: a view is used after its memory was updated under it.
    """
    if not len(_moved):
        return
    histories = {id(owner(t.array)): t.past for t in list(_moved.values())}
    seen = set(roots)
    waiting = list(seen)
    for root in roots:
        _check_view(root, clock.now, histories)
    while waiting:
        value = waiting.pop()
        if value.op is None or value._stamp == FREED:
            continue
        value.inputs = tuple([_as_of(source, value._stamp) for source in value.inputs])
        for source in value.inputs:
            _check_view(source, value._stamp, histories)
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def _as_of(source: "Tensor", stamp: int) -> "Tensor":
    """Return what `source` was at the time `stamp`."""
    past: Tensor
    for moment, past in getattr(source, "past", ()):
        if stamp < moment:
            return past
    return source


def _check_view(
    source: "Tensor", used: int, histories: Mapping[int, tuple[tuple[int, "Tensor"], ...]]
) -> None:
    """Raise when `source` is a view whose memory was updated between its making and its use."""
    if source.op is None or source._stamp == FREED:
        return
    history = histories.get(id(owner(source.array)), ())
    if any(past is source for _, past in history):
        return
    if any(source._stamp < moment <= used for moment, _ in history):
        raise ModifiedInPlace(
            f"backward: the memory under the view that {source.op.name} made was overwritten in "
            "place before it was used. Take the view after the update, or update a clone()."
        )
