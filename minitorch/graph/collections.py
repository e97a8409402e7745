"""What a graph remembers by name: nodes, and the collections that parts of a program share.

A layer leaves its updates and losses in a collection, and the training loop finds them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import GraphError
from .refusing import refuse

if TYPE_CHECKING:
    from .kinds import GraphDef
    from .node import Node


class GraphKeys:
    """The names of the collections that this package fills or reads, and of TensorFlow's others."""

    ACTIVATIONS = "activations"
    ASSET_FILEPATHS = "asset_filepaths"
    BIASES = "biases"
    CONCATENATED_VARIABLES = "concatenated_variables"
    COND_CONTEXT, WHILE_CONTEXT = "cond_context", "while_context"
    EVAL_STEP = "eval_step"
    GLOBAL_STEP = "global_step"
    GLOBAL_VARIABLES = VARIABLES = "variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    LOCAL_RESOURCES, RESOURCES = "local_resources", "resources"
    LOCAL_VARIABLES = "local_variables"
    LOSSES = "losses"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    QUEUE_RUNNERS = "queue_runners"
    READY_FOR_LOCAL_INIT_OP, READY_OP = "ready_for_local_init_op", "ready_op"
    REGULARIZATION_LOSSES = "regularization_losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    SAVERS = "savers"
    SUMMARIES = "summaries"
    SUMMARY_OP = "summary_op"
    TABLE_INITIALIZERS = "table_initializer"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    TRAIN_OP = "train_op"
    UPDATE_OPS = "update_ops"
    WEIGHTS = "weights"


class Remembering:
    """The part of a graph that finds nodes by name and keeps collections."""

    def __init__(self) -> None:
        self._collections: dict[Any, list[Any]] = {}

    @property
    def variables(self) -> list[Any]:
        """The variables, in the order of their creation."""
        raise NotImplementedError("A graph says which.")

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are still alive."""
        raise NotImplementedError("A graph says which.")

    def find(self, name: str) -> Node | None:
        """Return the node called `name`."""
        raise NotImplementedError("A graph says which.")

    # Nodes by name

    def get_tensor_by_name(self, name: str) -> Node:
        """Return the node called `name`; a ":0" at its end changes nothing.

        Raises:
            GraphError: there is none, or it was not named and nothing uses it any more.
        """
        if not isinstance(name, str):
            raise TypeError(f"get_tensor_by_name: got {type(name).__name__}, expected a name.")
        found = self.find(name)
        if found is None:
            raise GraphError(
                f"graph: there is no node {name!r}. Check the scopes in its name; a node that was "
                "given no name is forgotten when nothing uses it."
            )
        return found

    get_operation_by_name = get_tensor_by_name

    def get_operations(self) -> list[Node]:
        """Return the nodes in the order in which they were built."""
        return sorted(dict.fromkeys(self.nodes), key=lambda node: node.id)

    def as_graph_def(self, from_version: Any = None, add_shapes: bool = False) -> GraphDef:
        """Return the operations as data: `as_graph_def().node`, each with name, op and input.

        Args:
            add_shapes: refused; a node has its shape.
        """
        from .kinds import graph_described

        refuse("as_graph_def", "from_version", from_version, "Compare the names with older ones.")
        refuse("as_graph_def", "add_shapes", add_shapes, "Ask get_operations() for their shapes.")
        return graph_described(self)

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Node:
        """Return the node that `obj` is, or is the name of.

        Raises:
            GraphError: there is none, or it belongs to another graph.
        """
        if isinstance(obj, str):
            return self.get_tensor_by_name(obj)
        if getattr(obj, "graph", None) is None:
            raise TypeError(f"as_graph_element: got {type(obj).__name__}, expected a node or name.")
        if obj.graph is not self:
            raise GraphError(
                f"as_graph_element: {obj.name!r} is not in this graph (built at {obj.location})."
            )
        found: Node = obj
        return found

    # Collections

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Put `value` at the end of the collection called `name`."""
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Iterable[Any] | str, value: Any) -> None:
        """Put `value` at the end of each of these collections."""
        for name in [names] if isinstance(names, str) else names:
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return what is in a collection; with `scope` what has a name that begins so."""
        if name in OF_VARIABLES:
            found = [v for v in self.variables if name in v.collections]
        else:
            found = list(self._collections.get(name, ()))
        if scope is None:
            return found
        return [item for item in found if re.match(scope, getattr(item, "name", ""))]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return a collection itself, to be changed in place; of variables, a copy."""
        if name in OF_VARIABLES:
            return self.get_collection(name)
        return self._collections.setdefault(name, [])

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self._collections.pop(name, None)

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of the collections that have something in them."""
        of_variables = [name for name in OF_VARIABLES if self.get_collection(name)]
        return [*of_variables, *(name for name, found in self._collections.items() if found)]


OF_VARIABLES = (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
)
"""Collections that every variable says itself whether it is in."""
