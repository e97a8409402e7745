"""Folding, algebra and common subexpressions in one walk, since each makes work for the others."""

from collections.abc import Collection, Sequence

from ..core.node import Node
from .algebra import simplifying
from .cse import sharing
from .fold import folding
from .rewrite import UntilSettled, rewrite


def simplify(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches as the three passes would leave them, asked until none finds anything."""
    rule = UntilSettled(folding(fed), simplifying(fetches, fed), sharing(fed))
    return rewrite(fetches, rule, fed)
