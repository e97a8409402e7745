"""`profile`: every node of a run is timed, and the trace is one that Chrome and Perfetto read."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph import profile
from minitorch.graph.costs.profile import Span, Timeline

pytestmark = pytest.mark.as_built


def ticking(step_ns: int = 1000) -> Any:
    """Return a clock that advances by the same at each look."""
    return itertools.count(0, step_ns).__next__


def net() -> tuple[Any, Any, Any]:
    x = tf.placeholder("float32", (4, 3), name="x")
    w = tf.Variable(np.ones((3, 2), np.float32), name="w")
    loss = tf.reduce_sum(tf.exp(tf.matmul(x, w)))
    return x, w, loss


@pytest.mark.parametrize("optimize", [False, True])
def test_the_values_are_those_of_a_plain_run(optimize: bool) -> None:
    x, w, loss = net()
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    feed = {x: np.ones((4, 3), np.float32)}
    plain, timed = tf.Session(optimize=optimize), tf.Session(optimize=optimize)
    for session in (plain, timed):
        session.run(tf.initialize_all_variables())
    want = plain.run({"loss": loss, "step": step}, feed)
    got, _ = profile(timed, {"loss": loss, "step": step}, feed)
    assert got == want
    np.testing.assert_array_equal(timed.run(w), plain.run(w))


def test_every_node_that_runs_has_a_span_with_what_it_gave() -> None:
    x, _, loss = net()
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        _, timeline = profile(session, loss, {x: np.ones((4, 3), np.float32)}, clock=ticking())
    assert [span.op for span in timeline.spans] == ["", "matmul", "exp", "Sum"]
    product = timeline.spans[1]
    assert (product.shape, product.n_bytes) == ((4, 2), 32)
    assert product.where.startswith(__file__)
    # the clock is looked at before the run and after each node
    assert [(s.start_ns, s.end_ns) for s in timeline.spans] == [
        (0, 1000), (1000, 2000), (2000, 3000), (3000, 4000),
    ]  # fmt: skip
    # the product is needed by exp, and gone when the sum is there
    assert [span.live_bytes for span in timeline.spans] == [0, 32, 64, 36]
    assert (timeline.total_ns, timeline.peak_bytes) == (4000, 64)


def test_the_trace_has_what_the_format_asks_for(tmp_path: Path) -> None:
    x, _, loss = net()
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        _, timeline = profile(session, loss, {x: np.ones((4, 3), np.float32)}, clock=ticking())
    trace = json.loads(timeline.save(tmp_path / "run.json").read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["dur"] for event in spans] == [1.0] * 4  # microseconds
    for event in trace["traceEvents"]:
        assert event["ph"] in "XCM"
        assert {"name", "ph", "pid"} <= event.keys()
        assert event["ph"] == "M" or event["ts"] >= 0
    counters = [event["args"]["bytes"] for event in trace["traceEvents"] if event["ph"] == "C"]
    assert counters == [0, 32, 64, 36]


def test_the_table_names_the_costliest_first_and_sums_the_rest() -> None:
    spans = [Span("a", "exp", 0, 10), Span("b", "MatMul", 10, 100), Span("c", "exp", 100, 110)]
    timeline = Timeline(tuple(spans))
    assert timeline.by_op() == [("MatMul", 1, 90), ("exp", 2, 20)]
    lines = timeline.table(limit=1).splitlines()
    assert lines[1].split() == ["MatMul", "1", "0.1", "81.8%"]
    assert lines[2].split()[:3] == ["the", "rest", "2"]


def test_of_several_runs_the_median_one_is_kept() -> None:
    times = iter([0, 50, 100, 110, 200, 230])  # three runs of one node: 50, 10 and 30
    node = tf.exp(tf.placeholder_with_default(1.0, ()))
    x = node.inputs[0]
    with tf.Session() as session:
        _, timeline = profile(session, node, {x: 1.0}, runs=3, clock=times.__next__)
    assert timeline.total_ns == 30


def test_shapes_known_only_at_the_run_and_mistakes() -> None:
    a = tf.Variable("a")
    with tf.Session() as session:
        value, timeline = profile(session, a * 2.0 + 1.0, {a: np.ones(3, np.float32)})
        assert value.tolist() == [3, 3, 3]
        assert {"mul", "add"} <= {span.op for span in timeline.spans}
        with pytest.raises(GraphError, match="got 0 runs"):
            profile(session, a, {a: np.ones(3, np.float32)}, runs=0)
        with pytest.raises(GraphError, match="was not fed"):
            profile(session, tf.placeholder("float32", (2,)) * 2.0)
    with pytest.raises(GraphError, match="closed"):
        profile(session, a, {a: 1.0})
