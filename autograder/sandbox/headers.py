"""Outside the wall: which message headers cost nothing.

A message is an array with a short header, and a rank's bytes are those of its arrays. So that a
header cannot carry an array's contents, one costs nothing only if the communicator could have
written it: of its form, with numbers of a few digits and words that stand in its own source or in
the code that runs on the ranks, and with a call site that is there. Any other is counted.
"""

import functools
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

from autograder.sandbox.layout import original

WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\d{1,6}")
_SITE = re.compile(r"(.{1,300}):(\d{1,6})")
_SHAPE = re.compile(r"\?|\((?:\d{1,9}(?:, \d{1,9}){0,3},?)?\)")
_TYPE = re.compile(r"\?|bool|(?:u?int|float|complex|bfloat)\d{1,3}")
_COLLECTIVE = 6  # fields: order, operation, algorithm, dtype, shape, argument
_MOST_WORDS = 4  # of an operation with its algorithm, or an argument


class Headers:
    """The headers that cost nothing where `texts` run: {file name as call sites say it: text}."""

    def __init__(self, texts: Mapping[str, str], communicator: str) -> None:
        self._lines = {name: text.count("\n") + 1 for name, text in texts.items()}
        package = communicator.partition(":")[0].partition(".")[0]
        own = {word for text in texts.values() for word in WORD.findall(text)}
        self._words = words_of(package) | own
        self._known: dict[bytes, bool] = {}

    def cost(self, header: bytes) -> int:
        """Return how many bytes of `header` are counted: none or all."""
        if header not in self._known:
            self._known[header] = self._is_free(header)
        return 0 if self._known[header] else len(header)

    def _is_free(self, header: bytes) -> bool:
        if not header:
            return True
        try:
            parts = header.decode().split("\0")
        except UnicodeDecodeError:
            return False
        if len(parts) != 3:
            return False
        text, site, kind = parts
        fields = text.split("|")
        if len(fields) == _COLLECTIVE:
            order, *named, dtype, shape, argument = fields
            plain = bool(_TYPE.fullmatch(dtype) and _SHAPE.fullmatch(shape))
            plain = plain and all(self._says_little(part) for part in (order, *named, argument))
        else:
            plain = len(fields) == 1 and self._says_little(text)
        return plain and self._is_there(site) and self._says_little(kind)

    def _says_little(self, text: str) -> bool:
        """Return whether `text` is a few known words and short numbers."""
        words = re.findall(r"\w+", text)
        punctuation = re.sub(r"\w", "", text)
        all_known = all(word in self._words or _NUMBER.fullmatch(word) for word in words)
        return all_known and len(words) <= _MOST_WORDS and len(punctuation) <= _MOST_WORDS

    def _is_there(self, site: str) -> bool:
        """Return whether `site` is a line of the texts, or of a file that a rank can see."""
        if not site:
            return True
        match = _SITE.fullmatch(site)
        if match is None:
            return False
        name, line = match[1], int(match[2])
        return line <= self._lines.get(name, lines_of(name))


@functools.lru_cache(maxsize=1024)
def lines_of(name: str) -> int:
    """Return how many lines the Python file has that a rank sees as `name`, 0 where none is."""
    path = Path(original(name))
    try:
        return path.read_bytes().count(b"\n") + 1 if path.suffix == ".py" else 0
    except (OSError, ValueError):
        return 0


@functools.lru_cache(maxsize=8)
def words_of(package: str) -> frozenset[str]:
    """Return every name in the source of a package; none where it is not installed."""
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = [path for folder in folders for path in Path(folder).rglob("*.py")]
    texts = [path.read_text("utf-8", "replace") for path in files]
    return frozenset[str]().union(*map(WORD.findall, texts))
