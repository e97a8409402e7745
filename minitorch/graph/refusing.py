"""What TensorFlow takes and this package does not have: refused by name, never taken in silence."""

from __future__ import annotations

from typing import Any

from ..errors import GraphError


def refuse(where: str, argument: str, value: Any, instead: str) -> None:
    """Raise unless `value` is the one that asks for nothing: None or False.

    Raises:
        GraphError: names the function and its argument, and what to do instead.
    """
    if value is not None and value is not False:
        raise GraphError(f"{where}: {argument} is not supported: got {value!r}. {instead}")
