"""What TensorFlow's operations have, as properties of nodes: a node is value and operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kinds import NodeDef


class AsOperation:
    """The part of a node that speaks of it as an operation.

    So `t.op.inputs` is `t.inputs` here: `t.op` is the operator, which several nodes may share. A
    node's name has no ":0" at its end; wherever a name is asked for, one with ":0" means the same.
    """

    __slots__ = ()

    @property
    def outputs(self) -> list[Any]:
        """The value itself: an operator has one result here, and the node is both."""
        return [self]

    def consumers(self) -> list[Any]:
        """The nodes alive that are computed from this one, in the order they were built."""
        built = self.graph.get_operations()  # type: ignore[attr-defined]
        return [node for node in built if any(source is self for source in node.inputs)]

    @property
    def type(self) -> str:
        """The kind of operation, by TensorFlow's name: "MatMul", "Placeholder"."""
        from .kinds import kind_called

        return kind_called(self)

    @property
    def node_def(self) -> NodeDef:
        """What it is as data: name, op, the names of its inputs."""
        from .kinds import described

        return described(self)
