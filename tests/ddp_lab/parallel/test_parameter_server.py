"""Parameter servers: what is trained, whose gradients count, who waits, and how a run ends."""

import queue
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import ddp_lab
from ddp_lab import InvalidArgument, Mismatch, RankLost, launch, simulate
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.parallel import SGD, Adagrad, ParameterServer, Stragglers
from ddp_lab.parallel.parameter_server import messages, server
from ddp_lab.parallel.parameter_server.pieces import share_out
from ddp_lab.parallel.stragglers import late
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld, TurnWorld

SHAPES = {"big": (60, 40), "wide": (1, 900), "bias": (7,), "scale": ()}


def start() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape) for name, shape in SHAPES.items()}


def gradient(worker: int, step: int, params: dict[str, Any]) -> dict[str, Any]:
    """Return a gradient that depends on the parameters, so that a stale pull shows."""
    rng = np.random.default_rng([worker, step])
    return {name: 0.3 * x + rng.normal(size=SHAPES[name]) for name, x in params.items()}


def train(comm: Communicator, optimizer: Any, steps: int, **options: Any) -> Any:
    ps = ParameterServer(comm, start(), optimizer=optimizer, **options)
    if ps.is_server:
        ps.serve()
    else:
        for step in range(steps):
            ps.push(gradient(comm.rank, step, ps.pull()))
        ps.done()
    return ps.final(), ps.report


def in_one_process(optimizer: Callable[[Any], Any], workers: range, steps: int) -> dict[str, Any]:
    params = {name: torch.tensor(x) for name, x in start().items()}
    torch_optimizer = optimizer(list(params.values()))
    for step in range(steps):
        grads = [gradient(w, step, {n: p.numpy() for n, p in params.items()}) for w in workers]
        for name, param in params.items():
            param.grad = torch.tensor(np.mean([g[name] for g in grads], axis=0))
        torch_optimizer.step()
    return {name: param.numpy() for name, param in params.items()}


OPTIMIZERS = [
    (SGD(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    (Adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
]


@pytest.mark.parametrize(
    ("transport", "servers", "which"),
    [("threads", 1, 0), ("shm", 2, 0), ("tcp", 3, 1), ("threads", 2, 1)],
)
def test_synchronous_training_equals_one_process_on_the_mean_gradient(
    transport: str, servers: int, which: int
) -> None:
    mine, torchs = OPTIMIZERS[which]
    ranks = launch(
        lambda comm: train(comm, mine, 5, servers=servers), servers + 3, transport=transport
    )
    want = in_one_process(torchs, range(servers, servers + 3), 5)
    for final, report in ranks:
        assert list(final) == list(SHAPES)
        for name in SHAPES:
            np.testing.assert_allclose(final[name], want[name], rtol=1e-12)
        assert (report.dropped, report.max_staleness) == (0, 0)
    assert [report.applied for _, report in ranks] == [15] * servers + [5] * 3


def test_it_serves_over_a_group_of_torchs() -> None:
    ranks = launch(lambda comm: train(comm, SGD(0.1), 3, servers=1), 3, transport="gloo")
    want = in_one_process(lambda p: torch.optim.SGD(p, 0.1), range(1, 3), 3)
    for final, _ in ranks:
        np.testing.assert_allclose(final["big"], want["big"], rtol=1e-12)


def test_arrays_are_shared_out_evenly_and_large_ones_in_pieces() -> None:
    arrays = {"big": np.zeros((100, 50)), "wide": np.zeros((1, 6000), np.float32)}
    arrays |= {f"small{i}": np.zeros(40) for i in range(30)}
    pieces = share_out(arrays, 3)
    for name, x in arrays.items():
        covered = np.zeros(x.shape, int)
        for piece in (p for p in pieces if p.name == name):
            piece.of(covered)[...] += 1
        assert (covered == 1).all()
    homes = {name: {p.server for p in pieces if p.name == name} for name in arrays}
    assert homes["big"] == homes["wide"] == {0, 1, 2}
    assert all(len(servers) == 1 for name, servers in homes.items() if "small" in name)
    loads = [sum(p.of(arrays[p.name]).nbytes for p in pieces if p.server == s) for s in range(3)]
    assert max(loads) - min(loads) <= 2 * 50 * 8


@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, momentum=0.9), Adagrad(0.1)])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_sparse_push_is_the_dense_one_and_repeated_indices_add_up(optimizer, kind) -> None:
    def program(comm, sparse: bool):
        start = {"e": kind(np.ones((300, 4))), "few": kind(np.ones((1, 2000)))}
        ps = ParameterServer(comm, start, optimizer=optimizer, servers=2)
        if ps.is_server:
            ps.serve()
            return ps.final()
        for step in range(3):
            rng = np.random.default_rng([comm.rank, step])
            rows, values = np.array([7, 299, 7, 0, 150]), rng.normal(size=(5, 4))
            some, wide = np.array([0, 0]), rng.normal(size=(2, 2000))
            dense, flat = np.zeros((300, 4)), np.zeros((1, 2000))
            np.add.at(dense, rows, values)
            np.add.at(flat, some, wide)
            assert type(ps.pull()["e"]) is type(start["e"])
            if sparse:
                ps.push({"e": (kind(rows), kind(values)), "few": (kind(some), kind(wide))})
            else:
                ps.push({"e": kind(dense), "few": kind(flat)})
        ps.done()
        return ps.final(), ps.report.bytes_sent

    sparse = launch(program, 4, True, transport="threads")
    dense = launch(program, 4, False, transport="threads")
    for name in ("e", "few"):
        np.testing.assert_allclose(sparse[0][name], dense[0][name], rtol=1e-14)
        assert not np.allclose(sparse[0][name], 1)
    assert sparse[2][1] < dense[2][1] - 2 * 300 * 4 * 8


def test_a_torch_embeddings_sparse_gradient_is_taken_as_it_is() -> None:
    def program(comm):
        ps = ParameterServer(comm, {"e": torch.ones(5, 2)}, optimizer=SGD(1.0))
        if ps.is_server:
            ps.serve()
            return ps.final()["e"]
        table = ps.pull()["e"].requires_grad_()
        torch.nn.functional.embedding(torch.tensor([1, 1, 3]), table, sparse=True).sum().backward()
        ps.push({"e": table.grad})
        ps.done()
        return ps.final()["e"]

    for got in launch(program, 2, transport="threads"):
        assert got[:, 0].tolist() == [1, -1, 1, 0, 1]


def test_any_object_with_step_is_an_optimizer_and_gets_the_callers_kind_of_array() -> None:
    class Signs:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def step(self, name: str, param: torch.Tensor, grad: torch.Tensor) -> None:
            self.seen.append(name)
            param -= torch.sign(grad)

    def program(comm):
        mine = Signs()
        params = {"a": torch.zeros(3), "b": torch.zeros(2, dtype=torch.bfloat16)}
        ps = ParameterServer(comm, params, optimizer=mine)
        if ps.is_server:
            ps.serve()
        else:
            ps.push({"a": torch.tensor([2.0, -3.0, 0.0]), "b": torch.ones(2).bfloat16()})
            ps.push({"b": None})
            ps.done()
        return ps.final(), mine.seen

    (final, seen), _ = launch(program, 2, transport="threads")
    assert seen == ["a", "b"]
    assert final["a"].tolist() == [-1, 1, 0]
    assert final["b"].dtype == torch.bfloat16
    assert final["b"].tolist() == [-1, -1]


def test_pulls_of_some_names_bring_these_alone() -> None:
    def program(comm):
        ps = ParameterServer(comm, start(), optimizer=SGD(0.1), servers=2)
        if ps.is_server:
            return ps.serve()
        got = [list(ps.pull(["bias"])), list(ps.pull("big")), list(ps.pull([]))]
        ps.done()
        return got

    assert launch(program, 3, transport="threads")[2] == [["bias"], ["big"], []]


def test_asynchronous_gradients_count_on_arrival() -> None:
    """Worker 2 pulls while worker 1's gradient alone has been taken, and pushes to newer ones."""

    def program(comm, first: threading.Event, second: threading.Event):
        ps = ParameterServer(comm, {"w": np.zeros(1)}, optimizer=SGD(1.0), consistency="async")
        if ps.is_server:
            ps.serve()
            return ps.report
        got = []
        if comm.rank == 1:
            ps.push({"w": np.ones(1)})
            ps.push({"w": np.ones(1)})
            got.append(ps.pull()["w"][0])
            first.set()
            second.wait(60)
        else:
            first.wait(60)
            got.append(ps.pull()["w"][0])
            ps.push({"w": np.full(1, 10.0)})
            got.append(ps.pull()["w"][0])
            second.set()
        ps.done()
        return got

    report, fast, slow = launch(
        program, 3, threading.Event(), threading.Event(), transport="threads"
    )
    assert (fast, slow) == ([-2], [-2, -12])
    assert (report.applied, report.dropped, report.max_staleness) == (3, 0, 2)


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_no_pull_is_ever_more_than_the_staleness_ahead(staleness: int) -> None:
    steps, workers = 30, 3

    def program(comm, pushed: dict[int, int], released: threading.Event):
        options = {"consistency": "ssp", "staleness": staleness, "servers": 2}
        ps = ParameterServer(comm, {"w": np.zeros(900)}, optimizer=SGD(1.0), **options)
        if ps.is_server:
            return ps.serve()
        leads = []
        for step in range(steps):
            if comm.rank == 2 and step == 1:
                released.wait(60)  # until another has gone as far as it may
            ps.pull()
            leads.append(step - min(pushed.values()))
            if step == staleness + 1 and comm.rank != 2:
                released.set()
            pushed[comm.rank] = step + 1
            ps.push({"w": np.ones(900)})
        pushed[comm.rank] = steps + staleness
        ps.done()
        return leads, ps.report

    pushed = dict.fromkeys(range(2, 2 + workers), 0)
    ranks = launch(program, 2 + workers, pushed, threading.Event(), transport="threads")
    assert max(lead for leads, _ in ranks[2:] for lead in leads) <= staleness
    assert max(report.max_staleness for _, report in ranks[2:]) == staleness


@pytest.mark.parametrize("consistency", ["sync", "async", "ssp"])
def test_a_server_that_has_served_may_end_before_another_has(consistency, monkeypatch) -> None:
    """Server 0 hears that rank 1 has returned before it hears of any worker that it is done."""
    ended = threading.Event()

    class Inbox(queue.SimpleQueue):
        def put(self, arrived: tuple[int, Any]) -> None:
            src, message = arrived
            if threading.current_thread().name.startswith("ddp_lab server 0"):
                if src == 1 and isinstance(message, Exception):
                    ended.set()
                elif src > 1 and not isinstance(message, Exception):
                    assert messages.kind_of(message) != messages.DONE or ended.wait(60)
            super().put(arrived)

    def program(comm: Communicator) -> Any:
        params = {"a": np.zeros(900), "b": np.zeros(900)}
        ps = ParameterServer(comm, params, optimizer=SGD(1.0), servers=2, consistency=consistency)
        if ps.is_server:
            return ps.serve()
        ps.pull()
        ps.push({"a": np.ones(900), "b": np.ones(900)})
        return ps.done()

    monkeypatch.setattr(server, "queue", SimpleNamespace(SimpleQueue=Inbox))
    assert launch(program, 4, transport="threads") == [None] * 4


def test_a_server_that_ends_before_the_final_parameters_is_named_on_all_ranks() -> None:
    def program(comm: Communicator) -> Any:
        ps = ParameterServer(comm, start(), optimizer=SGD(1.0), servers=2)
        if ps.is_server:
            ps.serve()
        else:
            ps.pull()
            ps.done()
        if comm.rank != 1:
            with pytest.raises(RankLost, match="final: server 1 is lost"):
                ps.final()

    launch(program, 4, transport="threads")


def test_a_synchronous_step_takes_the_first_gradients_and_drops_and_counts_the_late() -> None:
    """Worker 4 pulls at step 0 and pushes only when the others have taken three steps."""

    def program(comm, pulled: threading.Event, over: threading.Event):
        params = {"a": np.zeros(900), "b": np.zeros(2)}
        ps = ParameterServer(comm, params, optimizer=SGD(1.0), servers=2, backups=1)
        if ps.is_server:
            ps.serve()
        elif comm.rank == 4:
            ps.pull()
            pulled.set()
            over.wait(60)
            ps.push({"a": np.full(900, 100.0), "b": np.full(2, 100.0)})
            caught_up = ps.pull()
            assert caught_up["a"][0] == caught_up["b"][0] == -3 * 2.5
            ps.done()
        else:
            pulled.wait(60)
            for _ in range(3):
                ps.pull()
                ps.push({name: np.full(x.shape, float(comm.rank)) for name, x in params.items()})
            ps.pull()
            over.set()
            ps.done()
        return ps.final(), ps.report

    events = threading.Event(), threading.Event()
    ranks = launch(program, 5, *events, transport="threads")
    for final, _ in ranks:
        assert set(final["a"]) == set(final["b"]) == {-3 * 2.5}
    counts = [(r.pushed, r.applied, r.dropped, r.max_staleness) for _, r in ranks]
    assert counts == [(7, 6, 1, 0), (7, 6, 1, 0), (3, 3, 0, 0), (3, 3, 0, 0), (1, 0, 1, 0)]


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
def test_all_servers_take_the_gradients_of_the_same_workers(transport: str) -> None:
    def program(comm):
        params = {"a": np.zeros(2000), "b": np.zeros(3)}
        ps = ParameterServer(comm, params, optimizer=SGD(1.0), servers=2, backups=2)
        if ps.is_server:
            ps.serve()
        else:
            for step in range(10):
                ps.pull()
                mine = 8.0 ** (comm.rank - 2)
                ps.push({name: np.full(x.shape, mine * 2.0**-step) for name, x in params.items()})
            ps.done()
        return ps.final(), ps.report

    ranks = launch(program, 6, transport=transport)
    values = {float(x) for final, _ in ranks for name in final for x in final[name]}
    assert len(values) == 1
    server = ranks[0][1]
    assert server.applied + server.dropped == server.pushed == 40
    assert sum(report.dropped for _, report in ranks[2:]) == server.dropped
    assert sum(report.applied for _, report in ranks[2:]) == server.applied


def test_workers_that_are_done_are_not_waited_for() -> None:
    def program(comm, consistency: str):
        options = {"consistency": consistency, "staleness": 1}
        ps = ParameterServer(comm, {"w": np.zeros(1)}, optimizer=SGD(1.0), **options)
        if ps.is_server:
            ps.serve()
        else:
            for _ in range(2 * comm.rank):
                ps.pull()
                ps.push({"w": np.full(1, float(comm.rank))})
            ps.done()
        return float(ps.final()["w"][0])

    assert launch(program, 3, "sync", transport="threads") == [-2 * 1.5 - 2 * 2.0] * 3
    assert launch(program, 3, "ssp", transport="threads") == [-2 * 1.0 - 4 * 2.0] * 3


def until_it_ends(comm, dies: int, options: dict[str, Any], steps: int = 20) -> tuple[Any, ...]:
    """Train; rank `dies` leaves at step 2; return what this rank raised, and the last state."""
    ps = ParameterServer(comm, {"w": np.zeros(900)}, optimizer=SGD(1.0), **options)
    raised = None
    try:
        if ps.is_server and comm.rank == dies:
            return "left", None, None
        if ps.is_server:
            ps.serve()
        else:
            for step in range(steps):
                if comm.rank == dies and step == 2:
                    return "left", None, None
                ps.pull()
                ps.push({"w": np.ones(900)})
            ps.done()
        final = ps.final()
    except ddp_lab.DdpLabError as error:
        raised = error
        try:
            final = ps.final()
        except RankLost as another:
            final = another
    return raised, final, ps.report


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
@pytest.mark.parametrize("consistency", ["sync", "ssp"])
def test_a_worker_that_dies_is_named_on_all_ranks(transport: str, consistency: str) -> None:
    options = {"servers": 2, "consistency": consistency, "staleness": 1}
    ranks = launch(until_it_ends, 5, 3, options, transport=transport)
    for rank in (0, 1, 2, 4):
        raised, final, _ = ranks[rank]
        assert isinstance(raised, RankLost)
        assert raised.rank == 3
        assert "worker 3" in str(raised)
        assert final["w"].shape == (900,)


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
@pytest.mark.parametrize(
    "options", [{"consistency": "async", "servers": 2}, {"backups": 1, "servers": 2}]
)
def test_runs_that_can_do_without_a_dead_worker_go_on(transport: str, options) -> None:
    ranks = launch(until_it_ends, 5, 3, options, transport=transport)
    for rank in (0, 1, 2, 4):
        raised, final, report = ranks[rank]
        assert raised is None
        assert len(set(final["w"])) == 1
        assert report.pushed == (42 if rank < 2 else 20)


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_a_server_that_dies_is_named_on_all_ranks(transport: str) -> None:
    ranks = launch(until_it_ends, 5, 1, {"servers": 2}, transport=transport)
    for rank in (0, 2, 3, 4):
        raised, final, _ = ranks[rank]
        assert isinstance(raised, RankLost)
        assert raised.rank == 1
        assert "server 1" in str(raised)
        assert isinstance(final, RankLost)


def caught(comm, change: Callable[[Any, int], None], options: dict[str, Any], params: Any) -> Any:
    """Return what this rank raised."""
    try:
        ps = ParameterServer(comm, params, **{"optimizer": SGD(0.1), **options})
        if ps.is_server:
            ps.serve()
        else:
            for _ in range(3):
                ps.pull()
                change(ps, comm.rank)
            ps.done()
            if comm.rank == 2:
                ps.push({"w": np.zeros(3)})
        ps.final()
    except ddp_lab.DdpLabError as error:
        return error
    return None


WRONG = {
    "after done": (lambda ps: None, r"push: rank 2 has called done\(\) after 2 pushes"),
    "name": (lambda ps: ps.push({"v": np.zeros(3)}), "no such array: got 'v', expected one of 'w'"),
    "shape": (
        lambda ps: ps.push({"w": np.zeros(4)}),
        r"got float64 \(4,\), expected float64 \(3,\)",
    ),
    "dtype": (lambda ps: ps.push({"w": np.zeros(3, complex)}), "got complex128"),
    "index": (lambda ps: ps.push({"w": ([3], [1.0])}), "got 3 to 3, expected 0 to 2"),
    "pull": (lambda ps: ps.pull(["nobody"]), "no such array: got 'nobody'"),
    "list": (lambda ps: ps.push([np.zeros(3)]), "not a dict by name"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("servers", [1, 2])
def test_a_wrong_call_of_one_worker_raises_on_all_ranks(case: str, servers: int) -> None:
    call, says = WRONG[case]

    def change(ps, rank: int) -> None:
        if rank == 2 and ps.report.pushed == 2:
            call(ps)
        else:
            ps.push({"w": np.zeros(3)})

    if case == "after done":
        says = says.replace("2 pushes", "3 pushes")
        change = lambda ps, rank: ps.push({"w": np.zeros(3)})  # noqa: E731
    params, options = {"w": np.zeros(3)}, {"servers": servers}
    for error in launch(caught, 4, change, options, params, transport="threads"):
        assert isinstance(error, InvalidArgument)
        with pytest.raises(InvalidArgument, match=says):
            raise error
        assert "rank 2" in str(error)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"staleness": -1}, "staleness makes no sense: got -1 on rank 1, expected 0 or more"),
        ({"servers": 3}, "servers makes no sense: got 3 on rank 1, expected 1 to 2 with 3 ranks"),
        (
            {"staleness": 1.5},
            "staleness makes no sense: got 1.5 on rank 1, expected a whole number",
        ),
        ({"backups": 2}, "backups makes no sense: got 2 on rank 1, expected 0 to 1"),
        ({"consistency": "eventual"}, "got 'eventual' on rank 1, expected one of sync, async, ssp"),
        ({"optimizer": None}, "optimizer makes no sense: got None on rank 1"),
        ({"backups": 1, "consistency": "ssp"}, "backups makes no sense: got 1 on rank 1"),
        ({"consistency": "async"}, "consistency: rank 0 has 'sync', rank 1 has 'async'"),
        ({"optimizer": SGD(0.2)}, r"rank 0 has SGD\(lr=0.1, momentum=0.0\), rank 1 has SGD"),
        (
            {"params": {"w": np.zeros(4)}},
            r"array 'w': rank 0 has float64 \(3,\).*rank 1 has .*\(4,\)",
        ),
        ({"params": {"w": np.ones(3)}}, r"beginning 0.0 0.0 0.0.*beginning 1.0 1.0 1.0"),
        ({"params": {"v": np.zeros(3)}}, "array 'w': rank 0 has .*, rank 1 has none"),
    ],
)
def test_what_makes_no_sense_on_one_rank_raises_on_all(wrong: dict[str, Any], says: str) -> None:
    def program(comm):
        given = wrong if comm.rank == 1 else {}
        options = {k: v for k, v in given.items() if k != "params"}
        return caught(comm, lambda ps, rank: None, options, given.get("params", {"w": np.zeros(3)}))

    for error in launch(program, 3, transport="threads"):
        assert isinstance(error, InvalidArgument | Mismatch)
        with pytest.raises(ValueError, match=says):
            raise error


@pytest.mark.parametrize("world", [TurnWorld(2), SimWorld(2, Link(1.0, 0.0))])
def test_ranks_that_take_turns_are_refused(world: TurnWorld) -> None:
    def program(comm):
        return caught(comm, lambda ps, rank: None, {}, {"w": np.zeros(3)})

    for error in launch(program, 2, transport=world):
        assert "expected ranks that run at the same time" in str(error)


def test_each_side_is_told_what_is_the_others() -> None:
    def program(comm):
        ps = ParameterServer(comm, {"w": np.zeros(3)}, optimizer=SGD(0.1))
        said = []
        for call in (ps.pull, ps.done, lambda: ps.push({})) if ps.is_server else (ps.serve,):
            with pytest.raises(InvalidArgument, match="this rank is a") as error:
                call()
            said.append(str(error.value))
        ps.serve() if ps.is_server else ps.done()
        return len(said)

    assert launch(program, 2, transport="threads") == [3, 1]


def test_a_worker_that_hangs_is_seen_in_the_report_of_a_timeout() -> None:
    def program(comm):
        ps = ParameterServer(comm, {"w": np.zeros(3)}, optimizer=SGD(0.1))
        if ps.is_server:
            return ps.serve()
        if comm.rank == 2:
            comm.recv(1)
        ps.push({"w": np.zeros(3)})
        return ps.pull()

    with pytest.raises(
        ddp_lab.RankTimeout, match=r"rank 1 waits for rank 0 in recv at .*test_para"
    ):
        launch(program, 3, transport="threads", timeout_s=0.5)


def test_stragglers_are_the_simulators_times_and_the_same_on_every_rank() -> None:
    draw = late(0.001, 0.25, 0.5)
    one, other = (Stragglers(draw, 4, 100, seed=3) for _ in range(2))
    assert (one.times == other.times).all()
    assert set(np.unique(one.times)) == {0.001, 0.501}
    assert one.time_of(2, 103) == one.times[2, 3]
    want = simulate.parameter_server("sync", 4, step_time=draw, steps=100, seed=3)
    assert want.makespan == pytest.approx(one.times.max(axis=0).sum())


KILLED = """
    import os, signal, sys
    import numpy as np
    import ddp_lab
    from ddp_lab.parallel import SGD, ParameterServer

    comm = ddp_lab.init()
    options = {"consistency": sys.argv[1], "backups": int(sys.argv[2]), "servers": 2}
    ps = ParameterServer(comm, {"w": np.zeros(900)}, optimizer=SGD(1.0), **options)
    try:
        if ps.is_server:
            ps.serve()
        else:
            for step in range(8):
                ps.pull()
                if comm.rank == 3 and step == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                ps.push({"w": np.ones(900)})
            ps.done()
        print("ended", len(set(ps.final()["w"])), flush=True)
    except ddp_lab.RankLost as error:
        print("worker 3 of" in str(error), error.rank, flush=True)
"""


@pytest.mark.parametrize(
    ("consistency", "backups", "said"),
    [("async", 0, "ended 1\n"), ("sync", 1, "ended 1\n"), ("sync", 0, "True 3\n")],
)
def test_a_worker_that_is_killed(
    consistency: str, backups: int, said: str, port: str, python: Any
) -> None:
    """Nobody watches over the ranks."""
    shared = {"WORLD_SIZE": "5", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environments = [shared | {"RANK": str(rank)} for rank in range(5)]
    ended = python(KILLED, *[(consistency, backups)] * 5, environments=environments)
    assert [rank.output for rank in ended] == [said] * 3 + ["", said], ended
    assert [rank.status for rank in ended] == [0] * 3 + [-signal.SIGKILL, 0]
