"""Text from outside, made fit to print: no control characters, no ANSI, no bidi tricks, capped."""

import re
import unicodedata

LIMIT_CHARS = 4_000  # a screenful of feedback; more is not read

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)", re.DOTALL)
_KEPT = "\n\t"
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # controls, formats (bidi), surrogates


def printable(text: str, limit_chars: int = LIMIT_CHARS) -> str:
    """Return `text` with what is not plain printing taken out, cut in the middle to the limit."""
    if len(text) > limit_chars:
        half = limit_chars // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return "".join(c for c in text if c in _KEPT or unicodedata.category(c) not in _DROPPED)
