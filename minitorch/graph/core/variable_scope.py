"""Variables by name: `get_variable` makes one or finds it again, as its `variable_scope` says.

A variable's full name is that of the scopes around it and its own, and a graph has one variable of
each name. Sharing is always asked for: by `reuse`, which a scope hands on to those inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...arrays.library import DType, DTypeLike, as_dtype, float32
from ...errors import GraphError
from ..operators.initializers import Zeros, glorot_uniform_initializer
from .graph import get_default_graph, name_scope
from .node import Node, convert
from .variables import Variable

__all__ = [
    "AUTO_REUSE",
    "VariableScope",
    "get_variable",
    "get_variable_scope",
    "variable_scope",
]

AUTO_REUSE = "auto"
"""Make a variable the first time and share it afterwards."""


class VariableScope:
    """Where `get_variable` looks: a prefix and the defaults of the variables in it.

    Attributes:
        name: the full prefix, without a "/" at its end; "" outside all scopes.
        reuse: False to make variables, True to find them, AUTO_REUSE for whichever applies.
        initializer, dtype: what variables start from, and of what dtype, unless they say it.
    """

    def __init__(
        self,
        name: str = "",
        reuse: object = False,
        initializer: Any = None,
        dtype: DTypeLike = float32,
    ) -> None:
        self.name, self.reuse, self.initializer, self.dtype = name, reuse, initializer, dtype

    def reuse_variables(self) -> None:
        """From here on only find variables that are there already."""
        self.reuse = True

    def full_name(self, name: str) -> str:
        """Return the name of a variable in this scope."""
        return f"{self.name}/{name}" if self.name else name


def get_variable_scope() -> VariableScope:
    """Return the innermost open scope."""
    graph = get_default_graph()
    if not graph.variable_scopes:
        graph.variable_scopes.append(VariableScope())
    return graph.variable_scopes[-1]


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope,
    reuse: object = None,
    initializer: object = None,
    dtype: DTypeLike = None,
) -> Iterator[VariableScope]:
    """Put variables asked for inside the `with` block under a name.

    Args:
        name_or_scope: a name inside the present scope, or a scope to enter again.
        reuse: True to find variables that exist, AUTO_REUSE to find or make; None as around.
        initializer, dtype: for variables inside that do not say it.
    """
    graph, outer = get_default_graph(), get_variable_scope()
    held = graph.scopes
    if isinstance(name_or_scope, VariableScope):
        base, full = name_or_scope, name_or_scope.name
        graph.scopes = [full] if full else []
    else:
        base, full = outer, outer.full_name(name_or_scope)
        graph.scopes = [*held, name_or_scope] if name_or_scope else held
    scope = VariableScope(
        full,
        reuse or base.reuse,
        base.initializer if initializer is None else initializer,
        base.dtype if dtype is None else as_dtype(dtype),
    )
    graph.variable_scopes.append(scope)
    try:
        yield scope
    finally:
        graph.variable_scopes.remove(scope)
        graph.scopes = held


def get_variable(
    name: str,
    shape: object = None,
    dtype: DTypeLike = None,
    initializer: object = None,
    trainable: bool = True,
) -> Variable:
    """Return the variable of that name in the present scope: a new one, or the one it shares.

    Args:
        shape: needed to make one, unless `initializer` is a value.
        initializer: an initializer or its class, a function (shape, dtype) -> node, or a value;
            that of the scope unless given, else Glorot's uniform one, for integers zeros.
    Raises:
        GraphError: it exists and the scope does not share, or the other way round; or the shape
            or dtype differ from what is shared.
    """
    if not isinstance(name, str) or not name:
        raise GraphError(f"get_variable: got name {name!r}, expected a string such as 'weights'.")
    graph, scope = get_default_graph(), get_variable_scope()
    full = scope.full_name(name)
    found = graph.variables_by_name.get(full)
    if found is not None and not scope.reuse:
        raise found.error(
            f"get_variable: variable {full!r} exists already. To share it, set reuse=True or "
            "reuse=AUTO_REUSE in its variable_scope."
        )
    if found is None and scope.reuse is True:
        raise GraphError(
            f"get_variable: variable {full!r} does not exist, and the scope only shares. Make it "
            "first with get_variable, or set reuse=AUTO_REUSE in its variable_scope."
        )
    kind = as_dtype(scope.dtype if dtype is None else dtype)
    if found is not None:
        _check_same(found, shape, None if dtype is None else kind)
        return found
    start = _start(full, shape, kind, scope.initializer if initializer is None else initializer)
    with name_scope(""):
        graph.variables_by_name[full] = made = Variable(start, trainable, full, kind)
    return made


def _start(full: str, shape: Any, dtype: DType, initializer: Any) -> Callable[[], Node]:
    """Return a function that builds what the variable starts from."""
    if isinstance(initializer, type):
        initializer = initializer()
    if initializer is None:
        initializer = glorot_uniform_initializer() if dtype.kind == "f" else Zeros()
    if not callable(initializer) or isinstance(initializer, Node):
        if shape is not None and np.shape(initializer) != tuple(shape):
            raise GraphError(
                f"get_variable: {full!r} starts from a value of shape {np.shape(initializer)}, but "
                f"got shape {tuple(shape)}. Leave the shape out."
            )
        return lambda: convert(initializer, dtype)
    if shape is None:
        raise GraphError(f"get_variable: {full!r} is new and has no shape. Give its shape.")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(n, int | np.integer) for n in sizes):
        raise GraphError(
            f"get_variable: got shape {sizes} for {full!r}, expected every size. Give them all."
        )
    return lambda: convert(initializer(sizes, dtype=dtype), dtype)


def _check_same(found: Variable, shape: Any, dtype: DType | None) -> None:
    """Raise unless a shared variable is of the shape and dtype that are asked for."""
    if shape is not None and tuple(found.shape) != tuple(shape):
        raise found.error(
            f"get_variable: {found.name!r} is shared with shape {tuple(found.shape)}, but got "
            f"shape {tuple(shape)}."
        )
    if dtype is not None and found.dtype != dtype:
        raise found.error(
            f"get_variable: {found.name!r} is shared with dtype {found.dtype}, but got {dtype}."
        )
