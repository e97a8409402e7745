"""A whole run in one still picture: a column a round, a grid a rank. SVG text, no scripts.

It stands where the player cannot run: on GitHub, in print, in a page without a kernel.
"""

from collections.abc import Iterator, Sequence
from html import escape

from ddp_lab.show.story import Story

CELL = 9
GAP = 26
COUNT_ROW = 20
COLUMNS = 25  # of a run with more rounds, that many of them, evenly
LEFT = 68
TOP = 62
STYLE = """
text{font:12px system-ui,sans-serif;fill:#1b1f24}
.p{fill:#ffffff}.c{fill:#ffffff;stroke:#6e7781}.s{fill:#0b62b8}.d{fill:#1a7f37}
@media(prefers-color-scheme:dark){text{fill:#e8edf2}.p{fill:#14181d}
.c{fill:#14181d;stroke:#8b96a1}.s{fill:#6cb6ff}.d{fill:#5fd07f}}
""".replace("\n", "")


def poster(story: Story) -> str:
    """Return the run as an SVG picture with a description in words."""
    cells = len(story.cuts) - 1
    shown = _rounds_with_columns(len(story.known))
    digits = len(str(max(story.sent[-1])))
    column = cells * CELL + GAP if cells > 0 else max(7 * digits + 10, 35)
    row = story.world_size * CELL + GAP if cells > 0 else COUNT_ROW
    width = max(LEFT + len(shown) * column, 420)
    height = TOP + story.world_size * row + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(summary(story))}">',
        f"<style>{STYLE}</style>",
        f'<rect class="p" width="{width}" height="{height}"/>',
        f'<text x="10" y="20" font-weight="bold">{escape(story.title)}</text>',
        f'<text x="10" y="{TOP - 14}">round</text>',
        *_labels(story, shown, column, row),
        *(_grids if cells > 0 else _counts)(story, shown, column, row),
        "</svg>",
    ]
    return "\n".join(parts)


def summary(story: Story) -> str:
    """Return the run in two sentences, for those who cannot see it."""
    sent = story.sent[-1]
    messages = sum(map(len, story.rounds))
    return (
        f"{story.title}: {_count(story.world_size, 'rank')}, {_count(messages, 'message')} in "
        f"{_count(len(story.rounds), 'round')}. The busiest rank sent {max(sent)} bytes, "
        f"the idlest {min(sent)}."
    )


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _rounds_with_columns(frames: int) -> list[int]:
    """Return the rounds that have a column: all, or as many as a page is wide, evenly."""
    if frames <= COLUMNS:
        return list(range(frames))
    return [round(k * (frames - 1) / (COLUMNS - 1)) for k in range(COLUMNS)]


def _labels(story: Story, shown: Sequence[int], column: int, row: int) -> Iterator[str]:
    for place, k in enumerate(shown):
        yield f'<text x="{LEFT + place * column}" y="{TOP - 14}">{k}</text>'
    for rank in range(story.world_size):
        yield f'<text x="10" y="{TOP + rank * row + 14}">rank {rank}</text>'


def _grids(story: Story, shown: Sequence[int], column: int, row: int) -> Iterator[str]:
    n = story.world_size
    for place, k in enumerate(shown):
        for rank, cells in enumerate(story.known[k]):
            for c, seen in enumerate(cells):
                for r in range(n):
                    kind = "" if r not in seen else " d" if len(seen) == n else " s"
                    x, y = LEFT + place * column + c * CELL, TOP + rank * row + r * CELL
                    yield f'<rect class="c{kind}" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>'


def _counts(story: Story, shown: Sequence[int], column: int, row: int) -> Iterator[str]:
    for place, k in enumerate(shown):
        for rank, n_bytes in enumerate(story.sent[k]):
            x, y = LEFT + place * column, TOP + rank * row + 14
            yield f'<text x="{x}" y="{y}">{n_bytes}</text>'
