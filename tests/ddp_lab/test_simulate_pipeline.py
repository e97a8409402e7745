"""Predicted pipelines hold against torch's own schedules and the closed forms of the papers."""

import itertools

import pytest

from ddp_lab import parallel, simulate

SHAPES = [(1, 1), (1, 5), (2, 1), (4, 2), (4, 4), (4, 8), (8, 32), (5, 3)]


class RecordingStage:
    """A stage of torch's that has nothing to send and keeps what it is told to do."""

    def __init__(self, stage: int) -> None:
        self.stage_index = stage
        self.actions: list[str] = []

    def forward_one_chunk(self, microbatch: int, *args, **kwargs) -> None:
        self.actions.append(f"{self.stage_index}F{microbatch}")

    def backward_one_chunk(self, microbatch: int, **kwargs) -> None:
        self.actions.append(f"{self.stage_index}B{microbatch}")

    def no_messages(self, *args) -> list:
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = no_messages

    def perform_reduce_grad(self, factor: int) -> None:
        pass


def torchs_order(schedule: str, stages: int, microbatches: int) -> list[list[str]]:
    """Return what torch's schedule does when it runs, stage by stage.

    Its written order, `_get_pipeline_order`, is not it: for 1F1B in torch 2.13 that counts wrong.
    """
    from torch.distributed.pipelining import schedules

    base = {"gpipe": schedules.ScheduleGPipe, "1f1b": schedules.Schedule1F1B}[schedule]
    batch = [()] * microbatches

    class Alone(base):
        def __init__(self, stage: RecordingStage) -> None:
            self._stage, self._num_stages, self._n_microbatches = stage, stages, microbatches
            self.scale_grads = False

        def _check_inputs(self, *args):
            return batch, [{}] * microbatches

        def nothing(self, *args) -> None:
            pass

        _initialize_stage = _maybe_compute_loss = _maybe_get_loss = _update_losses = nothing

    recorded = [RecordingStage(stage) for stage in range(stages)]
    for stage in recorded:
        Alone(stage)._step_microbatches(batch)
    return [stage.actions for stage in recorded]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_actions_are_those_of_torch(schedule: str, stages: int, microbatches: int) -> None:
    step = simulate.pipeline(schedule, stages, microbatches)
    assert step.actions == torchs_order(schedule, stages, microbatches)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_the_bubble_is_that_of_the_papers(schedule: str, stages: int, microbatches: int) -> None:
    for forward, backward, overhead in ((1.0, 2.0, 0.0), (3.0, 1.0, 0.0), (1.0, 2.0, 0.25)):
        step = simulate.pipeline(schedule, stages, microbatches, forward, backward, overhead)
        slots = microbatches + stages - 1
        assert step.bubble_fraction == pytest.approx((stages - 1) / slots, rel=1e-9, abs=1e-12)
        assert step.makespan == pytest.approx(slots * (forward + backward + 2 * overhead))


@pytest.mark.parametrize(("stages", "microbatches"), SHAPES)
def test_activations_held_are_all_with_gpipe_and_at_most_a_stage_each_with_1f1b(
    stages: int, microbatches: int
) -> None:
    assert simulate.pipeline("gpipe", stages, microbatches).peak_activations == (
        [microbatches] * stages
    )
    assert simulate.pipeline("1f1b", stages, microbatches).peak_activations == [
        min(microbatches, stages - stage) for stage in range(stages)
    ]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_nothing_begins_before_what_it_needs_and_no_stage_does_two_things(schedule: str) -> None:
    step = simulate.pipeline(schedule, 3, 5, forward=[1.0, 3.0, 2.0], backward=[2.0, 1.0, 5.0])
    ended = {span.action: span.ended_at for stage in step.spans for span in stage}
    for stage, spans in enumerate(step.spans):
        for before, after in itertools.pairwise(spans):
            assert after.began_at >= before.ended_at
        for span in spans:
            kind, m = span.action[1], span.action[2:]
            needed = f"{stage - 1}F{m}" if kind == "F" else f"{stage + 1}B{m}"
            assert span.began_at >= ended.get(needed, 0.0)
            if kind == "B":
                assert span.began_at >= ended[f"{stage}F{m}"]


def test_the_slowest_stage_sets_the_pace() -> None:
    step = simulate.pipeline("gpipe", 3, 100, forward=[1.0, 4.0, 1.0], backward=[1.0, 4.0, 1.0])
    assert step.makespan == 100 * 8 + 4  # and one forward before it, one backward after, and back
    assert step.bubble_fraction > 0.4


def test_a_table_is_run_as_it_stands_and_a_name_is_its_table() -> None:
    table = [["0F0", "0F1", "0B1", "0B0"], ["1F0", "1F1", "1B1", "1B0"]]
    assert simulate.pipeline(table, 2, 2).actions == table
    for name in ("gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"):
        assert simulate.pipeline(name, 3, 6).actions == parallel.schedule(name, 3, 6)


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (2, 8), (4, 4), (4, 16), (8, 8)])
def test_the_bubble_of_interleaved_chunks_is_that_of_the_paper(
    stages: int, microbatches: int, chunks: int
) -> None:
    """Narayanan et al., SC 2021, section 2.2: (p - 1) / v of a micro-batch's time."""
    step = simulate.pipeline(
        "interleaved_1f1b", stages, microbatches, 1 / chunks, 2 / chunks, chunks=chunks
    )
    assert step.makespan == pytest.approx(3 * (microbatches + (stages - 1) / chunks))


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (4, 8), (4, 16), (8, 32)])
def test_zero_bubble_idles_for_a_third_of_what_1f1b_does(stages: int, microbatches: int) -> None:
    """Qi et al., ICLR 2024, table 2: ZB-H1 idles (p - 1)(F + I - W), 1F1B (p - 1)(F + B)."""
    step = simulate.pipeline("zero_bubble", stages, microbatches, 1.0, 2.0)
    assert step.makespan == pytest.approx(3 * microbatches + (stages - 1))
    assert max(step.peak_activations) == min(stages, microbatches)


def test_a_weights_half_of_a_backward_keeps_the_activations() -> None:
    table = [["0F0", "0I0", "0F1", "0W0", "0I1", "0W1"]]
    assert simulate.pipeline(table, 1, 2).peak_activations == [2]
    assert simulate.pipeline(table, 1, 2, 1.0, 3.0, 0.5).makespan == 2 * 1.5 + 4 * 2.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("gpip", 2, 2), "unknown schedule: got 'gpip', expected one of 1f1b, gpipe,"),
        (("gpipe", 0, 2), "no such number of stages: got 0"),
        (("1f1b", 2, 2.5), "no such number of microbatches: got 2.5"),
        (("1f1b", 2, 2, -1.0), "no such time: got forward=-1.0"),
        (("1f1b", 2, 2, float("nan")), "no such time: got forward=nan"),
        (("1f1b", 2, 2, [1.0]), "one forward time a stage: got 1, expected 2"),
        (("1f1b", 2, 2, 1.0, 2.0, -0.5), "no such time: got overhead=-0.5"),
        (([["0F0", "0B0"]], 2, 1), "one list a rank: got 1 lists, expected 2"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        simulate.pipeline(*arguments)
