"""The default graph's collections and variables, asked for without naming the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..arrays import Array, as_dtype
from ..op import Spec
from .collections import GraphKeys
from .naming import rename
from .node import Node, build
from .scope import control_dependencies, get_default_graph
from .state import State, StateOp, Variable, group

__all__ = [
    "add_to_collection",
    "add_to_collections",
    "all_variables",
    "get_collection",
    "get_collection_ref",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_variables",
    "initialize_variables",
    "is_variable_initialized",
    "local_variables",
    "local_variables_initializer",
    "report_uninitialized_variables",
    "trainable_variables",
    "variables_initializer",
]


def add_to_collection(name: Any, value: Any) -> None:
    """Put `value` at the end of a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Iterable[Any] | str, value: Any) -> None:
    """Put `value` at the end of each of these collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """Return what is in a collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """Return a collection of the default graph itself, to be changed in place."""
    return get_default_graph().get_collection_ref(key)


def global_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables of the default graph; with `scope` those whose names begin so."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables that optimizers update."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables that are not saved: counts of metrics and the like."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def initialize_variables(var_list: Iterable[Variable], name: str | None = None) -> Node:
    """Return a node that sets each of these variables to its initial value."""
    starts = [v.initializer for v in var_list if v.initializer is not None]
    with control_dependencies(None):
        return group(*starts, name=name)


def initialize_all_variables() -> Node:
    """Return a node that sets every global variable built so far to its initial value."""
    return initialize_variables(global_variables())


def local_variables_initializer() -> Node:
    """Return a node that sets every local variable built so far to its initial value."""
    return initialize_variables(local_variables())


all_variables = global_variables
global_variables_initializer = initialize_all_variables
variables_initializer = initialize_variables


class Initialised(StateOp):
    """Whether each of some variables has a value: booleans, or the names of those without."""

    def __init__(self, variables: tuple[Variable, ...], names: bool) -> None:
        self.variables, self.names = variables, names

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the boolean, or the names as an array of bytes."""
        if self.names:
            missing = [v.name for v in self.variables if v not in state.values]
            return np.array([name.encode() for name in missing], object)
        return np.asarray(self.variables[0] in state.values)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a boolean, or of a vector."""
        return Spec((None,) if self.names else (), as_dtype(bool))


def is_variable_initialized(variable: Variable) -> Node:
    """Return a node that tells whether the session has a value for the variable."""
    return build(Initialised((variable,), names=False), ())


def report_uninitialized_variables(
    var_list: Iterable[Variable] | None = None, name: str | None = None
) -> Node:
    """Return a node that gives the names, as bytes, of the variables that have no value yet."""
    found = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    return rename(build(Initialised(tuple(found), names=True), ()), name)
