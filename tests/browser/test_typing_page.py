"""The page on which one types to a generator, in a real browser, against a real server."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from minitorch.serve import Server
from minitorch.serve.__main__ import listen
from minitorch.serve.http import application

pytestmark = pytest.mark.browser

WORDS = ["a", "b", "ab", " ", "<i>"]


class Counting:
    """Says token after token, from the one that follows the last of the prompt."""

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        return 9.0 * np.eye(len(WORDS))[(tokens[-1] + 1) % len(WORDS)]

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        return np.stack(
            [self.start(slot, [token]) for slot, token in zip(slots, tokens, strict=True)]
        )

    def free(self, slot: int) -> None:
        pass


@contextmanager
def served() -> Iterator[int]:
    """Serve the model on a free port, in a thread; yield the port."""
    import uvicorn

    listener = listen("127.0.0.1", 0)
    fronts: list[uvicorn.Server] = []

    async def serve() -> None:
        async with Server() as server:
            await server.deploy_generator("model", Counting, cache_tokens=64, words=WORDS)
            await server.link("chat", ["model"])
            options = uvicorn.Config(application(server), log_level="warning", lifespan="off")
            fronts.append(uvicorn.Server(options))
            await fronts[0].serve([listener])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()  # the listener is there: who asks before the model is waits for it
    try:
        yield listener.getsockname()[1]
    finally:
        fronts[0].should_exit = True
        thread.join()


def test_one_types_and_sees_it_answer_and_is_told_what_cannot_be(visit: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    with served() as port:
        page = visit().open(f"http://127.0.0.1:{port}/apps/chat")
        said, reply = page.locator("#said"), page.locator("#reply")
        page.locator("#temperature").fill("0")
        page.locator("#most").fill("4")
        page.locator("#prompt").fill("ab")
        page.locator("#go").click()
        expect(said).to_contain_text("The end: length. 4 tokens")
        assert reply.inner_text() == "ab" + " <i>ab"  # 2, the longest; then 3, 4, 0, 1: no markup
        page.locator("#prompt").fill("abc")
        page.locator("#go").click()
        expect(said).to_contain_text('The model has no token for "c". Leave it out.')
        page.locator("#prompt").fill("ab")
        page.locator("#most").fill("900")
        page.locator("#go").click()
        expect(said).to_contain_text("never fit the cache")
