"""A whole run in one still picture: a column a round, a grid a rank. SVG text, no scripts.

It stands where the player cannot run: on GitHub, in print, in a page without a kernel.
"""

from collections.abc import Iterator, Sequence

from ddp_lab.show.story import Story
from ddp_lab.show.svg_text import box, picture, text

CELL = 9
GAP = 26
COUNT_ROW = 20
COLUMNS = 25  # of a run with more rounds, that many of them, evenly
LEFT = 68
TOP = 62


def poster(story: Story) -> str:
    """Return the run as an SVG picture with a description in words."""
    cells = len(story.cuts) - 1
    shown = _rounds_with_columns(len(story.known))
    digits = len(str(max(story.sent[-1])))
    column = cells * CELL + GAP if cells > 0 else max(7 * digits + 10, 35)
    row = story.world_size * CELL + GAP if cells > 0 else COUNT_ROW
    marks = [text(10, 20, story.title), text(10, TOP - 14, "round")]
    marks += [text(LEFT + place * column, TOP - 14, str(k)) for place, k in enumerate(shown)]
    marks += [text(10, TOP + r * row + 14, f"rank {r}") for r in range(story.world_size)]
    marks += (_grids if cells > 0 else _counts)(story, shown, column, row)
    width = max(LEFT + len(shown) * column, 420)
    return picture(width, TOP + story.world_size * row + 10, summary(story), marks)


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


def _grids(story: Story, shown: Sequence[int], column: int, row: int) -> Iterator[str]:
    n = story.world_size
    for place, k in enumerate(shown):
        for rank, cells in enumerate(story.known[k]):
            for c, seen in enumerate(cells):
                whole = "hidden" if len(seen) == n else "backward"
                for r in range(n):
                    x, y = LEFT + place * column + c * CELL, TOP + rank * row + r * CELL
                    yield box(x, y, CELL - 1, CELL - 1, whole if r in seen else "empty")


def _counts(story: Story, shown: Sequence[int], column: int, row: int) -> Iterator[str]:
    for place, k in enumerate(shown):
        for rank, n_bytes in enumerate(story.sent[k]):
            yield text(LEFT + place * column, TOP + rank * row + 14, str(n_bytes))
