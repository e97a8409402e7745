"""Nodes are there once: a copy of one is itself, and none leaves its process.

A graph is as deep as the program that built it, so copying or pickling it from the inside would
recurse as deep; and nobody needs to, since nodes never change and the values are in sessions.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from ..errors import GraphTypeError


class Lasting:
    """Base of what is there once in a process."""

    __slots__ = ()

    def __copy__(self) -> Self:
        """Return itself: a node never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: what it is computed from never changes either."""
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            GraphTypeError: always; names the node and the line that built it.
        """
        raise GraphTypeError(
            f"pickle: got node {getattr(self, 'name', '?')!r} (built at "
            f"{getattr(self, 'location', '?')}), expected arrays. Build the graph by the same code "
            "where it is needed, and take variables there with a Saver."
        )
