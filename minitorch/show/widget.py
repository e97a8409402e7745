"""The player in a notebook: an anywidget over `player.js`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from minitorch.show.page import css, make_poster, module

if TYPE_CHECKING:
    from minitorch.show.scene import Scene


class Player(anywidget.AnyWidget):
    """Plays scenes step by step, one a tab.

    `tab` is which scene it shows and `at` where that stands, from its beginning; both follow both
    ways. Where no widget can be shown, a still picture of where it shows most is.
    """

    _esm = module()
    _css = css()
    scenes: traitlets.List[Any] = traitlets.List().tag(sync=True)
    tab = traitlets.Int(0).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)

    def __init__(self, scenes: "Sequence[Scene]", at: int = 0) -> None:
        super().__init__(scenes=[scene.as_dict() for scene in scenes], at=at)
        self._scenes = tuple(scenes)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        return data | make_poster(self._scenes), metadata
