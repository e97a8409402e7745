"""The player in a notebook: an anywidget over `player.js`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from minitorch.show.page import css, module, poster

if TYPE_CHECKING:
    from minitorch.show.scene import Scene


class Player(anywidget.AnyWidget):
    """Plays scenes step by step, one a tab.

    `tab` is which scene it shows and `at` where that stands, at first where it shows most; both
    follow both ways. Where no widget can be shown, a still picture is.
    """

    _esm = module()
    _css = css()
    scenes: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Int(0).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)

    def __init__(self, scenes: Sequence[Scene], at: int | None = None) -> None:
        at = scenes[0].still if at is None else at
        super().__init__(scenes=[scene.as_dict() for scene in scenes], at=at)
        self._scenes = tuple(scenes)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        data["image/svg+xml"] = poster(self._scenes[0])
        data["text/plain"] = "\n".join(scene.summary for scene in self._scenes)
        return data, metadata
