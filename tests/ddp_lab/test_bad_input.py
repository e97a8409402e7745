"""What no rank can make right is refused where it comes in, with the facts; nothing hangs."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ddp_lab
from ddp_lab.data_parallel import Checkpoint, DistributedDataParallel
from ddp_lab.parallel import SGD, ParameterServer, Pipeline, ShardedOptimizer, parallelize
from ddp_lab.transport.threads import ThreadWorld


def alone() -> ddp_lab.Communicator:
    """Return the communicator of a world of one rank, which needs no launch."""
    return ddp_lab.Communicator(ThreadWorld(1).transport(0))


class Unshowable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


CALLS: list[tuple[str, str, str]] = [
    # what is called, and the facts that the message must hold
    ("send(np.ones(2), -1)", "send: no such rank: got -1", "expected 0 to 0"),
    ("send(np.ones(2), 1.0)", "send: no such rank: got 1.0", "expected 0 to 0"),
    ("recv(np.ones((2, 3)))", "recv: no rank to receive from", "shape (2, 3)"),
    ("recv(0, np.ones(2))", "recv: no rank to receive from", "shape (2,)"),
    ("sendrecv(np.ones(2), 0, 9)", "sendrecv: no such rank: got 9", "expected 0 to 0"),
    ("irecv(0).wait(-1)", "recv: timeout_s", "got -1"),
    ("irecv(0).wait(math.nan)", "recv: timeout_s", "got nan"),
    ("irecv(0).wait('soon')", "recv: timeout_s", "got 'soon'"),
    ("barrier(async_op=True).wait(math.nan)", "wait: timeout_s", "got nan"),
    ("all_reduce(np.ma.masked_array([1, 2], [0, 1]))", "lose its mask", "shape (2,)"),
    ("all_reduce(torch.eye(2).to_sparse())", "not a dense tensor", "sparse"),
    ("all_reduce(torch.ones(2, device='meta'))", "not a dense tensor", "meta"),
    ("all_reduce(torch.ones(2).to(torch.float8_e4m3fn))", "cannot send this dtype", "float8"),
    ("all_reduce(np.array([True]), 'avg')", "all_reduce: 'avg' is not defined", "bool"),
    ("all_reduce(np.array([1j]), 'max')", "all_reduce: 'max' is not defined", "complex128"),
    ("all_reduce(np.ones(2), 'bor')", "all_reduce: 'bor' is not defined", "float64"),
    ("all_reduce(np.ones(2), None)", "all_reduce: unknown operation: got None", "sum, prod"),
    ("all_reduce(np.ones(2), algorithm=[])", "unknown algorithm: got []", "ring"),
    ("scatter(5)", "scatter: not a list of arrays", "got int"),
    ("scatter({0: np.ones(1)})", "scatter: not a list of arrays", "got dict"),
    ("split(1.5)", "split: color is no whole number", "got 1.5"),
    ("split('a')", "split: color is no whole number", "got 'a'"),
    ("split(2**70)", "split: color is no whole number", str(2**70)),
    ("split(-(2**63))", "split: color is no whole number", str(-(2**63))),
    ("split(0, key=0.5)", "split: key is no whole number", "got 0.5"),
    ("grid(dp=1.0)", "grid: dp is no whole number", "got 1.0"),
    ("grid(dp=None)", "grid: dp is no whole number", "got None"),
    ("grid(dp=-1, tp=-1)", "do not cover the ranks", "'tp': -1"),
    ("grid(dp=2)", "do not cover the ranks", "product is 1"),
    ("empty(-1)", "empty: no such shape", "got -1"),
    ("empty((2, -3))", "empty: no such shape", "got (2, -3)"),
    ("empty(2.5)", "empty: no such shape", "got 2.5"),
    ("empty('abc')", "empty: no such shape", "got 'abc'"),
    ("empty(None)", "empty: no such shape", "got None"),
    ("empty(3, 'nope')", "empty: not a dtype of numbers", "got 'nope'"),
    ("empty(3, object)", "empty: not a dtype of numbers", "object"),
    ("empty(3, torch.float8_e4m3fn)", "empty: not a dtype of numbers", "float8"),
]


@pytest.mark.parametrize(("call", "what", "fact"), CALLS, ids=[call for call, _, _ in CALLS])
def test_a_call_that_makes_no_sense_is_refused_with_its_facts(
    call: str, what: str, fact: str
) -> None:
    names = {"np": np, "torch": torch, "math": math, "comm": alone()}
    with pytest.raises(ValueError) as caught:
        eval(f"comm.{call}", names)
    assert isinstance(caught.value, ddp_lab.InvalidArgument | ddp_lab.UnknownAlgorithm)
    assert what in str(caught.value)
    assert fact in str(caught.value)


NET = torch.nn.Linear(2, 2)
PIPEDREAM = {"schedule": "pipedream", "microbatches": 1, "loss_fn": torch.nn.MSELoss()}
CONSTRUCTORS: list[tuple[Any, str]] = [
    (lambda c: ShardedOptimizer(NET.parameters(), "adam", c), "no class of optimizers: got 'adam'"),
    (
        lambda c: ShardedOptimizer(NET.parameters(), torch.optim.SGD(NET.parameters()), c),
        "no class of optimizers: got SGD",
    ),
    (lambda c: ShardedOptimizer(NET, torch.optim.Adam, c), "no parameters: got Linear"),
    (lambda c: Pipeline(c, NET, **PIPEDREAM, optimizer="sgd"), "optimizer is none: got 'sgd'"),
    (lambda c: Pipeline(c, NET, **PIPEDREAM, optimizer=torch.optim.SGD), "optimizer is none: got"),
    (lambda c: ParameterServer(c, {"a": np.ones(2)}, optimizer=SGD), "optimizer makes no sense"),
    (lambda c: parallelize(NET, {"": "row"}, c), "no module and communicator: got Linear and dict"),
    (lambda c: parallelize(NET, c, "row"), "no plan: got 'row'"),
]


@pytest.mark.parametrize(("construct", "says"), CONSTRUCTORS)
def test_who_gets_a_name_for_a_class_or_a_class_for_an_object_says_so(
    construct: Any, says: str
) -> None:
    with pytest.raises(ddp_lab.RankFailed, match=says):
        ddp_lab.launch(construct, 2, transport="threads")


def test_numbers_of_numpy_are_numbers() -> None:
    comm = alone()
    assert comm.empty(np.int64(3)).shape == (3,)
    assert comm.empty(np.array([2, 3])).shape == (2, 3)
    assert [comm.split(c).size for c in (np.int64(3), np.bool_(True), -1)] == [1, 1, 1]
    assert comm.grid(dp=np.int64(1))["dp"].size == 1
    assert ddp_lab.launch(lambda comm: comm.rank, np.int64(2), transport="threads") == [0, 1]


@pytest.mark.parametrize("transport", ["threads", "shm"])
@pytest.mark.parametrize("timeout_s", [0, -1, None, math.nan, "5", True])
def test_no_time_at_all_is_refused(transport: str, timeout_s: Any) -> None:
    with pytest.raises(ValueError, match="launch: timeout_s is no time to wait: got"):
        ddp_lab.launch(print, 2, transport=transport, timeout_s=timeout_s)


@pytest.mark.parametrize("transport", ["threads", "shm"])
@pytest.mark.parametrize("timeout_s", [math.inf, 1e300, 10**400], ids=["inf", "1e300", "10**400"])
def test_any_time_is_enough_time(transport: str, timeout_s: float) -> None:
    assert ddp_lab.launch(lambda comm: 1, 1, transport=transport, timeout_s=timeout_s) == [1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("all_reduce", "", print), "not a name: got ''"),
        (("all_reduce", 3, print), "not a name: got 3"),
        (("all_reduce", "a|b", print), r"not a name: got 'a\|b'"),
        (("all_reduce", "a\0", print), "not a name"),
        (([], "mine", print), r"unknown collective: got \[\]"),
        (("all_reduce", "auto", print), "the name is taken: got 'auto'"),
    ],
)
def test_an_algorithm_needs_a_name_and_a_collective(arguments: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ddp_lab.register_algorithm(*arguments)


@pytest.mark.parametrize("thing", [None, "shm", 3])
def test_a_communicator_needs_a_transport(thing: Any) -> None:
    with pytest.raises(ValueError, match="Communicator: not a transport: got"):
        ddp_lab.Communicator(thing)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda comm: comm, "the result cannot be sent back: got Communicator"),
        (lambda comm: [comm._transport], "the result cannot be sent back: got list"),
    ],
)
def test_a_rank_that_returns_its_communicator_is_told_at_once(fn: Any, says: str) -> None:
    with pytest.raises(ddp_lab.RankFailed, match=says):
        ddp_lab.launch(fn, 2)


def test_a_communicator_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="belongs to its rank"):
        copy.deepcopy(alone())


@pytest.mark.parametrize("where", ["function", "argument"])
def test_what_cannot_be_sent_to_the_ranks_is_named(where: str) -> None:
    endless = (x for x in ())
    with pytest.raises(ValueError, match=r"cannot be sent to the ranks: TypeError: .*generator"):
        if where == "function":
            ddp_lab.launch(lambda comm: endless, 2)
        else:
            ddp_lab.launch(lambda comm, x: x, 2, endless)


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_an_exception_that_cannot_be_shown_is_a_failure_like_any_other(transport: str) -> None:
    def rank(comm: ddp_lab.Communicator) -> None:
        raise Unshowable

    with pytest.raises(ddp_lab.RankFailed, match=r"Unshowable: \(its message cannot be shown"):
        ddp_lab.launch(rank, 2, transport=transport)


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_an_endless_recursion_is_told_in_a_few_lines(transport: str) -> None:
    def rank(comm: ddp_lab.Communicator) -> None:
        rank(comm)

    with pytest.raises(ddp_lab.RankFailed, match="RecursionError") as caught:
        ddp_lab.launch(rank, 2, transport=transport)
    assert "more times]" in caught.value.traceback
    assert len(str(caught.value).splitlines()) < 20


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
def test_leaving_with_code_0_is_returning_and_with_another_is_failing(transport: str) -> None:
    def rank(comm: ddp_lab.Communicator, code: Any) -> None:
        raise SystemExit(code)

    assert ddp_lab.launch(rank, 2, 0, transport=transport) == [None, None]
    with pytest.raises(ddp_lab.RankFailed, match="SystemExit: 3"):
        ddp_lab.launch(rank, 2, 3, transport=transport)


def test_launches_at_the_same_time_do_not_disturb_each_other() -> None:
    def outer(comm: ddp_lab.Communicator) -> Any:
        return list(ddp_lab.launch(lambda inner: inner.size, 2))

    assert ddp_lab.launch(outer, 2, transport="threads") == [[2, 2], [2, 2]]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_byte_order_is_the_machines_own_within_the_ranks(transport: str) -> None:
    def rank(comm: ddp_lab.Communicator) -> Any:
        x = np.arange(3, dtype=">f4" if comm.rank else "<f4")
        return comm.all_reduce(x), comm.sendrecv(x, 1 - comm.rank, 1 - comm.rank)

    for total, received in ddp_lab.launch(rank, 2, transport=transport):
        np.testing.assert_array_equal(total, np.array([0, 2, 4], np.float32), strict=True)
        np.testing.assert_array_equal(received, np.arange(3, dtype=np.float32), strict=True)


@pytest.mark.parametrize("algorithm", ["auto", "one_shot", "two_shot", "ring"])
@pytest.mark.parametrize("count", [7, 100_001])
def test_a_result_that_overlaps_its_argument_is_right(algorithm: str, count: int) -> None:
    def rank(comm: ddp_lab.Communicator) -> Any:
        buffer = comm.empty(count + 1, np.float64)
        buffer[:] = np.arange(count + 1)
        shifted = comm.all_reduce(buffer[:-1], out=buffer[1:], algorithm=algorithm).copy()
        buffer[:] = np.arange(count + 1)
        same = comm.all_reduce(buffer, out=buffer[:], algorithm=algorithm)
        return shifted, same.copy()

    expected = 3.0 * np.arange(count + 1)
    for shifted, same in ddp_lab.launch(rank, 3):
        np.testing.assert_array_equal(shifted, expected[:-1])
        np.testing.assert_array_equal(same, expected)


def test_tensors_that_are_views_with_a_sign_or_a_conjugate_are_resolved() -> None:
    z = torch.tensor([1 + 2j]).conj()
    assert alone().all_reduce(z).tolist() == [1 - 2j]
    assert alone().all_reduce(z.imag).tolist() == [-2.0]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_ranks_that_ask_for_different_grids_are_told(transport: str) -> None:
    def rank(comm: ddp_lab.Communicator) -> None:
        comm.grid(**({"dp": 2, "tp": 1} if comm.rank else {"dp": 1, "tp": 2}))

    with pytest.raises(ddp_lab.RankFailed, match=r"grid dp=\d tp=\d at .*grid dp=\d tp=\d at"):
        ddp_lab.launch(rank, 2, transport=transport)


def rotten(comm: Any, x: Any, op: str = "sum", root: int = 0) -> Any:
    return None


def cut_short(comm: Any, x: Any, op: str = "sum", root: int = 0) -> Any:
    return x.reshape(-1)[:1]


def other_dtype(comm: Any, x: Any, op: str = "sum", root: int = 0) -> Any:
    return x.astype(np.complex128)


def register(collective: str, fn: Any) -> str:
    """Register an algorithm and return its name."""
    name = f"under_test_{fn.__name__}"
    ddp_lab.register_algorithm(collective, name, fn)
    return name


def one_too_many(comm: Any, x: Any, op: str = "sum") -> Any:
    comm.send(x, (comm.rank + 1) % comm.size)
    return x


def test_a_message_that_a_learners_algorithm_leaves_behind_is_told_as_such() -> None:
    name = register("all_reduce", one_too_many)

    def rank(comm: Any) -> None:
        comm.all_reduce(np.zeros(2), algorithm=name)
        comm.all_reduce(np.zeros(2), algorithm="ring")

    with pytest.raises(ddp_lab.RankFailed, match="sends a message that nobody receives"):
        ddp_lab.launch(rank, 2, transport="threads")


@pytest.mark.parametrize(
    ("fn", "got"),
    [(rotten, "got None"), (cut_short, "got float64 (1,)"), (other_dtype, "got complex128 (2, 3)")],
)
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
def test_a_learners_algorithm_must_return_what_the_collective_promises(
    collective: str, fn: Any, got: str
) -> None:
    name = register(collective, fn)

    def rank(comm: ddp_lab.Communicator) -> None:
        getattr(comm, collective)(np.ones((2, 3)), algorithm=name)

    with pytest.raises(ddp_lab.RankFailed) as caught:
        ddp_lab.launch(rank, 2, transport="threads")
    assert f"{collective}: the algorithm '{name}' returned no such array: {got}" in str(
        caught.value
    )
    assert "expected float64 (2, 3)" in str(caught.value)


def test_what_only_the_root_has_is_asked_of_the_root_alone() -> None:
    names = {c: register(c, rotten) for c in ("reduce", "gather", "broadcast")}

    def rank(comm: ddp_lab.Communicator, collective: str) -> Any:
        return getattr(comm, collective)(np.ones(3), root=1, algorithm=names[collective])

    for collective in ("reduce", "gather"):
        with pytest.raises(ddp_lab.RankFailed, match="got None on rank 1") as caught:
            ddp_lab.launch(rank, 2, collective, transport="threads")
        assert caught.value.rank == 1
    with pytest.raises(ddp_lab.RankFailed, match="got None on rank"):
        ddp_lab.launch(rank, 2, "broadcast", transport="threads")


def test_a_list_is_taken_for_an_array_of_the_arguments_dtype() -> None:
    def as_list(comm: Any, x: Any, op: str) -> Any:
        return [float(n) for n in x]

    name = register("all_reduce", as_list)
    got = alone().all_reduce(np.arange(3, dtype=np.float32), algorithm=name)
    np.testing.assert_array_equal(got, np.arange(3, dtype=np.float32), strict=True)


def test_a_learners_algorithm_that_waits_for_nobody_is_reported_with_its_line() -> None:
    def waits(comm: Any, x: Any, op: str) -> Any:
        return comm.recv((comm.rank + 1) % comm.size)  # the line that hangs

    name = register("all_reduce", waits)
    with pytest.raises(ddp_lab.RankTimeout) as caught:
        ddp_lab.launch(lambda comm: comm.all_reduce(np.ones(2), algorithm=name), 2, timeout_s=4.0)
    line = waits.__code__.co_firstlineno + 1
    assert f"rank 0 waits for rank 1 in recv at {Path(__file__)}:{line}" in str(caught.value)


def test_modules_and_communicators_in_each_others_place_are_named() -> None:
    module, comm = torch.nn.Linear(2, 2), alone()
    with pytest.raises(ddp_lab.InvalidArgument, match=r"not a module: got Communicator\(rank=0"):
        DistributedDataParallel(comm, module)
    with pytest.raises(ddp_lab.InvalidArgument, match=r"got process_group=None.*\(module, comm\)"):
        DistributedDataParallel(module)
    with pytest.raises(ddp_lab.InvalidArgument, match=r"Pipeline: no communicator: got Linear"):
        Pipeline(module, comm, microbatches=1, loss_fn=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        ("Checkpoint('run.npz', comm, 'y')", "Checkpoint: per_rank is no mapping: got 'y'"),
        ("Checkpoint(comm, 'run.npz')", r"Checkpoint: no path: got Communicator\(rank=0"),
        ("Checkpoint('run.npz', module)", r"no ranks: got Linear.*Checkpoint\(path, comm, model="),
        ("gather_full_params('x')", "gather_full_params: no torch module: got str"),
        ("ColumnParallelLinear('x', 4, 4)", "ColumnParallelLinear: no communicator: got 'x'"),
        ("RowParallelLinear(4, 4, comm)", "RowParallelLinear: no communicator: got 4"),
        ("VocabParallelEmbedding(module, 4, 4)", "VocabParallelEmbedding: no comm"),
    ],
)
def test_what_stands_in_the_place_of_something_else_is_named(call: str, facts: str) -> None:
    names = {name: getattr(ddp_lab.parallel, name) for name in ddp_lab.parallel.__all__}
    names |= {"Checkpoint": Checkpoint, "module": torch.nn.Linear(2, 2), "comm": alone()}
    with pytest.raises(ddp_lab.InvalidArgument, match=facts):
        eval(call, names)


@pytest.mark.parametrize(
    ("kind", "standard"), [("RankLost", ConnectionError), ("RankTimeout", TimeoutError)]
)
def test_programs_of_torch_catch_what_is_said_of_a_rank(kind: str, standard: type) -> None:
    """They write `except RuntimeError` around a collective, which is what gloo raises."""
    error = getattr(ddp_lab, kind)("rank 1 has ended", 1)
    assert isinstance(error, RuntimeError) and isinstance(error, standard)
    assert copy.copy(error).rank == 1
    assert str(error) == "rank 1 has ended"
