"""What is drawn: boxes with lines of text, and arrows between them. No picture yet."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Box:
    """One value or operator. `kind` is one of the keys of `svg.FILLS`."""

    key: Hashable
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "operator"


@dataclass(frozen=True)
class Arrow:
    """A value on its way; dashed where it is only an order (a control dependency)."""

    source: Hashable
    target: Hashable
    dashed: bool = False


@dataclass
class Drawing:
    """Boxes in an order in which every arrow points forward, where there is such an order."""

    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    caption: str = ""
    hidden: int = 0  # boxes left out because there were too many
