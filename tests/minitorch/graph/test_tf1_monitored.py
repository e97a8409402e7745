"""Sessions that look after themselves: hooks, checkpoints, queues, an orderly end."""

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


def _descent(rate: float = 0.25) -> tuple[Any, Any, Any]:
    """Return a variable that halves its distance to 3 at each step, the loss and the step."""
    v = tf.Variable(0.0, name="v")
    loss = tf.square(v - 3.0, name="loss")
    step = tf.train.GradientDescentOptimizer(rate).minimize(
        loss, global_step=tf.train.get_or_create_global_step()
    )
    return v, loss, step


class _Told(tf.train.SessionRunHook):
    """Writes down what it is told."""

    def __init__(self, fetch: Any = None) -> None:
        self.fetch, self.heard, self.values = fetch, [], []

    def begin(self) -> None:
        self.heard.append("begin")
        self.built = tf.constant(1.0)  # the graph is still open

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.heard.append("created")

    def before_run(self, run_context: Any) -> Any:
        self.heard.append("before")
        return None if self.fetch is None else tf.train.SessionRunArgs(self.fetch)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.heard.append("after")
        self.values.append(run_values.results)

    def end(self, session: Any) -> None:
        self.heard.append("end")


def test_training_stops_at_its_last_step_and_hooks_hear_everything() -> None:
    v, loss, step = _descent()
    told = _Told({"loss": loss})
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=3), told]) as session:
        while not session.should_stop():
            session.run(step)
        assert session.run(v) == pytest.approx(3 * (1 - 0.5**3))
    assert told.heard == ["begin", "created", *["before", "after"] * 4, "end"]
    assert [found["loss"] for found in told.values] == pytest.approx([9 / 4**i for i in range(4)])


def test_the_graph_is_closed_and_so_is_the_session_in_the_end() -> None:
    v, _, _ = _descent()
    session = tf.train.MonitoredTrainingSession()
    assert session.graph.finalized
    with pytest.raises(GraphError, match="finalized"):
        tf.constant(1.0)
    session.close()
    assert session.should_stop()
    with pytest.raises(GraphError, match="closed"):
        session.run(v)


def test_training_goes_on_from_where_its_checkpoint_was(tmp_path: Path) -> None:
    found = []
    for last in (2, 5):
        tf.reset_default_graph()
        v, _, step = _descent()
        hooks = [tf.train.StopAtStepHook(last_step=last)]
        steps = 0
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=tmp_path, hooks=hooks, save_checkpoint_steps=2
        ) as session:
            while not session.should_stop():
                session.run(step)
                steps += 1
            found.append((steps, float(session.run(v))))
    assert found == [(2, pytest.approx(3 * (1 - 0.5**2))), (3, pytest.approx(3 * (1 - 0.5**5)))]
    names = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert names == [f"model.ckpt-{i}.safetensors" for i in (0, 2, 4, 5)]


def test_so_many_steps_are_counted_from_the_beginning_of_a_session() -> None:
    _, _, step = _descent()
    for _ in range(2):
        hook, steps = tf.train.StopAtStepHook(num_steps=4), 0
        with tf.train.SingularMonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(step)
                steps += 1
        assert steps == 4


def test_a_loss_that_is_not_a_number_ends_training() -> None:
    v = tf.Variable(-1.0)
    loss = tf.log(v, name="loss")
    for fails in (True, False):
        hook = tf.train.NanTensorHook(loss, fail_on_nan_loss=fails)
        if fails:
            with (
                pytest.raises(tf.train.NanLossDuringTrainingError, match="'loss' is NaN"),
                tf.train.MonitoredSession(hooks=[hook]) as session,
            ):
                session.run(v)
            continue
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            session.run(v)
            assert session.should_stop()


def test_values_are_logged_every_so_many_runs(caplog: pytest.LogCaptureFixture) -> None:
    _, loss, step = _descent()
    caplog.set_level(logging.INFO, "minitorch.graph")
    hook = tf.train.LoggingTensorHook({"the loss": loss}, every_n_iter=2)
    with tf.train.MonitoredSession(hooks=[hook, tf.train.StopAtStepHook(last_step=5)]) as session:
        while not session.should_stop():
            session.run(step)
    assert [r.getMessage() for r in caplog.records] == [f"the loss = {9 / 16**i}" for i in range(3)]


def test_summaries_are_written_beside_the_checkpoints(tmp_path: Path) -> None:
    _, loss, step = _descent()
    tf.summary.scalar("error", loss)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=tmp_path, save_summaries_steps=1, hooks=[tf.train.StopAtStepHook(3)]
    ) as session:
        while not session.should_stop():
            session.run(step)
    lines = (tmp_path / "summaries.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert '"error": 9.0' in lines[0]


def test_a_hook_that_saves_summaries_may_serve_a_second_session(tmp_path: Path) -> None:
    _, loss, step = _descent()
    summary = tf.summary.scalar("error", loss)
    hook = tf.train.SummarySaverHook(save_steps=1, output_dir=tmp_path, summary_op=summary)
    scaffold = tf.train.Scaffold()
    for _ in range(2):
        creator = tf.train.ChiefSessionCreator(scaffold)
        with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
            session.run(step)
    assert len((tmp_path / "summaries.jsonl").read_text().splitlines()) == 2


def test_a_hook_that_fails_at_the_beginning_leaves_no_session_open() -> None:
    class Failing(_Told):
        def after_create_session(self, session: Any, coord: Any) -> None:
            self.session, self.coord = session, coord
            raise ZeroDivisionError

    hook = Failing()
    tf.Variable(1.0)
    with pytest.raises(ZeroDivisionError):
        tf.train.MonitoredSession(hooks=[hook])
    assert hook.session.closed
    assert hook.coord.joined


def test_a_pipeline_is_started_and_its_end_ends_the_block() -> None:
    x, y = tf.train.slice_input_producer([np.arange(8.0), 2 * np.arange(8.0)], 5, seed=0)
    xs, ys = tf.train.batch([x, y], 4)
    w = tf.Variable(np.float64(0.0))
    loss = tf.reduce_mean(tf.square(xs * w - ys))
    step = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    final = tf.train.FinalOpsHook(w.read_value())
    before = set(threading.enumerate())
    steps = 0
    with tf.train.MonitoredSession(hooks=[final]) as session:
        while not session.should_stop():
            session.run(step)
            steps += 1
    assert steps == 10
    assert final.final_ops_values == pytest.approx(2.0, abs=0.01)
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive()


def test_what_a_hook_feeds_reaches_every_run() -> None:
    x = tf.placeholder(tf.float32, [])
    numbers = iter([1.0, 2.0])
    hook = tf.train.FeedFnHook(lambda: {x: next(numbers)})
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert [session.run(x) for _ in range(2)] == [1, 2]


def test_an_error_in_the_block_is_raised_and_hooks_do_not_end() -> None:
    told = _Told()
    with pytest.raises(ZeroDivisionError), tf.train.MonitoredSession(hooks=[told]):
        raise ZeroDivisionError
    assert "end" not in told.heard


def test_a_step_function_may_run_by_itself_and_stop() -> None:
    v, _, step = _descent()
    told = _Told()
    with tf.train.MonitoredSession(hooks=[told]) as session:

        def one(context: Any) -> Any:
            context.session.run(step)
            return context.run_with_hooks(v)

        assert session.run_step_fn(one) == 1.5
        session.run_step_fn(lambda context: context.request_stop())
        raise AssertionError("the block was to end")
    assert told.heard.count("before") == 1
    assert told.heard[-1] == "end"


def test_variables_that_nothing_sets_are_named() -> None:
    first, _second = tf.Variable(1.0, name="set"), tf.Variable(1.0, name="forgotten")
    scaffold = tf.train.Scaffold(init_op=first.initializer)
    with pytest.raises(GraphError, match="got forgotten not set"):
        tf.train.SingularMonitoredSession(scaffold=scaffold)


def test_an_initial_function_of_a_scaffold_loads_what_it_likes() -> None:
    v = tf.Variable(1.0)
    scaffold = tf.train.Scaffold(init_fn=lambda _, session: v.load(7.0, session))
    with tf.train.SingularMonitoredSession(scaffold=scaffold) as session:
        assert session.run(v) == 7


def test_a_supervisor_trains_saves_and_goes_on(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        tf.reset_default_graph()
        v, _, step = _descent()
        supervisor = tf.train.Supervisor(logdir=tmp_path, save_model_secs=0)
        with supervisor.managed_session() as session:
            for _ in range(2):
                if not supervisor.should_stop():
                    session.run(step)
            found.append(float(session.run(v)))
    assert found == [pytest.approx(3 * (1 - 0.5**2)), pytest.approx(3 * (1 - 0.5**4))]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: tf.train.StopAtStepHook(), "one of them"),
        (lambda: tf.train.StopAtStepHook(1, 2), "one of them"),
        (lambda: tf.train.LoggingTensorHook([], every_n_iter=0), "every_n_iter 0"),
        (lambda: tf.train.SecondOrStepTimer(1.0, 1), "one of them"),
        (lambda: tf.train.MonitoredSession(hooks=[print]), "expected a SessionRunHook"),
        (lambda: tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(2)]), "counts no steps"),
        (lambda: tf.train.MonitoredTrainingSession(is_chief=False), "one worker"),
        (lambda: tf.train.SummarySaverHook(1), "summary_op"),
    ],
)
def test_what_is_no_hook_is_refused(build: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        build()
