"""Numbers that a dataset is given: of Python's, or nodes that are read when it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import GraphError
from ..node import Constant, Node

if TYPE_CHECKING:
    from .iterators import Running


class Number(NamedTuple):
    """A whole number: the nodes it is read from, how, and the number itself if it is known."""

    sources: list[Node]
    of: Callable[[Running], int]
    known: int | None = None


def number(where: str, given: Any, least: int | None = None) -> Number:
    """Return a number, checked now or, where a node gives it, in the run.

    Raises:
        GraphError: it is no whole number, or below `least`.
    """
    if isinstance(given, Node) and not isinstance(given, Constant):
        if given.dtype.kind not in "iu" or given.shape.ndims not in (None, 0):
            raise GraphError(
                f"{where}: got {given.name!r}, {given.dtype} of shape {given.shape}, expected one "
                f"integer (built at {given.location})."
            )
        return Number([given], lambda run: _checked(where, run.of(given), least))
    value = _checked(where, given.value if isinstance(given, Constant) else given, least)
    return Number([], lambda run: value, value)


def _checked(where: str, given: Any, least: int | None) -> int:
    found = np.asarray(given)
    if found.dtype.kind not in "iu" or found.ndim or (least is not None and found < least):
        more = "" if least is None else f" of {least} or more"
        raise GraphError(f"{where}: got a size of {given!r}, expected a whole number{more}.")
    return int(found)
