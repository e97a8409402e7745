"""Numbers as PyTorch prints them: four digits, all of one width, the middle of many left out.

May import: NumPy.
"""

from collections.abc import Callable

import numpy as np

LINE = 80  # characters
MOST = 1_000  # numbers that are printed whole
ENDS = 3  # of each axis otherwise

Write = Callable[[object], str]  # a number as text, all of one width


def describe_numbers(values: np.ndarray, indent: int) -> str:
    """Return the numbers of an array between brackets, lines after the first so much indented."""
    if not values.size:
        return "[]"
    is_cut = values.size > MOST
    printed = values
    for d, size in enumerate(values.shape if is_cut else ()):
        if size > 2 * ENDS:
            printed = np.take(printed, [*range(ENDS), *range(size - ENDS, size)], d)
    write = writer(printed)
    return _rows(values, write, indent, is_cut) if values.ndim else write(values.item())


def writer(values: np.ndarray) -> Write:
    """Return what writes each of these values: as wide as the widest."""
    if values.dtype.kind != "f":
        width = max(len(str(value)) for value in values.ravel().tolist())
        return lambda value: str(value).rjust(width)
    finite = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    sizes = np.abs(finite)
    whole = bool((finite == np.ceil(finite)).all())
    low, high = (sizes.min(), sizes.max()) if sizes.size else (1.0, 1.0)
    if high / low > 1000 or high > 1e8 or (low < 1e-4 and not whole):
        form, point = ".4e", ""
    else:
        form, point = (".0f", ".") if whole else (".4f", "")
    width = max((len(f"{value:{form}}{point}") for value in finite.tolist()), default=1)

    def write(value: object) -> str:
        return f"{value:{form}}{point if np.isfinite(value) else ''}".rjust(width)  # type: ignore[call-overload]

    return write


def _rows(values: np.ndarray, write: Write, indent: int, is_cut: bool) -> str:
    cut = is_cut and len(values) > 2 * ENDS
    shown = [*values[:ENDS], *values[-ENDS:]] if cut else list(values)
    if values.ndim > 1:
        rows = [_rows(row, write, indent + 1, is_cut) for row in shown]
        if cut:
            rows.insert(ENDS, "...")
        return f"[{(',' + chr(10) * (values.ndim - 1) + ' ' * (indent + 1)).join(rows)}]"
    words = [write(value.item()) for value in shown]
    most = max(1, (LINE - indent) // (len(words[0]) + 2))
    if cut:
        words.insert(ENDS, " ...")
    lines = [", ".join(words[at : at + most]) for at in range(0, len(words), most)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"


def add_notes(text: str, notes: list[str], indent: int) -> str:
    """Return a text with notes behind it, on lines of their own where there is no room."""
    length = len(text) - text.rfind("\n") + 1
    for note in notes:
        fits = length + len(note) + 2 <= LINE
        text += f", {note}" if fits else f",\n{' ' * indent}{note}"
        length = length + len(note) + 2 if fits else indent + len(note)
    return text
