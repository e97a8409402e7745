"""What goes wrong by TensorFlow's names: all are the package's own errors."""

from __future__ import annotations

from ..errors import GraphError, MinitorchError

OpError = InvalidArgumentError = MinitorchError
"""A value does not fit: a shape, a dtype, an assertion."""

FailedPreconditionError = NotFoundError = AlreadyExistsError = GraphError
"""A variable has no value, or a name is not there."""
