"""Functions that compute with sizes: one that is not known is None, and the value may wait for it.

May import: op.
"""

import functools
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from ..op import Value

F = TypeVar("F", bound=Callable[..., object])


def defer_unknown_sizes(function: F) -> F:
    """Return a function that is put off where it computes with a size that is not known."""

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        try:
            return function(*args, **options)
        except TypeError as error:
            return put_off(function, args, options, error)

    return cast(F, call)


def put_off(
    function: Callable[..., object],
    args: Iterable[object],
    options: dict[str, object],
    error: TypeError,
) -> object:
    """Return what stands for the result until sizes are known; raise the error where all are."""
    parts = [part for arg in args for part in (arg if isinstance(arg, list | tuple) else (arg,))]
    waits = next((v.once_sized for v in parts if isinstance(v, Value) and v.once_sized), None)
    if waits is None:
        raise error
    return waits(function, args, options, error)
