"""How scenes appear as the value of a cell: as a widget where there is a kernel for one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from minitorch.show.poster import poster

if TYPE_CHECKING:
    from minitorch.show.scene import Scene


def bundle(scenes: Sequence[Scene]) -> Any:
    """Return what a notebook shows: the player, with a poster and a text where it cannot be."""
    if has_kernel() and find_spec("anywidget") is not None:
        from minitorch.show.widget import Player

        return Player(scenes)._repr_mimebundle_()
    return {
        "image/svg+xml": poster(scenes[0]),
        "text/plain": "\n".join(scene.summary for scene in scenes),
    }


def has_kernel() -> bool:
    """Tell whether this is a notebook's process: a terminal has no place for widgets."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
