"""Train a small GPT on sentences, and record what its heads look at while it goes on with one.

python labs/demos/attention/recorded.py      writes recorded.json beside this file

A block of two heads, 32 wide, learns to turn a sentence round: who saw whom, who was seen by whom. It reads a prompt at once and then a word at a time, with a cache
of keys and values. Each run divides every score by another temperature before the softmax.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import minitorch as mt

KEPT = Path(__file__).with_name("recorded.json")
WORDS = "big old red shy sly wet cat dog fox hen owl pig drew knew saw drawn known seen so was by"
VOCABULARY = WORDS.split()
PROMPT, NEW = "old dog saw red cat so", 7
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
HEADS, WIDTH = 2, 32

Weights = dict[str, mt.Tensor]


def sentences(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return n rows of words: who saw whom, so who was seen by whom."""
    kinds, animals = rng.integers(6, size=(2, n)), 6 + rng.integers(6, size=(2, n))
    verbs = 12 + rng.integers(3, size=n)
    so, was, by = np.full((3, n), [[18], [19], [20]])
    first, other = (kinds[0], animals[0]), (kinds[1], animals[1])
    return np.stack([*first, verbs, *other, so, *other, was, verbs + 3, by, *first], axis=1)


def new_weights(rng: np.random.Generator) -> Weights:
    """Return the weights of a GPT, drawn."""
    sizes = {"words": (len(VOCABULARY), WIDTH), "places": (12, WIDTH)}
    shapes = {"qkv": (1, 3), "out": (1, 1), "up": (1, 4), "down": (4, 1)}
    sizes |= {name: (a * WIDTH, b * WIDTH) for name, (a, b) in shapes.items()}
    drawn = {name: rng.normal(size=size) / WIDTH**0.5 for name, size in sizes.items()}
    return {name: mt.tensor(array, requires_grad=True) for name, array in drawn.items()}


def logits_of(
    w: Weights, words: np.ndarray, cache: Weights, temperature: float = 1.0
) -> tuple[mt.Tensor, mt.Tensor]:
    """Return logits (B, T, V) of what follows words (B, T), and the attention (B, H, T, t + T).

    Args:
        cache: keys and values (B, H, t, D) of the words before; empty at first. It grows by T.
    """
    rows, new = words.shape
    before = cache["keys"].shape[2] if cache else 0
    x = w["words"][words] + w["places"][before : before + new]
    qkv = _norm(x) @ w["qkv"]
    q, k, v = qkv.reshape(rows, new, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    if before:
        k, v = mt.cat([cache["keys"], k], 2), mt.cat([cache["values"], v], 2)
    cache.update(keys=k, values=v)
    scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 / temperature
    later = np.triu(np.full((new, before + new), -np.inf), before + 1)
    attention = mt.softmax(scores + mt.tensor(later), -1)
    x = x + (attention @ v).transpose(1, 2).reshape(rows, new, WIDTH) @ w["out"]
    x = x + mt.relu(_norm(x) @ w["up"]) @ w["down"]
    return _norm(x) @ w["words"].transpose(0, 1), attention


def _norm(x: mt.Tensor) -> mt.Tensor:
    return mt.nn.functional.layer_norm(x, (WIDTH,))


def trained(steps: int = 150, rows: int = 32) -> Weights:
    """Return weights that have seen so many batches of sentences."""
    rng = np.random.default_rng(0)
    w = new_weights(rng)
    adam = mt.optim.Adam(list(w.values()), lr=5e-3)
    for _ in range(steps):
        batch = sentences(rng, rows)
        logits, _ = logits_of(w, batch[:, :-1], {})
        loss = mt.nn.functional.cross_entropy(
            logits.reshape(-1, len(VOCABULARY)), mt.tensor(batch[:, 1:].reshape(-1))
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
    return w


def run(w: Weights, temperature: float) -> dict[str, Any]:
    """Return the words, and for each head what every word but the last took of each before it."""
    words = new = [VOCABULARY.index(word) for word in PROMPT.split()]
    cache: Weights = {}
    heads: list[list[list[float]]] = [[] for _ in range(HEADS)]
    with mt.no_grad():
        for _ in range(NEW):
            logits, attention = logits_of(w, np.array([new]), cache, temperature)
            for head, rows in zip(heads, attention[0].numpy(), strict=True):
                for row in rows:
                    head.append(row[: len(head) + 1].round(3).tolist())
            new = [int(logits[0, -1].numpy().argmax())]
            words = words + new
    return {"words": [VOCABULARY[word] for word in words], "heads": heads}


def main() -> None:
    w = trained()
    kept = {str(temperature): run(w, temperature) for temperature in TEMPERATURES}
    KEPT.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    for temperature, found in kept.items():
        print(temperature, *found["words"])


if __name__ == "__main__":
    main()
