"""Serving with real containers: killed, hung, raising, slow, replaced; the front killed.

Goals are long, so that no answer depends on how fast this machine is.
"""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from minitorch.errors import (
    ArgumentError,
    ContainerDied,
    DeadlineMissed,
    ModelFailed,
    ServeError,
    UnknownApp,
)
from minitorch.serve import Load, Server, VirtualClock, load

ROOT = Path(__file__).parents[2]
LONG_MS = 60_000.0


def run(program: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine, and see that it leaves no process behind."""
    asyncio.run(asyncio.wait_for(program(), 100))
    assert [child.cmdline() for child in psutil.Process().children() if serves(child)] == []


def serves(process: psutil.Process) -> bool:
    try:
        return "minitorch.serve.container" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def double(batch: np.ndarray) -> np.ndarray:
    return 2 * batch


def tenfold(batch: np.ndarray) -> np.ndarray:
    return 10 * batch


def pids(server: Server, name: str) -> list[int]:
    return [c._process.pid for c in server._models[name].containers if c._process]


class Counting:
    """Notes each batch in a file, and behaves by what it is asked."""

    def __init__(self, notes: str) -> None:
        self.notes = notes

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        with Path(self.notes).open("a") as file:
            file.writelines(f"{x}\n" for x in batch.tolist())
        if (batch == -1).any():
            raise ValueError("minus one")
        if (batch == -2).any():
            subprocess.Popen(["sleep", "600"])  # which must not keep the death from being seen
            os._exit(3)
        if (batch == -3).any():
            signal.pause()
        return 2 * batch


def test_answers_are_the_models_and_each_error_is_its_own_querys(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", Counting(str(notes)))
            await server.link("app", ["double"])
            await server.link("calm", ["double"], default=0.0)
            asked = [server.ask("app", float(x)) for x in [*range(50), -1, *range(50, 99)]]
            found = await asyncio.gather(*asked, return_exceptions=True)
            errors = [answer for answer in found if isinstance(answer, BaseException)]
            assert [type(error) for error in errors] == [ModelFailed]
            assert found[50] is errors[0] and "minus one" in str(errors[0])
            values = [answer.value for answer in found if not isinstance(answer, BaseException)]
            assert values == [2.0 * x for x in range(99)]
            calm = await server.predict("calm", -1.0)
            assert (calm.value, calm.is_default, calm.confidence, calm.models) == (0.0, True, 0, ())
            counts = server.metrics()["models"]["double"]
            assert (counts["served"], counts["failed"], counts["late"]) == (99, 2, 0)

    run(program)


def rows_and_words(batch: np.ndarray) -> list[Any]:
    return [{"scores": [x, 2 * x], "of": ["a", ["b"]]} for x in batch[:, 0].tolist()]


def spoil(value: Any) -> None:
    """Change a value as far as it lets itself be changed."""
    if isinstance(value, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            value[...] = -1
    else:
        value["of"][1].append("c")
        value["scores"][0] = value["new"] = -1


@pytest.mark.parametrize("policy", ["first", "ensemble", "exp4"])
def test_what_a_caller_does_with_an_answer_changes_no_other_callers(policy: str) -> None:
    wordy, x = {"scores": [3.0, 6.0], "of": ["a", ["b"]]}, [3.0, 4.0]

    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", double)
            await server.deploy("wordy", rows_and_words)
            await server.link("rows", ["double"], policy)
            await server.link("words", ["wordy"], policy)
            for app, expected in (("rows", [6.0, 8.0]), ("words", wordy)):
                together = await asyncio.gather(*[server.predict(app, x) for _ in range(3)])
                for prediction in (*together, await server.predict(app, x)):
                    value = prediction.value
                    assert (value.tolist() if app == "rows" else value) == expected
                    spoil(value)

    run(program)


def test_a_default_is_each_callers_own() -> None:
    given = {"scores": [0.0], "of": ["a", ["b"]]}

    def failing(batch: np.ndarray) -> np.ndarray:
        raise ValueError("no")

    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("failing", failing)
            await server.link("app", ["failing"], default=given)
            spoil(given)
            for _ in range(2):
                prediction = await server.predict("app", 1.0)
                assert prediction.value == {"scores": [0.0], "of": ["a", ["b"]]}
                spoil(prediction.value)

    run(program)


def test_equal_inputs_are_computed_once_in_flight_and_afterwards(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", Counting(str(notes)))
            await server.link("app", ["double"])
            first = await asyncio.gather(*[server.predict("app", x % 3) for x in range(60)])
            again = await server.predict("app", 2)
            assert [answer.value for answer in first] == [2 * (x % 3) for x in range(60)]
            assert again.value == 4
            counts = server.metrics()["models"]["double"]
            assert (counts["served"], counts["cache_hits"]) == (3, 58)

    run(program)
    assert sorted(notes.read_text().split()) == ["0", "1", "2"]


def test_a_query_that_ends_its_container_harms_no_other(tmp_path: Path) -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", Counting(str(tmp_path / "notes")))
            await server.link("app", ["double"])
            asked = [server.ask("app", float(x)) for x in [*range(20), -2, *range(20, 40)]]
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(found.pop(20), ContainerDied)
            assert [answer.value for answer in found] == [2.0 * x for x in range(40)]  # type: ignore[union-attr]
            assert server.metrics()["models"]["double"]["restarts"] == 2

    run(program)


def test_containers_killed_under_load_lose_no_query() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", double, replicas=2)
            await server.link("app", ["double"], default=-1.0)
            answers: list[Any] = []

            async def client(first: int) -> None:
                for x in range(first, 3000, 30):
                    answers.append((x, await server.predict("app", float(x))))
                    if x % 600 == first == 0:
                        os.kill(pids(server, "double")[0], signal.SIGKILL)

            await asyncio.gather(*map(client, range(30)))
            assert sorted(x for x, _ in answers) == list(range(3000))
            assert all(a.is_default or a.value == 2.0 * x for x, a in answers)
            assert sum(a.is_default for _, a in answers) < 100
            assert server.metrics()["models"]["double"]["restarts"] >= 1

    run(program)


def test_a_hung_container_is_replaced_and_its_query_told(tmp_path: Path) -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS, hang_ms=300.0) as server:
            await server.deploy("double", Counting(str(tmp_path / "notes")))
            await server.link("app", ["double"])
            hung = server.ask("app", -3.0)
            assert (await server.predict("app", 1.0)).value == 2.0
            with pytest.raises(ContainerDied):
                await hung

    run(program)


def test_a_container_is_started_again_also_after_a_start_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = []

    class Refusing(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **options: Any) -> None:
            if len(refused) < 2:
                refused.append(args)
                raise BlockingIOError("no process is free")
            super().__init__(*args, **options)

    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", double)
            await server.link("app", ["double"])
            monkeypatch.setattr(subprocess, "Popen", Refusing)
            os.kill(pids(server, "double")[0], signal.SIGKILL)
            assert (await server.predict("app", 1.0)).value == 2.0
            assert len(refused) == 2
            refused.clear()
            with pytest.raises(ModelFailed):
                await server.deploy("other", double)

    run(program)


def test_at_the_deadline_what_has_arrived_is_combined(tmp_path: Path) -> None:
    """The goal passes on a virtual clock, while one of three models hangs."""
    clock = VirtualClock()

    async def program() -> None:
        async with Server(slo_ms=50, clock=clock) as server:
            await server.deploy("a", double)
            await server.deploy("b", double)
            await server.deploy("hangs", Counting(str(tmp_path / "notes")))
            await server.link("app", ["a", "b", "hangs"], "ensemble")
            await server.link("alone", ["hangs"], default=7)
            asked = server.send("app", -3)
            while len(asked.values) < 2:
                await asyncio.sleep(0.001)
            alone = server.ask("alone", -3)
            assert not asked.future.done() and not alone.done()
            clock.advance(50)
            answer = asked.future.result()
            assert (answer.value, sorted(answer.models)) == (-6, ["a", "b"])
            assert (answer.confidence, answer.latency_ms) == (2 / 3, 48.0)
            assert alone.result().is_default and alone.result().value == 7
            assert server.metrics()["models"]["hangs"]["late"] == 2

    run(program)


def test_at_the_deadline_a_process_that_has_ended_is_named(tmp_path: Path) -> None:
    clock = VirtualClock()

    async def program() -> None:
        async with Server(slo_ms=50, clock=clock) as server:
            await server.deploy("ends", Counting(str(tmp_path / "notes")))
            await server.link("app", ["ends"])
            asked = server.ask("app", -2)
            while not server.metrics()["models"]["ends"]["restarts"]:
                await asyncio.sleep(0.001)
            clock.advance(50)
            with pytest.raises(DeadlineMissed, match="The process of ends has ended"):
                await asked

    run(program)


def test_who_joins_a_query_late_outlives_it_however_many_there_are(tmp_path: Path) -> None:
    """2,000 queries behind a container that hangs, each asked again 30 ms later: all are told."""
    clock = VirtualClock()

    async def program() -> None:
        async with Server(slo_ms=50, clock=clock) as server:
            await server.deploy("hangs", Counting(str(tmp_path / "notes")))
            await server.link("app", ["hangs"])
            first = [server.ask("app", x) for x in range(-3, 2000)]
            clock.advance(30)
            joined = [server.ask("app", x) for x in range(-3, 2000)]
            clock.advance(25)
            assert all(map(asyncio.Future.done, first)) and not any(
                map(asyncio.Future.done, joined)
            )
            server.ask("app", 5000)
            clock.advance(100)
            told = await asyncio.gather(*first, *joined, return_exceptions=True)
            assert {type(answer) for answer in told} == {DeadlineMissed}

    run(program)


def test_a_version_is_replaced_under_load_and_a_broken_one_is_not() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("model", double)
            await server.link("app", ["model"])
            answers: list[float] = []
            stop = asyncio.Event()

            async def client(first: int) -> None:
                x = float(first)
                while not stop.is_set():
                    answers.append((await server.predict("app", x)).value / x)
                    x += 8

            clients = [asyncio.create_task(client(first)) for first in range(1, 9)]
            with pytest.raises(ModelFailed, match="ZeroDivisionError"):
                await server.deploy("model", lambda: 1 / 0)
            count = len(answers)
            old = pids(server, "model")
            await server.deploy("model", tenfold)
            done = len(answers)
            stop.set()
            await asyncio.gather(*clients)
            assert set(answers[:count]) == {2.0}
            assert set(answers[done + 8 :]) <= {10.0} and set(answers) <= {2.0, 10.0}
            assert (await server.predict("app", 1.0)).value == 10.0  # not the old version's
            assert not any(map(psutil.pid_exists, old))
            await server.deploy("model", double)
            assert len(server._hub.containers) == 1  # type: ignore[union-attr]  # old versions are forgotten

    run(program)


def test_feedback_moves_the_weights_of_its_context_alone() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("right", double)
            await server.deploy("wrong", tenfold)
            for policy in ("exp3", "exp4"):
                await server.link(policy, ["wrong", "right"], policy)
                for x in range(1, 120):
                    await server.predict(policy, x, "me")
                    await server.feedback(policy, x, 2 * x, "me")
                await server.feedback(policy, 500, 1000, "other")  # nothing was predicted: asks
                weights = server.metrics()["apps"][policy]["weights"]
                assert weights["me"]["right"] > 0.9
                assert weights[None] == {"wrong": 0.5, "right": 0.5}
                assert weights["other"]["right"] >= 0.5

    run(program)


def huge(batch: np.ndarray) -> list[int]:
    return [10**400] * len(batch)


def test_answers_that_do_not_combine_are_told_and_harm_no_other_query() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", double)
            await server.deploy("huge", huge)
            await server.link("both", ["double", "huge"], "ensemble")
            await server.link("calm", ["double", "huge"], "ensemble", default=7)
            with pytest.raises(ModelFailed, match="combine"):
                await server.predict("both", 0.5)
            assert (await server.predict("calm", 0.5)).value == 7

    run(program)


def test_feedback_on_a_prediction_that_nobody_waits_for_is_learned_from() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("right", double)
            await server.deploy("wrong", tenfold)
            await server.link("app", ["right", "wrong"], "exp4")
            server.ask("app", 1).cancel()
            await server.feedback("app", 1, 2)
            weights = server.metrics()["apps"]["app"]["weights"][None]
            assert weights["right"] > weights["wrong"]

    run(program)


def never_made() -> Callable[[np.ndarray], np.ndarray]:
    signal.pause()
    return double


def test_a_server_that_closes_tells_who_deploys_and_leaves_nothing() -> None:
    """One deploy waits for its container, the second of that name for the first."""

    async def program() -> None:
        async with Server() as server:
            deploys = [asyncio.create_task(server.deploy("m", never_made)) for _ in range(2)]
            while not server._hub.containers:  # type: ignore[union-attr]
                await asyncio.sleep(0)
        told = await asyncio.wait_for(asyncio.gather(*deploys, return_exceptions=True), 30)
        assert [type(error) for error in told] == [ServeError, ServeError]

    run(program)


def test_an_open_loop_counts_every_query_that_was_due() -> None:
    async def program() -> None:
        async with Server(slo_ms=LONG_MS) as server:
            await server.deploy("double", double)
            await server.link("app", ["double"], default=0.0)
            found: Load = await load(server, "app", np.arange(50.0), rate=400, seconds=0.5)
            assert found.sent == len(found.latency_ms) == np.random.default_rng(0).poisson(200)
            assert (found.errors, found.defaults) == (0, 0)
            assert found.p99_ms >= np.median(found.latency_ms) > 0

    run(program)


def test_bad_calls_are_told_and_leave_the_server_as_it_was() -> None:
    async def program() -> None:
        with pytest.raises(ArgumentError):
            Server(slo_ms=0)
        with pytest.raises(ArgumentError):
            Server(batching="fast")
        server = Server(slo_ms=LONG_MS)
        async with server:
            await server.deploy("double", double)
            for link in ([], ["none"], ["double", "double"]):
                with pytest.raises(ArgumentError):
                    await server.link("app", link)
            with pytest.raises(ArgumentError):
                await server.link("app", ["double"], "best")
            with pytest.raises(UnknownApp):
                await server.predict("app", 1)
            for model, says in (
                (threading.Lock().acquire, "cannot be pickled"),
                (3, "^deploy: other: got int, expected a function of a batch"),
            ):
                with pytest.raises(ArgumentError, match=says):
                    await server.deploy("other", model)
            await server.link("app", ["double"])
            hung = server.ask("app", 1.0)
        with pytest.raises(Exception, match="closed"):
            await hung
        with pytest.raises(ServeError, match="another"):
            await server.__aenter__()

    run(program)


APP = """
import os, time
import numpy as np
options = {"slo_ms": 500}
def linear(batch): return batch @ np.ones((4, 2))
def slow(batch): time.sleep(1.0); return batch
def mute(batch): raise RuntimeError("by itself")
async def setup(server):
    for model in (linear, slow, mute):
        await server.deploy(model.__name__, model)
        await server.link(model.__name__, [model.__name__])
    await server.link("calm", ["linear"], default=0)
    await server.link("learn", ["linear"], policy="exp4")
"""


@pytest.fixture
def front(tmp_path: Path) -> Any:
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "minitorch.serve", str(tmp_path / "app.py"), "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        yield process, re.search(r"http://\S+", said)[0]  # type: ignore[index]
        process.kill()


@pytest.fixture
def client(front: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=front[1], timeout=30) as client:
        yield client


def test_over_http_errors_say_whose_they_are(front: Any, client: httpx.Client) -> None:

    def status(app: str, body: Any, verb: str = "predict") -> int:
        content = body if isinstance(body, bytes) else None
        sent = client.post(f"/apps/{app}/{verb}", content=content, json=None if content else body)
        assert sent.status_code == 200 or set(sent.json()) == {"detail"}
        assert (sent.status_code == 503) == ("retry-after" in sent.headers)
        return sent.status_code

    good = client.post("/apps/linear/predict", json={"x": [1, 2, 3, 4]}).json()
    assert (good["value"], good["models"], good["is_default"]) == ([10, 10], ["linear"], False)
    assert set(good) == {"value", "models", "confidence", "is_default", "latency_ms"}
    refused = {
        422: [
            {"x": [1, 2, 3]},
            {"x": [[1], [2, 3]]},
            {"x": None},
            {"y": 1},
            [1],
            {"x": 1, "z": 2},
            {"x": 1, "context": "a" * 257},
            b'{"x": 1e999}',
            b'{"x": 1, "x": 2}',
        ],
        400: [b"{", b"\xff", b"[" * 100_000, b'{"x": NaN}'],
        413: [b" " * (8 * 2**20 + 1)],
    }
    for expected, bodies in refused.items():
        assert [status("linear", body) for body in bodies] == [expected] * len(bodies)
    not_finite = client.post("/apps/linear/predict", content=b'{"x": NaN}').json()
    assert not_finite == {"detail": "the body is no JSON: NaN is no number of JSON"}
    assert status("calm", {"x": [1, 2, 3]}) == 422  # not the default: it is the caller's mistake
    assert status("none", {"x": 1}) == 404
    assert status("slow", {"x": 1}) == 503
    assert status("mute", {"x": 1}) == 500
    assert status("learn", {"x": [1, 2, 3, 4], "label": 0, "context": "me"}, "feedback") == 200
    assert status("learn", {"x": [1, 2, 3, 4], "label": [1, 2, 3]}, "feedback") == 200
    assert status("learn", {"x": [1, 2, 3, 4], "label": 0, "context": []}, "feedback") == 422
    text = client.get("/metrics").text
    assert 'serve_served_total{model="linear"}' in text and "serve_latency_ms{" in text
    route = 'method="POST",route="/apps/{name}/feedback"'
    assert f'serve_requests_total{{{route},status="200"}} 2.0' in text
    assert f'serve_requests_total{{{route},status="422"}} 1.0' in text
    assert f"serve_request_seconds_count{{{route}}} 3.0" in text
    head = "POST /apps/linear/predict HTTP/1.1\r\nHost: x\r\nContent-Length: "
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address) as declares_more:
        declares_more.sendall(f"{head}{10**11}\r\n\r\n".encode())
        assert declares_more.recv(4096).startswith(b"HTTP/1.1 413 ")
    with socket.create_connection(address) as leaves:
        leaves.sendall(f"{head}70\r\n\r\n{{".encode())
    while 'route="/apps/{name}/predict",status="499"} 1.0' not in client.get("/metrics").text:
        pass
    assert client.get("/healthz").json() == {"status": "ok", "down": []}
    assert client.head("/healthz").status_code == 200
    assert "metrics.json" in client.get("/").text
    assert client.get("/metrics.json").json()["slo_ms"] == 500
    front[0].send_signal(signal.SIGTERM)
    assert front[0].wait(30) == 0 and front[0].stderr.read() == ""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_containers_end_with_the_front_however_it_ends(front: Any, how: signal.Signals) -> None:
    """Also while a client keeps the rest of its body: a second signal waits for nobody."""
    process, url = front
    containers = [child for child in psutil.Process(process.pid).children() if serves(child)]
    assert len(containers) == 3
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as silent:
        silent.sendall(
            b"POST /apps/linear/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        )
        process.send_signal(how)
        process.send_signal(signal.SIGTERM if how == signal.SIGINT else signal.SIGINT)
        process.wait(30)
    _, alive = psutil.wait_procs(containers, timeout=30)
    assert alive == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ("x = 1", "defines no `async def setup"),
        ("1 / 0", "ZeroDivisionError"),
        ("options = {'slo': 1}\nasync def setup(server): pass", "slo"),
        ("async def setup(server): await server.link('a', ['b'])", "deployed"),
    ],
)
def test_a_file_that_cannot_be_served_is_told_in_one_line(
    text: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.py"
    if text is not None:
        path.write_text(text)
    command = [sys.executable, "-m", "minitorch.serve", str(path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode == 1 and says in done.stderr
    assert done.stderr.count("\n") == 1
