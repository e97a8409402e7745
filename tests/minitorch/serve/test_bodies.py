"""Large bodies are read as the standard library and NumPy read them, but in pieces."""

import asyncio
import json
import random
from typing import Any

import httpx
import numpy as np
import pytest

from minitorch.errors import DTypeError, ShapeError
from minitorch.serve import Server, bodies, http
from minitorch.serve.bodies import Reader, Work, plain, to_array, to_json
from minitorch.serve.wire import as_input

TEXTS = ["a", "],[", '}",', '\\"],', "é\u2028", "[[1,2],[", ""]
NUMBERS = [1, -2.5, 1e300, True, None, 0, 12345678901234567890]


def result_of(work: Work) -> tuple[Any, int]:
    """Return what work returns, and after how many pieces."""
    n_pieces = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, n_pieces
        n_pieces += 1


def draw(rng: random.Random, depth: int) -> Any:
    kind = rng.random()
    if depth and kind < 0.35:
        return [draw(rng, depth - 1) for _ in range(rng.randrange(6))]
    if depth and kind < 0.45:
        return {rng.choice('abc"],{') + str(n): draw(rng, depth - 1) for n in range(3)}
    return rng.choice(TEXTS) if kind < 0.6 else rng.choice(NUMBERS)


def spoil(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", *'[]{},:"1 ']) + text[at + rng.randrange(2) :]


def outcome(read: Any) -> tuple[str, Any]:
    try:
        return "value", read()
    except json.JSONDecodeError as error:
        return "error", str(error)


@pytest.mark.parametrize("seed", range(4))
def test_json_in_pieces_is_what_the_standard_library_reads(seed: int) -> None:
    """Errors too: random values, and the same with a character more, less or another."""
    rng = random.Random(seed)
    for _ in range(50):
        text = json.dumps(draw(rng, 4), indent=rng.choice([None, 1]), ensure_ascii=False)
        for body in (text, spoil(rng, text), spoil(rng, spoil(rng, text))):
            expected = outcome(lambda body=body: http.DECODER.decode(body))
            for piece in (4, 16, 50):
                reader = Reader(body, http.DECODER, piece)
                assert outcome(lambda reader=reader: result_of(reader.read())[0]) == expected


@pytest.mark.parametrize(
    "x",
    [
        np.arange(30_000).tolist(),
        [np.linspace(0, 1, 30_000).tolist()],
        [0] * 20_000 + [0.5],
        [True] * 20_000 + [2],
        np.arange(60_000.0).reshape(20, 3, 1000).tolist(),
        [[n, 2 * n] for n in range(20_000)],
        [f"{n},]" for n in range(20_000)] + ["long " * 10],
    ],
    ids=["integers", "one row", "mixed", "bools", "images", "pairs", "texts"],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_large_input_takes_many_pieces_and_is_the_same(x: list[Any], indent: int | None) -> None:
    text = json.dumps(x, indent=indent)
    value, n_read = result_of(Reader(text, http.DECODER).read())
    array, n_converted = result_of(to_array(value, isinstance(x[0], str)))
    expected = as_input(x)
    assert value == x and n_read >= len(text) // bodies.PIECE and n_converted >= 4
    assert array.dtype == expected.dtype and np.array_equal(array, expected)


def test_a_large_input_that_is_no_array_is_refused() -> None:
    ragged = [[1, 2]] * 20_000 + [[1]]
    for x, error in (
        (ragged[:18_432] + [[1]] * 4_000, ShapeError),
        (ragged, ShapeError),
        (["a"] * 20_000 + [1] * 20_000, DTypeError),
    ):
        with pytest.raises(error, match="predict: x"):
            result_of(to_array(x, True))


def test_a_large_answer_is_written_in_pieces() -> None:
    for array in (
        np.arange(60_000.0).reshape(3, 20_000),
        np.full((30_000,), np.nan),
        np.zeros((3, 0)),
        np.array(2.0),
    ):
        text, n_pieces = result_of(to_json(array))
        assert json.loads(text) == plain(array)
        assert n_pieces >= array.size // bodies.NUMBERS


def test_over_http_others_are_answered_while_a_large_body_is_read() -> None:
    """A second large body waits until the first one has been read; a small one does not."""
    large = json.dumps({"x": np.linspace(0, 1, 60_000).tolist()})

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(http.application(Server()))
        order: list[str] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:

            async def post(name: str, content: str) -> None:
                await client.post("/apps/none/predict", content=content)
                order.append(name)

            async with asyncio.TaskGroup() as tasks:
                for name, content in (("large", large), ("large", large), ("small", '{"x": 1}')):
                    tasks.create_task(post(name, content))
        return order

    assert asyncio.run(ask()) == ["small", "large", "large"]
