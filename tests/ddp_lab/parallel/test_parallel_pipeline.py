"""A pipeline trains as one process does, holds what its schedule says, and fails on all ranks."""

import copy
import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ddp_lab import launch, simulate
from ddp_lab.errors import DdpLabError, RankFailed
from ddp_lab.parallel import Pipeline, schedule, split
from ddp_lab.parallel.pipeline.cuts import balance
from ddp_lab.simulate.pipeline import PipelineStep
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld

CASES = [
    ("gpipe", 1),
    ("1f1b", 1),
    ("interleaved_1f1b", 2),
    ("zero_bubble", 1),
    ("zero_bubble", 2),
]


class Residual(nn.Module):
    """A layer with a norm, a weight used twice and one that leads nowhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(torch.tanh(self.inner(self.norm(x))))


def model(layers: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [(nn.Linear(6, 6), nn.Tanh(), Residual(6)) for _ in range(layers)]
    return nn.Sequential(*itertools.chain(*blocks)).double()


def batch(rows: int = 13) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, target = (torch.randn(rows, 6, generator=generator) for _ in range(2))
    return x.double(), target.double()


def one_process(whole: nn.Module, x: Tensor, target: Tensor) -> tuple[float, dict[str, Tensor]]:
    whole = copy.deepcopy(whole)
    loss = mse_loss(whole(x), target)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in whole.named_parameters()}


def run_steps(comm, whole, x, target, name, chunks, microbatches):
    stages = split(copy.deepcopy(whole), comm.size * chunks)[comm.rank :: comm.size]
    pipeline = Pipeline(
        comm,
        stages,
        schedule=name,
        microbatches=microbatches,
        loss_fn=mse_loss,
    )
    for _ in range(2):
        for stage in stages:
            stage.zero_grad()
        first, last = comm.rank == 0, comm.rank == comm.size - 1
        loss = pipeline.step(x if first else None, target if last else None)
    grads = {n: p.grad for stage in stages for n, p in stage.named_parameters()}
    return loss, grads, pipeline.timeline, pipeline.peak_activations, pipeline.idle_s


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("name", "chunks"), CASES)
def test_loss_gradients_order_and_activations_are_those_due(name, chunks, ranks) -> None:
    whole, (x, target) = model(), batch()
    microbatches = 2 * ranks
    results = launch(
        run_steps,
        ranks,
        *(whole, x, target, name, chunks, microbatches),
        transport="threads",
    )
    loss, grads = one_process(whole, x, target)
    found = {}
    for rank_loss, rank_grads, _, _, idle_s in results:
        assert rank_loss.item() == pytest.approx(loss, rel=1e-12)
        assert idle_s > 0
        found.update(rank_grads)
    assert found.keys() == grads.keys()
    for key, grad in grads.items():
        assert (found[key] is None) == (grad is None), key
        if grad is not None:
            torch.testing.assert_close(found[key], grad, rtol=1e-10, atol=1e-12)
    done = [[span.action for span in timeline] for _, _, timeline, _, _ in results]
    assert done == schedule(name, ranks, microbatches, chunks)
    expected = simulate.pipeline(name, ranks, microbatches, chunks=chunks).peak_activations
    assert [peak for _, _, _, peak, _ in results] == expected


@pytest.mark.parametrize(("name", "chunks"), CASES)
def test_a_stage_may_begin_with_a_layer_that_works_in_place(name, chunks) -> None:
    def layers(inplace: bool) -> nn.Sequential:
        torch.manual_seed(0)
        first = nn.Sequential(nn.Linear(6, 6))
        others = [nn.Sequential(nn.ReLU(inplace), nn.Linear(6, 6)) for _ in range(2 * chunks - 1)]
        return nn.Sequential(first, *others).double()

    x, target = batch()
    results = launch(run_steps, 2, *(layers(True), x, target, name, chunks, 4), transport="threads")
    loss, grads = one_process(layers(False), x, target)
    for rank_loss, rank_grads, *_ in results:
        assert rank_loss.item() == pytest.approx(loss, rel=1e-12)
        for key, grad in rank_grads.items():
            torch.testing.assert_close(grad, grads[key], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_processes_train_alike_and_messages_may_be_large(transport: str) -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
    x, target = torch.randn(8 * 4096, 64), torch.randn(8 * 4096, 64)  # 1 MiB a message
    results = launch(
        run_steps, 2, whole, x, target, "interleaved_1f1b", 2, 8, transport=transport, record=True
    )
    loss, grads = one_process(whole, x, target)
    for rank, (rank_loss, rank_grads, *_) in enumerate(results):
        assert rank_loss.item() == pytest.approx(loss, rel=1e-5)
        for name, grad in rank_grads.items():
            torch.testing.assert_close(grad, grads[name], rtol=1e-4, atol=1e-7)
        sent = 2 * 8 * (3 << 20)  # two steps of: two activations and a gradient, or the reverse
        assert sent <= results.traffic[rank].bytes_sent < sent + 4096


def test_a_table_of_ones_own_is_run_as_it_stands() -> None:
    whole, (x, target) = model(), batch()
    table = [["0F0", "0F1", "0B1", "0B0"], ["1F0", "1F1", "1B1", "1B0"]]
    results = launch(run_steps, 2, whole, x, target, table, 1, 2, transport="threads")
    loss, _ = one_process(whole, x, target)
    assert results[0][0].item() == pytest.approx(loss, rel=1e-12)
    assert [[span.action for span in result[2]] for result in results] == table


def test_a_rank_without_parameters_has_the_loss_in_its_dtype_too() -> None:
    whole = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double()
    x, target = batch()
    results = launch(run_steps, 2, whole, x, target, "1f1b", 1, 2, transport="threads")
    loss, _ = one_process(whole, x, target)
    assert [result[0].item() for result in results] == [pytest.approx(loss, rel=1e-12)] * 2


def test_a_batch_may_be_of_numpy() -> None:
    whole, (x, target) = model(), batch()
    results = launch(
        run_steps, 2, whole, x.numpy(), target.numpy(), "1f1b", 1, 2, transport="threads"
    )
    assert results[0][0].item() == pytest.approx(one_process(whole, x, target)[0], rel=1e-12)


def on_a_virtual_clock(comm, name, microbatches, chunks):
    stages = [nn.Linear(2, 2) for _ in range(chunks)]
    pipeline = Pipeline(
        comm,
        stages,
        schedule=name,
        microbatches=microbatches,
        loss_fn=mse_loss,
        seconds={"F": 1.0, "B": 2.0},
    )
    x = torch.ones(microbatches, 2)
    pipeline.step(x, x)
    return pipeline.timeline


@pytest.mark.parametrize(("name", "chunks"), CASES)
def test_on_a_virtual_clock_a_step_takes_what_the_simulator_predicts(name, chunks) -> None:
    for ranks, microbatches in ((1, 1), (3, 6), (4, 1)):
        world = SimWorld(ranks, Link(0.0, 0.0))
        run = launch(on_a_virtual_clock, ranks, name, microbatches, chunks, transport=world)
        predicted = simulate.pipeline(name, ranks, microbatches, chunks=chunks)
        measured = PipelineStep(tuple(run))
        assert measured.makespan == predicted.makespan
        assert measured.bubble_fraction == predicted.bubble_fraction


def pipedream(comm, whole, x, target, microbatches):
    stage = split(copy.deepcopy(whole), comm.size)[comm.rank]
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1, momentum=0.9)
    pipeline = Pipeline(
        comm,
        stage,
        schedule="pipedream",
        microbatches=microbatches,
        loss_fn=mse_loss,
        optimizer=optimizer,
    )
    losses = [pipeline.step(x, target).item() for _ in range(2)]
    return losses, dict(stage.named_parameters()), pipeline.weight_versions


def pipedream_by_hand(whole, ranks: int, x, target, microbatches: int, steps: int):
    """Train in one process: stage s runs micro-batch m with its weights of m - (ranks - 1 - s)."""
    stages = split(copy.deepcopy(whole), ranks)
    optimizers = [torch.optim.SGD(s.parameters(), lr=0.1, momentum=0.9) for s in stages]
    losses = []
    for _ in range(steps):
        versions = [[copy.deepcopy(stage)] for stage in stages]
        total = 0.0
        for m, (xs, ts) in enumerate(
            zip(x.tensor_split(microbatches), target.tensor_split(microbatches), strict=True)
        ):
            used = [versions[s][max(0, m - (ranks - 1 - s))] for s in range(ranks)]
            copies = [copy.deepcopy(stage) for stage in used]
            loss = mse_loss(nn.Sequential(*copies)(xs), ts)
            loss.backward()
            total += loss.item() * len(xs) / len(x)
            for s, stage in enumerate(stages):
                for p, q in zip(stage.parameters(), copies[s].parameters(), strict=True):
                    p.grad = q.grad
                optimizers[s].step()
                versions[s].append(copy.deepcopy(stage))
        losses.append(total)
    return losses, {name: p for stage in stages for name, p in stage.named_parameters()}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_pipedream_uses_the_weights_of_the_forward_and_steps_at_once(ranks: int) -> None:
    whole, (x, target) = model(), batch()
    results = launch(pipedream, ranks, whole, x, target, 6, transport="threads")
    losses, params = pipedream_by_hand(whole, ranks, x, target, 6, steps=2)
    for rank, (rank_losses, rank_params, versions) in enumerate(results):
        assert rank_losses == pytest.approx(losses, rel=1e-10)
        assert versions == ranks - rank
        for name, param in rank_params.items():
            torch.testing.assert_close(param, params[name], rtol=1e-9, atol=1e-11)


def told(comm, arguments: dict, x, target, recovers: bool):
    """Return the error of this rank, by type and text."""
    mine = {key: value[comm.rank] for key, value in arguments.items()}
    try:
        pipeline = Pipeline(comm, **mine)
        pipeline.step(x, target)
    except DdpLabError as error:
        if recovers:
            pipeline.step(torch.ones(4, 3), torch.ones(4, 3))
        return type(error).__name__, str(error)


def errors(x=None, target=None, recovers: bool = False, **changed: Sequence) -> set:
    arguments = {
        "chunks": [nn.Linear(3, 3) for _ in range(3)],
        "schedule": ["1f1b"] * 3,
        "microbatches": [4] * 3,
        "loss_fn": [mse_loss] * 3,
        **changed,
    }
    x, target = (torch.ones(4, 3) if t is None else t for t in (x, target))
    return set(launch(told, 3, arguments, x, target, recovers, transport="threads", timeout_s=60))


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        (
            {"schedule": ["1f1b", "1f1b", "gpipe"]},
            "Mismatch",
            "disagree on schedule: rank 0 has 1f1b, rank 2 has gpipe",
        ),
        (
            {"microbatches": [4, 2, 4]},
            "Mismatch",
            "disagree on microbatches: rank 0 has 4, rank 1 has 2",
        ),
        (
            {"chunks": [[nn.Linear(3, 3)], [nn.Linear(3, 3)] * 2, [nn.Linear(3, 3)]]},
            "InvalidArgument",
            "rank 1: schedule: 1f1b has one stage a rank: got chunks=2",
        ),
        ({"chunks": [nn.Linear(3, 3), None, None]}, "InvalidArgument", "rank 1: chunks are no"),
        ({"loss_fn": [None, None, None]}, "InvalidArgument", "rank 2: loss_fn is no function"),
        ({"schedule": ["pipedream"] * 3}, "InvalidArgument", "rank 0: optimizer=None does not go"),
        ({"schedule": ["gpip"] * 3}, "InvalidArgument", "rank 0: schedule: unknown schedule"),
    ],
)
def test_ranks_that_cannot_train_together_are_all_told(changed, kind: str, says: str) -> None:
    ((found, text),) = errors(**changed)
    assert found == kind
    assert says in text


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        (
            {"chunks": [nn.Linear(3, 3), nn.Linear(5, 3), nn.Linear(3, 3)]},
            "StageFailed",
            "rank 1: 1F0 failed, given torch.float32 (1, 3): RuntimeError: mat1 and mat2",
        ),
        ({"target": torch.ones(5, 3)}, "InvalidArgument", "rank 2: the loss of micro-batch 0"),
        ({"target": torch.ones(4, 2)}, "StageFailed", "rank 2: 2F0 failed"),
        ({"x": torch.ones(3, 3)}, "InvalidArgument", "rank 0: x has too few rows: got 3"),
        ({"x": "x"}, "InvalidArgument", "rank 0: x is no batch: got str"),
        (
            {"chunks": [nn.Linear(3, 3), nn.LSTM(3, 3), nn.Linear(3, 3)]},
            "InvalidArgument",
            "rank 1: a stage returned no tensor of floating point: got tuple",
        ),
    ],
)
def test_a_stage_that_fails_is_named_on_all_ranks_and_the_next_step_runs(
    changed, kind: str, says: str
) -> None:
    ((found, text),) = errors(**changed, recovers="chunks" not in changed)
    assert found == kind
    assert says in text


def test_launch_names_the_rank_whose_stage_failed() -> None:
    def work(comm):
        stage = nn.Linear(3 + (comm.rank == 1), 3)
        x = torch.ones(4, 3)
        Pipeline(comm, stage, microbatches=2, loss_fn=mse_loss).step(x, x)

    with pytest.raises(RankFailed, match="rank 1 of 3 failed") as failed:
        launch(work, 3, transport="threads")
    assert failed.value.rank == 1
    assert len(failed.value.failures) == 3


def best_by_trying_all(costs: Sequence[float], stages: int) -> float:
    ends = range(1, len(costs))
    return min(
        max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *cuts, len(costs))))
        for cuts in itertools.combinations(ends, stages - 1)
    )


def test_the_slowest_stage_of_a_split_is_as_fast_as_can_be() -> None:
    generator = torch.Generator().manual_seed(5)
    for n, stages in itertools.product((1, 2, 5, 8), (1, 2, 3, 5)):
        if stages > n:
            continue
        for _ in range(5):
            costs = torch.rand(n, generator=generator).pow(3).tolist()
            runs = balance(costs, stages)
            assert [i for first, last in runs for i in range(first, last)] == list(range(n))
            assert all(first < last for first, last in runs)
            largest = max(sum(costs[first:last]) for first, last in runs)
            assert largest == pytest.approx(best_by_trying_all(costs, stages))


def test_stages_are_the_models_own_layers_under_their_own_names() -> None:
    whole = model()
    stages = split(whole, 3)
    assert [k for stage in stages for k in stage.state_dict()] == list(whole.state_dict())
    assert all(a is b for a, b in zip(itertools.chain(*stages), whole, strict=True))
    assert [len(stage) for stage in split(whole, 2, [9.0, *[1.0] * 11])] == [2, 10]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((nn.Sequential(nn.Tanh()), 2), "more stages than layers: got 2 stages for 1 layers"),
        ((nn.Linear(2, 2), 1), "no sequence of layers: got Linear"),
        ((nn.Sequential(nn.Tanh()), 1, [1.0, 2.0]), "one cost a layer"),
        ((nn.Sequential(nn.Tanh()), 0), "no such number of stages: got 0"),
    ],
)
def test_a_model_that_cannot_be_split_is_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        split(*arguments)
