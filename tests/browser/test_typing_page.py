"""The page on which one types to a generator, in a real browser, against a real server."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lessons.language.serving import TypingPage
from minitorch.errors import ModelFailed

pytestmark = pytest.mark.browser

WORDS = ["a", "b", "ab", " ", "<i>"]


class Counting:
    """Says token after token, from the one that follows the last of the prompt; of "b" slowly."""

    pause_s = 0.0

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        self.pause_s = 0.05 * (tokens == [1])
        return 9.0 * np.eye(len(WORDS))[(tokens[-1] + 1) % len(WORDS)]

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        time.sleep(self.pause_s)
        return 9.0 * np.eye(len(WORDS))[[(token + 1) % len(WORDS) for token in tokens]]

    def free(self, slot: int) -> None:
        pass


def test_a_model_that_cannot_be_made_is_told() -> None:
    with pytest.raises(ModelFailed, match="cannot be made"):
        TypingPage(lambda: 1 / 0, WORDS)


def test_one_types_and_sees_it_answer_and_is_told_what_cannot_be(visit: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    served = TypingPage(Counting, WORDS)
    try:
        page = visit().open(served.url)
        said, reply = page.locator("#said"), page.locator("#reply")

        def answer(prompt: str, new: int) -> None:
            page.locator("#prompt").fill(prompt)
            page.locator("#most").fill(str(new))
            page.locator("#go").click()

        page.locator("#temperature").fill("0")
        answer("ab", 4)
        expect(said).to_contain_text("The end: length. 4 tokens")
        assert reply.inner_text() == "ab" + " <i>ab"  # 2, the longest; then 3, 4, 0, 1: no markup
        for character in ("c", "😀"):
            answer(f"ab{character}", 4)
            expect(said).to_contain_text(f'The model has no token for "{character}". Leave it out.')
            assert reply.inner_text() == ""  # not what was answered before
        answer("ab", 20_000)
        expect(said).to_contain_text("never fit the cache")
        answer("b", 5_000)
        expect(reply).to_contain_text("bab <i>")
        answer("b", 5_000)  # the first answer gives way to this one, which can be stopped
        expect(reply).to_contain_text("bab <i>")
        assert said.inner_text() == ""
        page.locator("#stop").click()
        expect(said).to_have_text("Stopped.")
        answer("b", 5_000)
        expect(reply).to_contain_text("bab <i>")
    finally:
        served.close()
    expect(said).to_have_text("generate: the server was closed.")
    page.locator("#go").click()
    expect(said).to_contain_text("The server does not answer.")
