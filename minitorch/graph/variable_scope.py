"""Variables by name: `get_variable` makes one or finds it again, as its `variable_scope` says.

A variable's full name is that of the scopes around it and its own, and a graph has one variable of
each name. Sharing is always asked for: by `reuse`, which a scope hands on to those inside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..arrays import DType, as_dtype, float32
from ..errors import GraphError
from .collections import GraphKeys
from .initializers import GlorotUniform, Zeros
from .node import Node, convert
from .refusing import refuse
from .scope import Graph, get_default_graph
from .state import Variable

__all__ = [
    "AUTO_REUSE",
    "VariableScope",
    "get_variable",
    "get_variable_scope",
    "variable_scope",
]


Getter = Callable[..., Any]

SHARDS = "Make a variable for each part, and look rows up with embedding_lookup."

AUTO_REUSE = "auto"
"""Make a variable the first time and share it afterwards."""


class VariableScope:
    """Where `get_variable` looks: a prefix and the defaults of the variables in it.

    Attributes:
        name: the full prefix, without a "/" at its end; "" outside all scopes.
        reuse: False to make variables, True to find them, AUTO_REUSE for whichever applies.
        initializer, dtype: what variables start from, and of what dtype, unless they say it.
        regularizer: a function of a new variable whose value is a loss, unless they say it.
        custom_getter: asked for variables instead; see `get_variable`.
        constraint: what optimizers make of a variable after an update, unless it says it.
    """

    def __init__(
        self,
        name: str = "",
        reuse: Any = False,
        initializer: Any = None,
        dtype: Any = float32,
        regularizer: Any = None,
        custom_getter: Getter | None = None,
        constraint: Any = None,
    ) -> None:
        self.name, self.reuse, self.initializer, self.dtype = name, reuse, initializer, dtype
        self.regularizer, self.custom_getter, self.constraint = (
            regularizer,
            custom_getter,
            constraint,
        )

    @property
    def original_name_scope(self) -> str:
        """The prefix with a "/" at its end."""
        return f"{self.name}/" if self.name else ""

    def reuse_variables(self) -> None:
        """From here on only find variables that are there already."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set what variables start from unless they say it."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Set the regularizer of variables that do not say theirs."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: Any) -> None:
        """Set the dtype of variables that do not say theirs."""
        self.dtype = as_dtype(dtype)

    def get_variable(self, name: str, *args: Any, **how: Any) -> Any:
        """Return the variable of that name in this scope: as `get_variable` inside it."""
        with variable_scope(self):
            return get_variable(name, *args, **how)

    def get_collection(self, name: Any) -> list[Any]:
        """Return what of a collection of the graph has this scope's name before its own."""
        return get_default_graph().get_collection(name, self.original_name_scope)

    def global_variables(self) -> list[Any]:
        """Return the global variables inside."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        """Return the variables inside that optimizers update."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def local_variables(self) -> list[Any]:
        """Return the local variables inside."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def full_name(self, name: str) -> str:
        """Return the name of a variable in this scope."""
        return f"{self.name}/{name}" if self.name else name


class Shelf:
    """The variables of a graph by name, and the scopes that are open."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.open = [VariableScope()]
        self.taken: dict[str, int] = {}  # how often a scope of that default name was opened

    def unique(self, prefix: str, name: str) -> str:
        """Return `name`, with _1, _2, ... from its second use inside `prefix` on."""
        full = f"{prefix}/{name}" if prefix else name
        count = self.taken.get(full, 0)
        self.taken[full] = count + 1
        return f"{full}_{count}" if count else full

    def leave(self, prefix: str) -> None:
        """Let default names inside `prefix` start over, so that entering it again finds them."""
        inside = [full for full in self.taken if full.startswith(f"{prefix}/")]
        for full in inside:
            del self.taken[full]


def _shelf(graph: Graph | None = None) -> Shelf:
    owner = get_default_graph() if graph is None else graph
    if owner.shelf is None:
        owner.shelf = Shelf()
    found: Shelf = owner.shelf
    return found


def get_variable_scope() -> VariableScope:
    """Return the innermost open scope."""
    return _shelf().open[-1]


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """Put variables asked for inside the `with` block under a name.

    `values`, `caching_device` and `use_resource` are taken for TensorFlow's sake; no effect.

    Args:
        name_or_scope: a name inside the present scope, or a scope to enter again; None to use
            `default_name`, made unique.
        initializer, dtype: for variables inside that do not say it.
        regularizer, constraint: likewise.
        custom_getter: `getter(get, name, **arguments)` gives the variables asked for inside; it
            may call `get` as it was called itself, and return anything made of what it gives.
        reuse: True to find variables that exist, AUTO_REUSE to find or make; None as around.
    Raises:
        GraphError: neither a name nor a default name; or a partitioner.
    """
    refuse("variable_scope", "partitioner", partitioner, SHARDS)
    shelf, outer = _shelf(), get_variable_scope()
    again = name_or_scope if isinstance(name_or_scope, VariableScope) else None
    base = outer if again is None else again
    full = base.name if again is not None else _full(shelf, outer, name_or_scope, default_name)
    scope = VariableScope(
        full,
        reuse or base.reuse,
        base.initializer if initializer is None else initializer,
        base.dtype if dtype is None else as_dtype(dtype),
        base.regularizer if regularizer is None else regularizer,
        _nested(base.custom_getter, custom_getter),
        base.constraint if constraint is None else constraint,
    )
    graph = get_default_graph()
    held = graph.scopes
    inner = full[len(outer.original_name_scope) :]
    around = held if again is None else []
    entered = inner if again is None else full
    graph.scopes = [*around, entered] if entered else around
    shelf.open.append(scope)
    try:
        yield scope
    finally:
        shelf.open.remove(scope)
        shelf.leave(full)
        graph.scopes = held


def _full(shelf: Shelf, outer: VariableScope, name: Any, default: str | None) -> str:
    """Return the full name of a scope called `name`, or `default` made unique."""
    if name is not None:
        return outer.full_name(name)
    if default is None:
        raise GraphError("variable_scope: got no name, expected name_or_scope or default_name.")
    return shelf.unique(outer.name, default)


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
) -> Variable:
    """Return the variable of that name in the present scope: a new one, or the one it shares.

    `caching_device` and `use_resource` are taken for TensorFlow's sake; no effect.

    Args:
        shape: needed to make one, unless `initializer` is a value.
        initializer: an initializer or its class, a function (shape, dtype) -> node, or a value;
            that of the scope unless given, else Glorot's uniform one, for integers zeros.
        regularizer: a function of the new variable; what it gives goes into the collection
            REGULARIZATION_LOSSES.
        collections: those of the graph that a new variable is in.
        validate_shape: False leaves the shape of a new variable open.
        custom_getter: called as `custom_getter(get, full_name, **arguments)`; what it returns is
            returned. That of the scope unless given.
        constraint: what an optimizer makes of the variable after an update; the scope's unless
            given.
    Raises:
        GraphError: it exists and the scope does not share, or the other way round; or the shape
            or dtype differ from what is shared; or a partitioner is given.
    """
    if not isinstance(name, str) or not name:
        raise GraphError(f"get_variable: got name {name!r}, expected a string such as 'weights'.")
    refuse("get_variable", "partitioner", partitioner, SHARDS)
    scope = get_variable_scope()
    asked = {
        "shape": shape,
        "dtype": dtype,
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "trainable": trainable,
        "collections": collections,
        "validate_shape": validate_shape,
        "constraint": scope.constraint if constraint is None else constraint,
    }
    getter = _nested(scope.custom_getter, custom_getter)
    if getter is not None:
        return getter(_found_or_made, scope.full_name(name), **asked)  # type: ignore[no-any-return]
    return _found_or_made(scope.full_name(name), **asked)


def _nested(outer: Getter | None, inner: Getter | None) -> Getter | None:
    """Return a getter that asks `inner`, for which getting means to ask `outer`."""
    if outer is None or inner is None:
        return inner or outer

    def both(get: Callable[..., Any], name: str, *args: Any, **asked: Any) -> Any:
        return inner(partial(outer, get), name, *args, **asked)

    return both


def _found_or_made(
    full: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    validate_shape: bool = True,
    constraint: Any = None,
    **_: Any,
) -> Variable:
    """Return the variable of that full name: as `get_variable`, everything said."""
    shelf, scope = _shelf(), get_variable_scope()
    found = shelf.variables.get(full)
    if found is not None and not scope.reuse:
        raise GraphError(
            f"get_variable: variable {full!r} exists already (built at {found.location}). To share "
            "it, set reuse=True or reuse=AUTO_REUSE in its variable_scope."
        )
    if found is None and scope.reuse is True:
        raise GraphError(
            f"get_variable: variable {full!r} does not exist, and the scope only shares. Make it "
            "first with get_variable, or set reuse=AUTO_REUSE in its variable_scope."
        )
    kind = as_dtype(scope.dtype if dtype is None else dtype)
    if found is not None:
        _same(found, full, shape, None if dtype is None else kind)
        return found
    options = {"collections": collections, "validate_shape": validate_shape}
    start = _start(full, shape, kind, initializer)
    shelf.variables[full] = made = _named(
        full, start, kind, trainable, constraint=constraint, **options
    )
    if regularizer is not None:
        loss = regularizer(made)
        if loss is not None:
            get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return made


def _named(full: str, start: Any, dtype: DType, trainable: bool, **options: Any) -> Variable:
    """Return a variable of exactly that name, whatever name scopes are open."""
    graph = get_default_graph()
    held, graph.scopes = graph.scopes, []
    try:
        return Variable(start, trainable, full, dtype, **options)
    finally:
        graph.scopes = held


def _start(full: str, shape: Any, dtype: DType, initializer: Any) -> Callable[[], Node]:
    """Return a function that builds what the variable starts from."""
    if inspect.isclass(initializer):
        initializer = initializer()
    if initializer is None:
        initializer = GlorotUniform() if dtype.kind == "f" else Zeros()
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
    if not all(n is None or isinstance(n, int | np.integer) for n in sizes):
        raise GraphError(f"get_variable: got shape {shape!r} for {full!r}, expected sizes.")
    if None in sizes:
        raise GraphError(
            f"get_variable: got shape {sizes} for {full!r}, expected every size. Give them all."
        )
    return lambda: convert(initializer(sizes, dtype=dtype), dtype)


def _same(found: Variable, full: str, shape: Any, dtype: DType | None) -> None:
    """Raise unless a shared variable is of the shape and dtype that are asked for."""
    if shape is not None and tuple(found.shape) != tuple(shape):
        raise GraphError(
            f"get_variable: {full!r} is shared with shape {tuple(found.shape)}, but got shape "
            f"{tuple(shape)} (built at {found.location})."
        )
    if dtype is not None and found.dtype != dtype:
        raise GraphError(
            f"get_variable: {full!r} is shared with dtype {found.dtype}, but got {dtype} (built at "
            f"{found.location})."
        )
