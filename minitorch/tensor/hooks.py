"""Functions that are called when a gradient is ready, or a module."""

from collections.abc import Callable
from itertools import count
from typing import Any

from ..errors import ShapeError

Hook = Callable[..., Any]
_keys = count()


class Handle:
    """What `register_hook` returns: `remove()` takes the hook away; also a context that does."""

    def __init__(self, table: dict[int, Hook], key: int) -> None:
        self._table, self._key = table, key

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self._table.pop(self._key, None)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one tensor: `before` its gradient flows on, `after` it was added to `.grad`."""

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}
        self.retain = False

    def on_gradient(self, value: Any, grad: Any) -> Any:
        """Return the gradient of `value` after each hook has seen, and perhaps replaced, it.

        Args:
            value: the tensor that the hooks belong to.
            grad: a tensor, or a plain array; hooks see a tensor either way.
        """
        plain = not hasattr(grad, "requires_grad") or not hasattr(grad, "array")
        seen = value._new(grad) if plain else grad
        for hook in tuple(self.before.values()):
            replaced = hook(seen)
            if replaced is not None and replaced.shape != seen.shape:
                raise ShapeError(
                    f"hook: gave a gradient of shape {replaced.shape}, expected {seen.shape}. "
                    "Return one of the same shape, or None."
                )
            seen = seen if replaced is None else replaced
        if self.retain and value.op is not None:
            value._grad = seen if value._grad is None else value._grad + seen
        return seen.array if plain else seen


def add_hook(hooks: dict[int, Hook], hook: Hook) -> Handle:
    """Put `hook` behind those already in `hooks` and return its handle, which removes it."""
    if not callable(hook):
        raise TypeError(f"register hook: got {type(hook).__name__}, expected a function.")
    key = next(_keys)
    hooks[key] = hook
    return Handle(hooks, key)
