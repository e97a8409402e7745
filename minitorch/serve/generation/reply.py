"""A request on its way to its reply, and the reader's end of it.

May import: errors, clock, sampling, scheduler.
"""

import asyncio
import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from minitorch.errors import ArgumentError, MinitorchError
from minitorch.serve.clock import Call, Timer
from minitorch.serve.generation.sampling import Sampling
from minitorch.serve.generation.scheduler import Job

LARGEST_TOKEN = 2**63 - 1


@dataclass(eq=False, kw_only=True)
class Reply(Job):
    """A request, and what it has come to."""

    prompt: list[int]
    sampling: Sampling
    stop: frozenset[int]
    asked_ms: float = 0.0
    due_ms: float = math.inf  # when the whole reply is due
    first_due_ms: float = math.inf  # when the first token is
    last_ms: float = 0.0  # when its last token came
    tokens: list[int] = field(default_factory=list)
    read: int = 0  # how many of them the reader has taken
    is_paused: bool = False  # its reader is too far behind
    reason: str | None = None
    error: MinitorchError | None = None
    timer: Timer = field(default_factory=lambda: Call(lambda: None))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether no more tokens come."""
        return self.reason is not None

    @property
    def unread(self) -> int:
        """How many tokens wait for the reader."""
        return len(self.tokens) - self.read

    def next_due_ms(self) -> float:
        """Return the deadline that comes next."""
        return self.due_ms if self.tokens else min(self.due_ms, self.first_due_ms)


class Stream:
    """The tokens of a reply as they come: an async iterator of ints.

    `reason` says at the end why there are no more: "length", "stop" or "deadline"; "error" where
    reading has raised. A stream that is closed, or that nobody holds any more, ends its request.

    Args:
        has_read: called after tokens were taken.
        cancel: called when the reader goes away.
    """

    def __init__(
        self, reply: Reply, has_read: Callable[[Reply], None], cancel: Callable[[Reply], None]
    ) -> None:
        self._reply = reply
        self._has_read, self._cancel = has_read, cancel

    @property
    def reason(self) -> str | None:
        """Why the reply has ended; None before its last token is read."""
        return None if self._reply.unread else self._reply.reason

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> int:
        tokens = await self.read(1)
        if not tokens:
            raise StopAsyncIteration
        return tokens[0]

    async def read(self, most: int | None = None) -> list[int]:
        """Return the tokens that are there, at least one; none at the end of the reply."""
        reply = self._reply
        while not reply.unread:
            if reply.error is not None:
                error, reply.error = reply.error, None
                raise error
            if reply.is_over:
                return []
            reply.changed.clear()
            await reply.changed.wait()
        tokens = reply.tokens[reply.read :][:most]
        reply.read += len(tokens)
        self._has_read(reply)
        return tokens

    async def aclose(self) -> None:
        """End the request, if it has not ended."""
        self._cancel(self._reply)

    def __del__(self) -> None:
        self._cancel(self._reply)


def texts_of(words: Iterable[str] | None) -> list[str] | None:
    """Return the text of each token, if there are any; raise ArgumentError for what is no text."""
    texts = None if words is None else [*words]
    if texts is not None and not (texts and all(isinstance(text, str) for text in texts)):
        raise ArgumentError("deploy_generator: words: expected the text of each token.")
    return texts


def request(
    number: int, tokens: Iterable[int], *, max_tokens: int, temperature: float = 0.0,
    top_k: int | None = None, seed: int | None = None, stop: Iterable[int] = (),
    deadline_ms: float | None = None, first_token_deadline_ms: float | None = None,
) -> Reply:  # fmt: skip
    """Return a reply that is still to come, or refuse what cannot be asked for.

    Raises:
        ArgumentError: says which argument, and what is expected.
    """
    prompt = _tokens("tokens", tokens)
    if not prompt:
        raise ArgumentError("generate: tokens: the prompt is empty. Give it one token at least.")
    _check("temperature", _is_real(temperature) and temperature >= 0, temperature,
           "a finite number from 0 on; 0 takes the largest")  # fmt: skip
    _check("max_tokens", _is_count(max_tokens), max_tokens, "a whole number from 1 on")
    _check("top_k", top_k is None or _is_count(top_k), top_k, "a whole number from 1 on, or None")
    _check("seed", seed is None or _is_int(seed), seed, "a whole number or None")
    for name, in_ms in (("deadline_ms", deadline_ms),
                        ("first_token_deadline_ms", first_token_deadline_ms)):  # fmt: skip
        _check(name, in_ms is None or (_is_real(in_ms) and in_ms > 0), in_ms, "ms above 0 or None")
    return Reply(
        number=number, prompt_tokens=len(prompt), max_tokens=int(max_tokens), prompt=prompt,
        sampling=Sampling(float(temperature), None if top_k is None else int(top_k),
                          secrets.randbits(64) if seed is None else int(seed)),
        stop=frozenset(_tokens("stop", stop)),
        due_ms=math.inf if deadline_ms is None else float(deadline_ms),
        first_due_ms=math.inf if first_token_deadline_ms is None
        else float(first_token_deadline_ms),
    )  # fmt: skip


def _tokens(what: str, tokens: Any) -> list[int]:
    try:
        values = [*tokens]
    except TypeError:
        kind = type(tokens).__name__
        raise ArgumentError(f"generate: {what}: got {kind}, expected a list of tokens.") from None
    for at, value in enumerate(values):
        if not (_is_int(value) and 0 <= value <= LARGEST_TOKEN):
            raise ArgumentError(
                f"generate: {what}[{at}]: got {value!r}, expected a whole number from 0 on. Encode "
                "the text with the model's own tokenizer."
            )
    return [int(value) for value in values]


def _check(what: str, is_right: bool, value: object, expected: str) -> None:
    if not is_right:
        raise ArgumentError(f"generate: {what}: got {value!r}, expected {expected}.")


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 1


def _is_real(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False
