"""A load of readers on a server that generates, each with a stream; for lab 18."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.request import urlopen

import numpy as np

from minitorch import serve
from minitorch.errors import MinitorchError
from minitorch.serve.__main__ import listen

Request = tuple[float, int, int]  # when it comes, in ms; tokens of its prompt; new tokens


@dataclass
class Served:
    """What readers saw, by request: times are in ms."""

    replies: list[list[int]]
    errors: list[str]
    first_token_ms: list[float]
    between_tokens_ms: list[float] = field(default_factory=list)  # of all requests
    tokens_per_s: float = 0.0


def load_of(n: int, per_s: float, prompt_tokens: int, most: int) -> list[Request]:
    """Return n requests that come at random, for 5 new tokens to `most` or 55."""
    rng = np.random.default_rng(0)
    arrivals_ms = np.cumsum(rng.exponential(1e3 / per_s, n))
    news = rng.integers(5, min(most, 55) + 1, n)
    pairs = zip(arrivals_ms.tolist(), news.tolist(), strict=True)
    return [(at_ms, prompt_tokens, new) for at_ms, new in pairs]


def serve_load(
    make: Callable[[], Any], load: Sequence[Request], prompt: Sequence[int], *, slots: int,
    cache_tokens: int = 16_384, temperature: float = 0.0,
) -> Served:  # fmt: skip
    """Return what readers see who ask a real server, all with one prompt; request k has seed k.

    Args:
        make: makes the generator, in a process of its own.
    """

    async def run() -> Served:
        async with serve.Server() as server:
            clock = asyncio.get_running_loop().time
            sizes = {"slots": slots, "cache_tokens": cache_tokens}
            await server.deploy_generator("gpt", make, **sizes)  # type: ignore[arg-type]
            await server.link("app", ["gpt"])
            await read(server, Served([[]], [""], [0.0]), 0, clock())  # warms up
            readers = Served([[] for _ in load], [""] * len(load), [0.0] * len(load))
            start_s = clock()
            await asyncio.gather(*(read(server, readers, at, start_s) for at in range(len(load))))
            tokens = sum(len(reply) for reply in readers.replies)
            readers.tokens_per_s = tokens / (clock() - start_s - load[0][0] / 1e3)
            return readers

    async def read(server: serve.Server, found: Served, at: int, start_s: float) -> None:
        clock = asyncio.get_running_loop().time
        due_s = start_s + load[at][0] / 1e3
        await asyncio.sleep(max(0.0, due_s - clock()))
        last_s = due_s
        try:
            stream = server.generate(
                "app", prompt, max_tokens=load[at][2], temperature=temperature, seed=at
            )
            async for token in stream:
                found.replies[at].append(token)
                now_s = clock()
                if len(found.replies[at]) == 1:
                    found.first_token_ms[at] = 1e3 * (now_s - last_s)
                else:
                    found.between_tokens_ms.append(1e3 * (now_s - last_s))
                last_s = now_s
        except MinitorchError as error:
            found.errors[at] = str(error)

    with ThreadPoolExecutor(1) as pool:  # beside the notebook's own event loop
        return pool.submit(asyncio.run, run()).result()


class TypingPage:
    """A server with a page on which one types, in this process, until `close()`.

    Args:
        words: the text of each token.
    Raises:
        MinitorchError: the model cannot be made.
    """

    def __init__(self, make: Callable[[], Any], words: Sequence[str], slots: int = 8) -> None:
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._is_over = asyncio.Event()
        self._listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/apps/gpt"
        run = partial(asyncio.run, self._serve(make, words, slots))
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._loop = self._ready.result()

    async def _serve(self, make: Callable[[], Any], words: Sequence[str], slots: int) -> None:
        try:
            from uvicorn import Config, Server

            from minitorch.serve.http import application

            async with serve.Server() as server:
                await server.deploy_generator("model", make, slots=slots, words=words)
                await server.link("gpt", ["model"])
                app = application(server)
                front = Server(Config(app, log_level="warning", lifespan="off"))
                answering = asyncio.create_task(front.serve([self._listener]))
                self._ready.set_result(asyncio.get_running_loop())
                await self._is_over.wait()
                server.close()  # whom it still answers is told
                front.should_exit = True
                await answering
        except Exception as error:  # the model cannot be made, or something is not installed
            self._listener.close()
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def ask(self, tokens: Sequence[int], new: int) -> list[int]:
        """Return the tokens of a reply, event by event over HTTP."""
        body = json.dumps({"tokens": [*tokens], "max_tokens": new}).encode()
        with urlopen(f"{self.url}/generate", body, timeout=60) as lines:
            events = [json.loads(line[len(b"data: ") :]) for line in lines if line.strip()]
        return [event["token"] for event in events if "token" in event]

    def close(self) -> None:
        """End the server and its model."""
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()


def summary_of(run: Any) -> dict[str, float]:
    """Return what readers notice, of a run or of its simulation."""
    return {
        "tokens a second": run.tokens_per_s,
        "first token, p50, ms": float(np.median(run.first_token_ms)),
        "first token, p99, ms": float(np.quantile(run.first_token_ms, 0.99)),
        "between, p50, ms": float(np.median(run.between_tokens_ms)),
        "between, p99, ms": float(np.quantile(run.between_tokens_ms, 0.99)),
    }
