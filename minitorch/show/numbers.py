"""Arrays, and places in files, in few characters."""

import numpy as np

from ..arrays.library import Array

ROOM = 36  # characters that fit into a box


def brief(array: Array, room: int = ROOM) -> str:
    """Return the numbers where they fit into `room` characters, else their mean and spread."""
    numbers = np.asarray(array)
    if numbers.size == 0:
        return f"empty {numbers.shape}"
    if numbers.size <= room // 2:
        text = _brackets(numbers)
        if len(text) <= room:
            return text
    flat = numbers.astype(np.float64)
    return f"mean {_short(float(flat.mean()))} ± {_short(float(flat.std()))}"


def _brackets(array: Array) -> str:
    if array.ndim == 0:
        return _short(array.item())
    return f"[{', '.join(_brackets(part) for part in array)}]"


def _short(number: float) -> str:
    if isinstance(number, bool | np.bool_):
        return str(bool(number))
    if isinstance(number, int | np.integer):
        return str(int(number))
    return f"{float(number):.3g}"


def plural(count: int, what: str) -> str:
    """Return "1 node", "2 nodes"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def listing(names: list[str]) -> str:
    """Return "a", "a and b", "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def in_bytes(count: int) -> str:
    """Return a number of bytes in the unit that suits it: "512 B", "1.5 KiB"."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000 or unit == "GiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"


def in_seconds(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def file_and_line(location: str) -> str:
    """Return "model.py:7" of a location: its folder means nothing where the picture is read."""
    return location.rpartition("/")[2]
