"""Text for character models, made by a small grammar: seeded, and of any length."""

from __future__ import annotations

import numpy as np

from minitorch.data.dataset import Dataset
from minitorch.data.seed import GeneratorLike, as_generator
from minitorch.errors import ArgumentError
from minitorch.tensor import Tensor, tensor

NOUNS = ("worker", "server", "bucket", "ring", "tensor", "kernel", "batch", "graph", "node", "loss")
VERBS = ("sends", "sums", "waits for", "splits", "reads", "copies", "fuses", "schedules")
ADJECTIVES = ("slow", "fast", "idle", "full", "empty", "stale", "warm", "shared")
ENDS = (". ", ". ", ". ", "! ", "? ")


def text(n_chars: int = 10_000, seed: GeneratorLike = 0) -> str:
    """Return `n_chars` characters of sentences such as "the idle worker waits for a full bucket."

    Spelling, spaces and agreement are regular enough for a small model to learn in seconds.
    """
    draw = as_generator(seed)
    parts: list[str] = []
    length = 0
    while length < n_chars:
        sentence = _sentence(draw)
        parts.append(sentence)
        length += len(sentence)
    return "".join(parts)[:n_chars]


class CharText(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a text: `block_size` character ids, and the ids one character later.

    Attributes:
        vocabulary: the characters of the text, sorted; an id is a place in it.
    """

    def __init__(self, content: str, block_size: int = 32) -> None:
        if len(content) <= block_size:
            raise ArgumentError(
                f"CharText: the text is too short: got {len(content)} characters, expected more "
                f"than block_size {block_size}."
            )
        self.vocabulary = sorted(set(content))
        self.block_size = block_size
        self._ids = np.array(self.encode(content), dtype=np.int64)

    def encode(self, content: str) -> list[int]:
        """Return the id of every character; a character outside the vocabulary is an error."""
        place = {character: i for i, character in enumerate(self.vocabulary)}
        unknown = sorted(set(content) - place.keys())
        if unknown:
            raise ArgumentError(f"encode: got {unknown}, expected characters of the vocabulary.")
        return [place[character] for character in content]

    def decode(self, ids: list[int]) -> str:
        """Return the text of these ids."""
        return "".join(self.vocabulary[int(i)] for i in ids)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"CharText: got index {index}, expected one below {len(self)}.")
        window = self._ids[index % len(self) :][: self.block_size + 1]
        return tensor(window[:-1]), tensor(window[1:])

    def __len__(self) -> int:
        return len(self._ids) - self.block_size


def _sentence(draw: np.random.Generator) -> str:
    def phrase() -> str:
        words = [("the", "a", "every")[draw.integers(3)]]
        if draw.random() < 0.5:
            words.append(ADJECTIVES[draw.integers(len(ADJECTIVES))])
            words[0] = "an" if words[0] == "a" and words[1][0] in "aeiou" else words[0]
        words.append(NOUNS[draw.integers(len(NOUNS))])
        return " ".join(words)

    verb = VERBS[draw.integers(len(VERBS))]
    return f"{phrase()} {verb} {phrase()}{ENDS[draw.integers(len(ENDS))]}"
