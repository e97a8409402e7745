"""What the charts in a notebook have in common: a still picture, words, and a page of their own."""

from pathlib import Path
from typing import Any, ClassVar

import anywidget

from ddp_lab.show.page import standalone, texts

CSS = texts("charts.css", "hall.css")


def module(name: str) -> str:
    """Return the ES module of a chart: what all of them share, and its own."""
    return texts("hall.js", "chart_kit.js", name)


class Chart(anywidget.AnyWidget):
    """A widget that also has a poster, a sentence and a standalone page.

    A chart says which of its traits its page needs (`state_names`), and how it looks standing
    still (`poster`, `summary`).
    """

    _css = CSS
    state_names: ClassVar[tuple[str, ...]] = ()
    title: Any  # a trait, where the page's title can be chosen

    def heading(self) -> str:
        """Return the title of its page."""
        return str(self.title)

    def summary(self) -> str:
        """Return what it shows, in a sentence for those who cannot see it."""
        raise NotImplementedError(f"{type(self).__name__}.summary")

    def poster(self) -> str:
        """Return it as it stands, as SVG."""
        raise NotImplementedError(f"{type(self).__name__}.poster")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        data["image/svg+xml"] = self.poster()
        data["text/plain"] = self.summary()
        return data, metadata

    def page(self) -> str:
        """Return an HTML file that needs neither kernel nor network."""
        return standalone(
            title=self.heading(),
            words=self.summary(),
            css=CSS,
            module=str(self._esm),  # a trait of each widget: its text
            state={name: getattr(self, name) for name in self.state_names},
            still=self.poster(),
        )

    def save(self, path: Path | str) -> Path:
        """Write `page()` to a file."""
        path = Path(path)
        path.write_text(self.page(), encoding="utf-8")
        return path
