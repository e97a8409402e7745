"""`tf.make_template`: a function whose variables its first call makes, and all calls share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..variable_scope import AUTO_REUSE, variable_scope


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """Return `func_` in a scope of its own, whose variables its first call makes and all share."""
    scope: list[Any] = []

    def opened() -> Any:
        if not scope:
            with variable_scope(unique_name_, name_, custom_getter=custom_getter_) as made:
                scope.append(made)
        return variable_scope(scope[0], reuse=AUTO_REUSE)

    def call(*args: Any, **more: Any) -> Any:
        with opened():
            return func_(*args, **{**kwargs, **more})

    if create_scope_now_:
        opened()
    return call
