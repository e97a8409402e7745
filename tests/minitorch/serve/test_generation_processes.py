"""Generation with real containers: killed, raising, replaced; slow readers, gone readers, HTTP.

The model's next token depends on a hash of all tokens before it: a slot that holds another's cache,
a token lost or taken twice, changes everything after it.
"""

import asyncio
import hashlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import uvicorn
import zmq

from minitorch.errors import ArgumentError, ContainerDied, ModelFailed, ServeError, UnknownApp
from minitorch.serve import Server, Stream, VirtualClock, simulate_generation
from minitorch.serve.__main__ import listen
from minitorch.serve.generation import engine
from minitorch.serve.generation.sampling import Sampling, sample
from minitorch.serve.http import application

V, CONTEXT = 64, 600
BAD = 60  # a token on which the model fails as `Hashed.how` says
KILLS = 100 if os.environ.get("WIDE") else 10
LIMIT_S = 100 + 6 * KILLS  # a kill and the start that follows take half a second where it is quiet


def row(tokens: Sequence[int]) -> np.ndarray:
    """Return the logits after these tokens; none of them is BAD or more."""
    digest = hashlib.blake2b(repr([*tokens]).encode(), digest_size=8).digest()
    logits = np.random.default_rng(int.from_bytes(digest, "little")).normal(size=V)
    logits[BAD:] = -np.inf
    return logits.astype(np.float32)


def expected(
    prompt: Sequence[int], count: int, temperature: float = 0.0, seed: int = 0
) -> list[int]:
    """Return what a reply must be, computed here and alone."""
    tokens = [*prompt]
    for draw in range(count):
        tokens.append(sample(row(tokens), Sampling(temperature, None, seed), draw))
    return tokens[len(prompt) :]


class Hashed:
    """The model; in a prompt BAD has it misbehave at once, BAD + 1 in its second step."""

    how = "raise"

    def __init__(self) -> None:
        self.cache: dict[int, list[int]] = {}

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        if slot in self.cache:
            raise RuntimeError(f"slot {slot} was not freed")
        self.cache[slot] = list(tokens)
        if len(tokens) > CONTEXT:
            del self.cache[slot]
            raise ValueError(f"{len(tokens)} tokens, expected {CONTEXT} at most")
        logits = row(tokens)
        if BAD in tokens:
            logits = self.misbehave(logits)
        return logits

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        for slot, token in zip(slots, tokens, strict=True):
            self.cache[slot].append(token)
        rows = np.stack([row(self.cache[slot]) for slot in slots])
        for at, slot in enumerate(slots):
            if BAD + 1 in self.cache[slot] and self.cache[slot].index(BAD + 1) < 4:
                if self.how == "nan":
                    rows[at] = np.nan
                else:
                    rows = self.misbehave(rows)
        return rows

    def free(self, slot: int) -> None:
        del self.cache[slot]

    def misbehave(self, logits: np.ndarray) -> np.ndarray:
        if self.how == "raise":
            raise RuntimeError("a bad token")
        if self.how == "die":
            os._exit(3)
        return np.full_like(logits, np.nan) if self.how == "nan" else logits[..., :3]


class Dying(Hashed):
    how = "die"


class Nan(Hashed):
    how = "nan"


class Narrow(Hashed):
    how = "narrow"


def run(program: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine, and see that it leaves no process behind."""
    asyncio.run(asyncio.wait_for(program(), LIMIT_S))
    children = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    assert not [line for line in children if "minitorch.serve.container" in line]


@asynccontextmanager
async def serving(make: object = Hashed, **options: Any) -> AsyncIterator[Server]:
    clock = options.pop("clock", None)
    async with Server(clock=clock) as server:
        await server.deploy_generator("model", make, **options)
        await server.link("app", ["model"])
        yield server


async def all_of(stream: Stream) -> list[int]:
    return [token async for token in stream]


def metrics(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.metrics()["models"]["model"]
    return found


def pid(server: Server) -> int:
    process = server._generators["model"]._process
    return process.pid if process else 0


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.002)


# ---- tokens


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_replies_are_the_same_whatever_shares_the_batch(batching: str) -> None:
    rng = Random(batching)
    asked = [
        ([rng.randrange(BAD) for _ in range(rng.randint(1, 30))], rng.randint(1, 60),
         rng.choice([0.0, 0.7, 3.0]), rng.randrange(2**40)) for _ in range(40)
    ]  # fmt: skip

    async def program() -> None:
        async with serving(slots=5, cache_tokens=320, batching=batching) as server:

            async def ask(prompt: list[int], new: int, temperature: float, seed: int) -> list[int]:
                await asyncio.sleep(rng.random() * 0.1)  # so that batches are mixed
                options: dict[str, Any] = {"temperature": temperature, "seed": seed}
                return await all_of(server.generate("app", prompt, max_tokens=new, **options))

            replies = await asyncio.gather(*(ask(*each) for each in asked))
            assert replies == [expected(*each) for each in asked]
            counts = metrics(server)
            assert (counts["served"], counts["tokens"]) == (40, sum(new for _, new, _, _ in asked))
            assert (counts["active"], counts["waiting"], counts["cache_tokens_used"]) == (0, 0, 0)

    run(program)


def test_a_container_gets_the_iterations_that_the_simulation_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, orders = Random(2), []
    load = [(0.0, rng.randint(1, 400), rng.randint(1, 30)) for _ in range(20)]
    options: dict[str, Any] = {"slots": 5, "cache_tokens": 1000}

    def note(plan: Any) -> dict[str, Any]:
        starts, steps = ([reply.number for reply in jobs] for jobs in (plan.starts, plan.steps))
        orders.append((starts, steps, [reply.slot for reply in plan.starts or plan.steps]))
        return order(plan)

    order = engine.order
    monkeypatch.setattr(engine, "order", note)

    async def program() -> None:
        async with serving(**options) as server:
            streams = [server.generate("app", [1] * old, max_tokens=new) for _, old, new in load]
            await asyncio.gather(*map(all_of, streams))

    run(program)
    costs = {"step_ms": 1.0, "per_slot_ms": 0.1, "prompt_ms_per_token": 0.01}
    iterations = simulate_generation(load, **options, **costs).iterations
    simulated = [([*each.starts], [*each.steps], [*each.slots]) for each in iterations]
    assert [each for each in orders if each[0] or each[1]] == simulated


def test_a_reply_ends_at_a_stop_token_at_its_length_or_at_its_deadline() -> None:
    full = expected([1, 2], 400)
    at = next(n for n in range(5, 400) if full[n] not in full[:n])
    clock = VirtualClock()

    async def program() -> None:
        async with serving(clock=clock) as server:
            stream = server.generate("app", [1, 2], max_tokens=400, stop=[full[at], BAD])
            assert stream.reason is None
            assert (await all_of(stream), stream.reason) == (full[:at], "stop")
            stream = server.generate("app", [1, 2], max_tokens=7)
            assert (await all_of(stream), stream.reason) == (full[:7], "length")
            stream = server.generate("app", [1, 2], max_tokens=400, deadline_ms=50)
            first = [await anext(stream) for _ in range(3)]
            clock.advance(50)
            rest = await all_of(stream)
            assert stream.reason == "deadline" and first + rest == full[: 3 + len(rest)]
            assert metrics(server)["active"] == 0
            assert (metrics(server)["served"], metrics(server)["late"]) == (2, 1)

    run(program)


def test_a_first_token_that_is_late_ends_the_reply_and_one_in_time_does_not() -> None:
    clock = VirtualClock()

    async def program() -> None:
        async with serving(clock=clock, slots=1) as server:
            busy = server.generate("app", [1], max_tokens=300, first_token_deadline_ms=50)
            await anext(busy)
            waits = server.generate("app", [2], max_tokens=5, first_token_deadline_ms=50)
            clock.advance(60)
            assert (await all_of(waits), waits.reason) == ([], "deadline")
            assert (len(await all_of(busy)), busy.reason) == (299, "length")

    run(program)


# ---- readers


def test_a_reader_that_goes_away_frees_its_slot_for_who_waits() -> None:
    async def program() -> None:
        async with serving(slots=2, cache_tokens=2048) as server:
            streams = [server.generate("app", [n], max_tokens=500) for n in range(3)]
            await anext(streams[0])
            assert (metrics(server)["active"], metrics(server)["waiting"]) == (2, 1)
            await streams[0].aclose()
            assert metrics(server)["active"] == 1 and metrics(server)["cache_tokens_used"] == 512
            assert await anext(streams[2]) == expected([2], 1)[0]
            del streams[1:]
            assert metrics(server)["active"] == 0
            async for _ in server.generate("app", [3], max_tokens=500):
                break  # which drops the stream
            assert metrics(server)["active"] == 0
            assert await all_of(server.generate("app", [4], max_tokens=9)) == expected([4], 9)

    run(program)


def test_a_reader_that_never_reads_holds_up_nobody_and_finds_all_when_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "MOST_UNREAD", 16)
    clock = VirtualClock()

    async def program() -> None:
        async with serving(slots=2, clock=clock) as server:
            lazy = [server.generate("app", [n], max_tokens=100) for n in range(4)]
            await until(lambda: all(stream._reply.is_paused for stream in lazy))
            assert metrics(server)["cache_tokens_used"] == 0
            eager = [server.generate("app", [n], max_tokens=50) for n in range(9)]
            assert await asyncio.gather(*map(all_of, eager)) == [
                expected([n], 50) for n in range(9)
            ]
            assert [stream._reply.unread for stream in lazy] == [16] * 4
            assert await all_of(lazy[1]) == expected([1], 100)
            clock.advance(engine.UNREAD_MS)
            for n in (0, 2, 3):
                tokens = []
                with pytest.raises(ServeError, match=r"16 tokens behind for 60 s.*Read faster"):
                    async for token in lazy[n]:
                        tokens.append(token)
                assert tokens == expected([n], 16)
            assert metrics(server)["failed"] == 3

    run(program)


def test_a_server_that_closes_tells_its_readers() -> None:
    async def program() -> None:
        async with serving(slots=1) as server:
            streams = [server.generate("app", [n], max_tokens=5000) for n in range(2)]
            await anext(streams[0])
        for stream in streams:
            with pytest.raises(ServeError, match="closed"):
                await all_of(stream)
        with pytest.raises(ServeError, match="not open"):
            server.generate("app", [1], max_tokens=1)

    run(program)


def test_a_connection_that_breaks_as_the_front_closes_cannot_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Connections take over what holds at the time of bind: with the default a front that closed as
    # a container was killed waited for ever, once in some 200 times (libzmq 4.3.5).
    lingers: list[int] = []

    class Watched(zmq.Socket[bytes]):
        def bind(self, address: str) -> Any:
            lingers.append(self.get(zmq.LINGER))
            return super().bind(address)

    monkeypatch.setattr(zmq.Context, "_socket_class", Watched)

    async def program() -> None:
        async with Server():
            pass

    run(program)
    assert lingers == [0]


# ---- what breaks


def test_no_token_is_lost_or_told_twice_in_kills_of_the_container() -> None:
    rng = Random(KILLS)
    seen: list[float] = []

    async def program() -> None:
        async with serving(slots=6) as server:
            kills = 0

            async def more_of(what: str, more: int) -> None:
                counts = server._generators["model"].counts  # without the quantiles of `metrics`
                enough = getattr(counts, what) + more
                await until(lambda: getattr(counts, what) >= enough)

            async def reader(number: int) -> None:
                while kills < KILLS or number not in finished:
                    prompt, seed = [rng.randrange(BAD) for _ in range(5)], rng.randrange(99)
                    options: dict[str, Any] = {"temperature": 1.0, "seed": seed}
                    stream = server.generate("app", prompt, max_tokens=300, **options)
                    assert await all_of(stream) == expected(prompt, 300, 1.0, seed)
                    finished.add(number)

            async def killer() -> None:
                nonlocal kills
                while kills < KILLS:
                    await more_of("tokens", rng.randint(1, 200))
                    seen.append(metrics(server)["active"])
                    with suppress(ProcessLookupError):
                        os.kill(pid(server), signal.SIGKILL)
                        kills += 1
                    await more_of("restarts", kills - metrics(server)["restarts"])

            finished: set[int] = set()
            await asyncio.gather(killer(), *(reader(number) for number in range(8)))
            assert metrics(server)["restarts"] == KILLS and metrics(server)["failed"] == 0

    run(program)
    assert max(seen) == 6  # killed while all slots were in use


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (Hashed, ModelFailed, "RuntimeError: a bad token"),
        (Nan, ModelFailed, "largest logit is nan"),
        (Narrow, ModelFailed, "logits .*expected real"),
        (Dying, ContainerDied, "ended with the request"),
    ],
)
def test_a_request_that_breaks_the_model_harms_no_other(make: Any, kind: Any, words: str) -> None:
    async def program() -> None:
        async with serving(make, slots=4) as server:
            good = [[n, 7] for n in range(6)]
            asked = [good[0], [1, BAD], good[1], [2, BAD + 1], *good[2:]]
            streams = [server.generate("app", prompt, max_tokens=60) for prompt in asked]
            found = await asyncio.gather(*map(all_of, streams), return_exceptions=True)
            for at in (3, 1):
                error = found.pop(at)
                assert isinstance(error, kind), error
            assert found == [expected(prompt, 60) for prompt in good]
            with pytest.raises(kind, match=words):
                await all_of(server.generate("app", [BAD], max_tokens=3))
            assert metrics(server)["failed"] == 3 and metrics(server)["active"] == 0

    run(program)


def test_a_context_that_is_too_short_fails_only_who_reaches_its_end() -> None:
    async def program() -> None:
        async with serving(slots=3) as server:
            long = server.generate("app", [5] * (CONTEXT + 1), max_tokens=3)
            short = server.generate("app", [5], max_tokens=30)
            with pytest.raises(ModelFailed, match=f"expected {CONTEXT} at most") as caught:
                await all_of(long)
            assert caught.value.by_input
            assert await all_of(short) == expected([5], 30)

    run(program)


def test_bad_calls_are_told_and_leave_the_server_as_it_was() -> None:
    async def program() -> None:
        async with serving(slots=2, cache_tokens=64) as server:
            await server.deploy("other", lambda batch: batch)
            await server.link("others", ["other"])
            bad: list[tuple[type[Exception], dict[str, Any]]] = [
                (UnknownApp, {"app": "none"}),
                (ArgumentError, {"app": "others"}),
                (ArgumentError, {"tokens": []}),
                (ArgumentError, {"max_tokens": 64}),
                (ArgumentError, {"tokens": range(64)}),
            ]
            for kind, options in bad:
                with pytest.raises(kind):
                    server.generate(**{"app": "app", "tokens": [1], "max_tokens": 3} | options)
            for _ in range(2):  # before the vocabulary is known, and after
                with pytest.raises(ArgumentError, match="token 64 is outside the vocabulary"):
                    await all_of(server.generate("app", [64], max_tokens=3))
            with pytest.raises(ArgumentError, match="generates"):
                await server.predict("app", 1.0)
            with pytest.raises(ArgumentError, match="alone"):
                await server.link("both", ["model", "other"])
            for name, options in (
                ("", {}), ("other", {}), ("x", {"slots": 0}), ("x", {"cache_tokens": -1}),
                ("x", {"batching": "fast"}),
            ):  # fmt: skip
                with pytest.raises(ArgumentError):
                    await server.deploy_generator(name, Hashed, **options)
            with pytest.raises(ArgumentError, match="other kind"):
                await server.deploy("model", lambda batch: batch)
            with pytest.raises(ModelFailed, match=r"no start\(\)"):
                await server.deploy_generator("x", dict)
            assert await all_of(server.generate("app", [1], max_tokens=3)) == expected([1], 3)
            assert server.unhealthy() == []

    run(program)


class Shifted(Hashed):
    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        return super().start(slot, [*tokens, 0])


def test_a_new_version_takes_what_comes_and_the_old_one_ends_what_it_has() -> None:
    async def program() -> None:
        async with serving(slots=1) as server:
            streams = [server.generate("app", [n], max_tokens=200) for n in range(3)]
            await anext(streams[0])
            old = pid(server)
            await server.deploy_generator("model", Shifted, slots=2)
            new = await all_of(server.generate("app", [9], max_tokens=20))
            assert new == expected([9, 0], 20)
            await all_of(streams[0])
            for n in (1, 2):
                assert await all_of(streams[n]) == expected([n], 200)
            assert not psutil.pid_exists(old) and psutil.pid_exists(pid(server))
            assert metrics(server)["served"] == 4

    run(program)


# ---- HTTP


@asynccontextmanager
async def over_http(make: object = Hashed, **options: Any) -> AsyncIterator[tuple[Server, int]]:
    async with serving(make, **options) as server:
        config = uvicorn.Config(application(server), ws="none", log_level="warning")
        front = uvicorn.Server(config)
        with listen("127.0.0.1", 0) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            task = asyncio.create_task(front._serve([listener]))
            try:
                yield server, listener.getsockname()[1]
            finally:
                front.should_exit = front.force_exit = True
                await task


def post(body: object) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST /apps/app/generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def test_a_stream_over_http_is_an_event_for_each_token_and_one_at_the_end() -> None:
    full = expected([3], 5)

    async def program() -> None:
        async with over_http() as (_, port), httpx.AsyncClient(timeout=60) as client:
            url = f"http://127.0.0.1:{port}/apps/app/generate"
            answer = await client.post(url, json={"tokens": [3], "max_tokens": 5})
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["cache-control"] == "no-cache"
            events = [f'data: {{"token": {token}}}\n\n' for token in full]
            end = 'data: {"done": true, "reason": "length"}\n\n'
            assert answer.text == "".join([*events, end])
            at = next(n for n in range(1, 5) if full[n] not in full[:n])
            stopped = {"tokens": [3], "max_tokens": 5, "stop": [full[at]], "seed": 1, "top_k": 1}
            answer = await client.post(url, json=stopped)
            assert answer.text == "".join([*events[:at], end.replace("length", "stop")])
            late = {"tokens": [3], "max_tokens": 9000, "deadline_ms": 300}
            answer = await client.post(url, json=late)
            assert answer.text.endswith(end.replace("length", "deadline"))

    run(program)


def test_with_words_an_app_has_a_page_to_type_on_and_without_it_says_what_is_lacking() -> None:
    async def program() -> None:
        async with over_http() as (server, port), httpx.AsyncClient(timeout=60) as client:
            url = f"http://127.0.0.1:{port}/apps/app"
            answer = await client.get(url)
            assert answer.status_code == 422
            assert "give them to `deploy_generator`" in answer.json()["detail"]
            await server.deploy_generator("model", Hashed, words=["a", "b", "ab"])
            answer = await client.get(url)
            assert answer.status_code == 200 and "Type, and see it answer" in answer.text
            assert "connect-src 'self'" in answer.headers["content-security-policy"]
            assert (await client.get(f"{url}/words")).json() == {"words": ["a", "b", "ab"]}
            assert (await client.get(f"{url}s")).status_code == 404
            for words in ([], ["a", 1]):
                with pytest.raises(ArgumentError, match="expected the text of each token"):
                    await server.deploy_generator("model", Hashed, words=words)

    run(program)


def test_over_http_errors_before_the_first_token_have_a_status_and_later_ones_are_events() -> None:
    refused: dict[int, list[dict[str, Any]]] = {
        422: [{"tokens": []}, {"tokens": [-1]}, {"tokens": [1.5]}, {"tokens": None}, {"top_k": 0},
              {"max_tokens": 10**6}, {"temperature": -1}, {"x": 1}, {"tokens": [64]},
              {"tokens": [1] * (CONTEXT + 1)}, {"seed": "a"}, {"stop": 1}, {"deadline_ms": -1}],
        500: [{"tokens": [BAD]}],
    }  # fmt: skip

    async def program() -> None:
        async with over_http() as (server, port), httpx.AsyncClient(timeout=60) as client:
            url = f"http://127.0.0.1:{port}/apps/app/generate"
            for status, bodies in refused.items():
                for body in bodies:
                    answer = await client.post(url, json={"tokens": [1], "max_tokens": 2} | body)
                    assert (answer.status_code, [*answer.json()]) == (status, ["detail"]), body
            assert (await client.post(url, json={"tokens": [1]})).status_code == 422
            assert (await client.post(url, content=b"{")).status_code == 400
            body = {"tokens": [1], "max_tokens": 1}
            assert (await client.post(url.replace("/app/", "/no/"), json=body)).status_code == 404
            late = (await client.post(url, json={"tokens": [BAD + 1], "max_tokens": 9})).text
            first, last, nothing = late.split("\n\n")
            assert json.loads(first[6:]) == {"token": expected([BAD + 1], 1)[0]}
            assert "a bad token" in json.loads(last[6:])["error"] and nothing == ""
            assert metrics(server)["active"] == 0
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
            for line in (
                f'serve_tokens_total{{model="model"}} {float(metrics(server)["tokens"])}',
                'serve_active{model="model"} 0.0', 'serve_waiting{model="model"} 0.0',
                'serve_cache_tokens_used{model="model"} 0.0',
            ):  # fmt: skip
                assert line in text.splitlines()
            for name in ("first_token_ms", "between_tokens_ms", "latency_ms"):
                assert f'serve_{name}{{model="model",quantile="0.99"}}' in text

    run(program)


def test_a_client_that_goes_away_frees_its_slot_before_its_first_token_and_after() -> None:
    async def program() -> None:
        async with over_http(slots=1) as (server, port):
            body = post({"tokens": [1], "max_tokens": 9000})
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in clients:
                writer.write(body)
            await clients[0][0].readuntil(b"data: ")
            await until(lambda: metrics(server)["waiting"] == 1)
            clients[1][1].close()
            await until(lambda: metrics(server)["waiting"] == 0)
            assert metrics(server)["active"] == 1
            clients[0][1].close()
            await until(lambda: metrics(server)["active"] == 0)
            assert metrics(server)["cancelled"] == 2
            assert await all_of(server.generate("app", [2], max_tokens=9)) == expected([2], 9)

    run(program)


def test_a_client_that_does_not_read_holds_up_no_other() -> None:
    async def program() -> None:
        async with over_http(slots=1, cache_tokens=2**20) as (server, port):
            narrow = socket.socket()  # whose memory for what is not read is soon full
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**10)
            narrow.connect(("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=narrow, limit=2**10)
            writer.write(post({"tokens": [1], "max_tokens": CONTEXT * 1000}))
            await reader.readuntil(b"data: ")
            other = await all_of(server.generate("app", [2], max_tokens=9))
            assert other == expected([2], 9)
            writer.close()
            await until(lambda: metrics(server)["active"] == 0)

    run(program)
