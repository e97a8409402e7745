"""Functions whose complaints name the line that called them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ...errors import MinitorchError
from .node import located, place_of_new

P = ParamSpec("P")
R = TypeVar("R")


def lined(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, whose errors end in the line of the user's code that called it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MinitorchError as error:
            if hasattr(error, "built_at") or "built at" in str(error):
                raise
            raise located(error, place_of_new()) from None

    return call
