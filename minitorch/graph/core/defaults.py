"""The default graph's variables, asked for without naming the graph."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .graph import control_dependencies, get_default_graph
from .node import Node
from .variables import Variable, group

__all__ = [
    "all_variables",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_variables",
    "initialize_variables",
    "trainable_variables",
    "variables_initializer",
]


def global_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables of the default graph; with `scope` those whose names begin so."""
    found = get_default_graph().variables
    return [v for v in found if scope is None or re.match(scope, v.name)]


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables that optimizers update."""
    return [v for v in global_variables(scope) if v.trainable]


def initialize_variables(var_list: Iterable[Variable], name: str | None = None) -> Node:
    """Return a node that sets each of these variables to its initial value."""
    starts = [v.initializer for v in var_list if v.initializer is not None]
    with control_dependencies(None):
        return group(*starts, name=name)


def initialize_all_variables() -> Node:
    """Return a node that sets every variable built so far to its initial value."""
    return initialize_variables(global_variables())


all_variables = global_variables
global_variables_initializer = initialize_all_variables
variables_initializer = initialize_variables
