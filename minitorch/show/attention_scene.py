"""Attention of a head while words are generated: weights, the mask, and the cache that fills."""

from collections.abc import Sequence

from minitorch.errors import ArgumentError
from minitorch.show.scene import Canvas, Scene, Step, forever, light_up

MOST = 16  # words to show
LEFT, TOP, COLUMN, ROW, CACHE = 78.0, 24.0, 44.0, 19.0, 16.0
LEAST = 0.02  # a smaller share has no bar
HINT = (
    "A row is the query of a word, a column the key of a word: the longer a bar, the more of that "
    "word's value the query takes. On the right, the word that the model says next."
)
LEGEND = (
    ("bar", "share, in this step"),
    ("bar faded", "share, before"),
    ("panel", "masked: comes later"),
    ("box value", "key in the cache"),
    ("box grad", "value in the cache"),
)


def see_attention(
    words: Sequence[str], rows: Sequence[Sequence[float]], *, prompt: int,
    temperature: float = 1.0, title: str = "Attention of a head", tab: str = "Attention",
) -> Scene:  # fmt: skip
    """Return what a head looks at: first the prompt at once, then a word a step, with a cache.

    Args:
        words: the prompt and what was generated.
        rows: for each word but the last, its share of each word up to itself.
        prompt: how many of the words are the prompt.
        temperature: what scores were divided by; from 8 rows on it can be made `draggable`.
    Raises:
        ArgumentError: rows are not those of a causal softmax over the words.
    """
    _check(words, rows, prompt)
    n = len(rows)
    right, bottom = LEFT + COLUMN * n, TOP + ROW * n
    canvas = Canvas()
    _mask(canvas, n, temperature)
    for i in range(n):
        at = 1 if i < prompt else i - prompt + 2  # the step that takes the word
        _row(canvas, words, rows[i], i, 0 if i < prompt else at, at)
        if i >= prompt - 1:
            text = _from(at, at, "", "now bold")
            canvas.text(right + 10, TOP + ROW * i + 14, f"→ {words[i + 1]}", text)
        _add_to_cache(canvas, words[i], LEFT + COLUMN * i, bottom, at)
    for k, name in enumerate(("keys", "values")):
        top = bottom + 14 + (CACHE + 6) * k
        canvas.text(LEFT - 10, top + 13, name, "end muted")
    canvas.text(right + 10, TOP - 8, "says next", "muted")
    steps = [Step(f"A prompt of {prompt} words. The cache is empty.")]
    steps += [_step(words, rows, prompt, i) for i in range(prompt - 1, n)]
    return Scene(
        title, HINT, tab, _summary(words, prompt, temperature), right + 90,
        bottom + 2 * CACHE + 30, tuple(canvas.marks), tuple(steps), len(steps) - 1, LEGEND,
    )  # fmt: skip


def _check(words: Sequence[str], rows: Sequence[Sequence[float]], prompt: int) -> None:
    causal = all(
        len(row) == i + 1 and min(row) >= 0 and abs(sum(row) - 1) < 0.02
        for i, row in enumerate(rows)
    )
    if not (1 <= prompt <= len(rows) == len(words) - 1 < MOST and causal):
        raise ArgumentError(
            f"see_attention: got {len(words)} words, a prompt of {prompt} and {len(rows)} rows, "
            f"expected at most {MOST} words, a row for each but the last, and in row i the shares "
            "of words 0 to i, which are 1 together."
        )


def _row(
    canvas: Canvas, words: Sequence[str], shares: Sequence[float], i: int, start: int, at: int
) -> None:
    """Add the word of row and column i, and its share of each word as a bar."""
    word, y, middle = words[i], TOP + ROW * i, LEFT + COLUMN * i + COLUMN / 2
    canvas.text(LEFT - 10, y + 14, word, _from(start, at, "end", "end now bold"))
    canvas.text(middle, TOP - 8, word, _from(start, at, "middle", "middle now bold"))
    for j, share in enumerate(shares):
        if share >= LEAST:
            tip = f"{word} looks at {words[j]}: {share:.0%}"
            width, shown = (COLUMN - 2) * share, _from(at, at, "bar faded", "bar")
            canvas.rect(LEFT + COLUMN * j + 1, y + 2, width, ROW - 4, shown, 1, tip)


def _add_to_cache(canvas: Canvas, word: str, x: float, bottom: float, at: int) -> None:
    """Add the key and the value of a word to the cache, from step `at` on."""
    for k, (name, kind) in enumerate((("key", "value"), ("value", "grad"))):
        top, new = bottom + 14 + (CACHE + 6) * k, ((at, at + 1, "ring"),)
        tip = f"{name} of {word}"
        canvas.rect(x + 3, top, COLUMN - 6, CACHE, forever(at, f"box {kind}"), tip=tip)
        canvas.rect(x + 1, top - 2, COLUMN - 2, CACHE + 4, new)


def _from(start: int, at: int, later: str, now: str) -> tuple[tuple[int, int, str], ...]:
    """Return classes from a position on, with others in the step at `at`."""
    return tuple(
        (max(a, start), b, classes) for a, b, classes in light_up(later, {at: now}) if b > start
    )


def _mask(canvas: Canvas, n: int, temperature: float) -> None:
    """Add what no query sees, and in it the value that can be dragged."""
    right = LEFT + COLUMN * n
    stairs = [f"H {LEFT + COLUMN * i:.0f} V {TOP + ROW * i:.0f}" for i in range(n - 1, 0, -1)]
    start = f"M {LEFT + COLUMN:.0f} {TOP:.0f} H {right:.0f} V {TOP + ROW * (n - 1):.0f}"
    canvas.path(" ".join([start, *stairs]), "panel")
    across = [f"M {LEFT:.0f} {TOP + ROW * i:.0f} H {right:.0f}" for i in range(n + 1)]
    down = [f"M {LEFT + COLUMN * i:.0f} {TOP:.0f} V {TOP + ROW * n:.0f}" for i in range(n + 1)]
    canvas.path(" ".join(across + down), "rule")
    if n >= 8:
        x, y = right - COLUMN * 3, TOP + ROW
        canvas.rect(x, y, COLUMN * 2.5, ROW * 2, "box")
        canvas.text(x + COLUMN * 1.25, y + 15, "temperature", "middle")
        canvas.text(x + COLUMN * 1.25, y + 31, f"{temperature:g}", "middle bold")


def _step(words: Sequence[str], rows: Sequence[Sequence[float]], prompt: int, i: int) -> Step:
    most = sorted(range(i + 1), key=lambda j: -rows[i][j])[:2]
    looks = " and ".join(f"{rows[i][j]:.0%} of {words[j]}" for j in most)
    if i < prompt:
        computed = f"The prompt at once, {prompt} queries: the last takes {looks}"
    else:
        computed = f"One query, of the new word {words[i]}: it takes {looks}"
    again = sum(range(prompt, i + 2))
    ran = f"{i + 1} words have run through the model; without a cache, {again}."
    return Step(f"{computed}. The model says {words[i + 1]}.", (ran,))


def _summary(words: Sequence[str], prompt: int, temperature: float) -> str:
    begin, end = " ".join(words[:prompt]), " ".join(words[prompt:])
    return (
        f"What a head of attention looks at after {begin!r}, at temperature {temperature:g}: "
        f"the model goes on with {end!r}."
    )
