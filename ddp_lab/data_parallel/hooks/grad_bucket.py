"""A bucket as a communication hook sees it, and what may be such a hook.

May import: the standard library.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

CommHook = Callable[[Any, Any], Any]


class GradBucket:
    """What a communication hook sees of a bucket: torch's interface.

    Arrays are torch tensors for a torch module, NumPy arrays for any other.
    """

    def __init__(self, bucket: Any, params: Sequence[Any]) -> None:
        self._bucket = bucket
        self._params = params
        self._buffer = bucket.flat

    def index(self) -> int:
        """Return the bucket's number, in launch order."""
        index: int = self._bucket.index
        return index

    def buffer(self) -> Any:
        """Return the flat gradients, not yet divided by the number of ranks."""
        return self._buffer

    def set_buffer(self, flat: Any) -> None:
        """Replace the flat gradients by an array of the same shape."""
        self._buffer = flat

    def gradients(self) -> list[Any]:
        """Return one view of the buffer a parameter."""
        views: list[Any] = self._bucket.views
        return views

    def parameters(self) -> list[Any]:
        """Return the parameters whose gradients these are."""
        return [self._params[i] for i in self._bucket.params]

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the iteration."""
        last: bool = self._bucket.is_last
        return last


def check_comm_hook(hook: CommHook, buckets: tuple[type, ...] = (GradBucket,)) -> None:
    """Raise unless `hook` can be called as hook(state, bucket) and says nothing else.

    Raises:
        TypeError: it cannot be called.
        ValueError: its annotations are of another type than a bucket, or a future.
    """
    if not callable(hook):
        raise TypeError(
            f"register_comm_hook: Communication hook must be callable: got {type(hook).__name__}, "
            "expected hook(state, bucket). Pass a function."
        )
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    if bucket is not None and _is_wrong(bucket.annotation, buckets):
        raise ValueError(
            "register_comm_hook: Communication hook: bucket annotation should be dist.GradBucket: "
            f"got {bucket.annotation}. Correct or drop the annotation."
        )
    returned = signature.return_annotation
    if _is_wrong(returned, ()) and not hasattr(returned, "wait"):
        raise ValueError(
            "register_comm_hook: Communication hook: return annotation should be "
            f"torch.futures.Future[torch.Tensor]: got {returned}. Correct or drop the annotation."
        )


def _is_wrong(annotation: Any, right: tuple[type, ...]) -> bool:
    """Whether an annotation names a class, and one that is not right; `Any` and text may be."""
    anything = (inspect.Parameter.empty, Any)  # both are classes
    return isinstance(annotation, type) and annotation not in (*anything, *right)


def already_hooked(hook: CommHook, name: str) -> RuntimeError:
    """Return the error of a second hook."""
    return RuntimeError(
        "register_comm_hook: register_comm_hook can only be called once: got "
        f"{hook.__qualname__}, there is {name}. Wrap the module anew."
    )
