"""What tests ask of pages and pictures: what they load, how their colours stand out, what shows."""

from html.parser import HTMLParser
from typing import Any


class Loads(HTMLParser):
    """Collects everything that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [value or "" for name, value in attrs if name in ("src", "href")]


def contrast(a: str, b: str) -> float:
    """Return the contrast of two colours, 1 to 21, as WCAG 2 has it."""
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def expect(locator: Any) -> Any:
    """Return Playwright's `expect` of a part of a page; imported when a browser is there."""
    from playwright.sync_api import expect as playwright_expect

    return playwright_expect(locator)
