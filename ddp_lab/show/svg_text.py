"""The few pieces of SVG that the pictures of this folder are made of: text in, text out.

Colours follow the reader's light or dark setting. A picture's rules apply below its own class
alone, for a notebook puts every picture into one page.

May import: the standard library.
"""

from collections.abc import Iterable
from html import escape

CLASS = "ddp-picture"
COLOURS = {  # on light paper and on dark
    "page": ("#ffffff", "#14181d"),
    "ink": ("#1b1f24", "#e8edf2"),
    "faint": ("#8b949e", "#7d8894"),
    "forward": ("#8250df", "#c297ff"),
    "backward": ("#0b62b8", "#6cb6ff"),
    "exposed": ("#c2410c", "#ff9b57"),
    "hidden": ("#1a7f37", "#5fd07f"),
    "optimizer": ("#6e7781", "#a5b0bb"),
}
KINDS = ("backward", "exposed", "hidden", "forward")  # of things that are told apart by colour


def picture(width: int, height: int, words: str, marks: Iterable[str]) -> str:
    """Return an SVG picture of these marks; `words` say the same to who cannot see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(words)}">'
    )
    page = f'<rect class="page" width="{width}" height="{height}"/>'
    light, dark = ({name: pair[k] for name, pair in COLOURS.items()} for k in (0, 1))
    style = f"{_rules(light)}@media(prefers-color-scheme:dark){{{_rules(dark)}}}"
    return "\n".join([head, f"<style>{style}</style>", page, *marks, "</svg>"])


def _rules(colours: dict[str, str]) -> str:
    at = f".{CLASS}"
    rules = [f"{at} .{name}{{fill:{value}}}" for name, value in colours.items()]
    rules.append(f"{at} text{{font:12px system-ui,sans-serif;fill:{colours['ink']}}}")
    rules.append(f"{at} .inside{{fill:{colours['page']}}}")
    rules.append(f"{at} .empty{{fill:none;stroke:{colours['faint']}}}")
    rules += [f"{at} .line-{name}{{stroke:{value};fill:none}}" for name, value in colours.items()]
    return "".join(rules)


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return words that begin, have their middle or end at x, their foot at y."""
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{chosen}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, words: str = "") -> str:
    """Return a rectangle in the colour of `kind`; `words` show where a pointer rests on it."""
    title = f"<title>{escape(words)}</title>" if words else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{height:.1f}">{title}</rect>'
    )


def line(points: Iterable[tuple[float, float]], kind: str, width: float = 1, dash: str = "") -> str:
    """Return straight lines from point to point."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline class="line-{kind}" points="{joined}" stroke-width="{width}"{dashes}/>'
