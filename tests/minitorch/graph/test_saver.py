"""Variables saved to a file and restored: the same training goes on; misfits are named."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import minitorch as mt
import minitorch.graph as tf
from ddp_lab import launch
from minitorch.errors import GraphError
from minitorch.serialize import DamagedFile


@pytest.fixture(autouse=True)
def _fresh_graph() -> Iterator[None]:
    tf.reset_default_graph()
    yield
    tf.reset_default_graph()


def model() -> Any:
    x = tf.placeholder(tf.float32, (None, 3))
    w = tf.Variable(np.ones((3, 2), np.float32), name="w")
    with tf.name_scope("layer"):
        b = tf.Variable(tf.zeros((2,)), name="b")
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - 1.0))
    return tf.train.AdamOptimizer(0.1).minimize(loss), {x: np.arange(6.0).reshape(2, 3)}


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    step, feed = model()
    saver, variables = tf.train.Saver(), tf.global_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step, feed)
        path = saver.save(session, tmp_path / "model")
        for _ in range(2):
            session.run(step, feed)
        want = session.run(variables)
    with tf.Session() as again:
        saver.restore(again, path)
        for _ in range(2):
            again.run(step, feed)
        for got, expected in zip(again.run(variables), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_the_file_is_one_that_others_read(tmp_path: Path) -> None:
    model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, tmp_path / "model")
    arrays = load_file(path)
    assert {"w", "layer/b", "w/Adam_m", "w/beta1_power"} <= arrays.keys()
    assert arrays["w"].dtype == np.float32
    np.testing.assert_array_equal(mt.load(path)["w"], arrays["w"])


def test_names_take_the_step_and_the_latest_is_found(tmp_path: Path) -> None:
    step = tf.Variable(7, trainable=False, name="step")
    saver = tf.train.Saver([step])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, tmp_path / "m", global_step=k) for k in (1, 2, step)]
    assert [Path(p).name for p in paths] == [f"m-{k}.safetensors" for k in (1, 2, 7)]
    assert all(Path(p).exists() for p in paths)
    assert tf.train.latest_checkpoint(tmp_path) == paths[2]
    assert tf.train.latest_checkpoint(tmp_path / "nowhere") is None


def test_some_variables_under_other_names(tmp_path: Path) -> None:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver({"old": a}).save(session, tmp_path / "m")
        tf.train.Saver({"old": b}).restore(session, path)
        assert session.run([a, b]) == [1.0, 1.0]


def test_missing_and_misshapen_variables_are_all_named_and_nothing_is_restored(
    tmp_path: Path,
) -> None:
    w = tf.Variable(np.ones((2, 3), np.float32), name="w")
    v = tf.Variable(np.ones(2, np.float32), name="v")
    kept = tf.Variable(5.0, name="kept")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver([w, v, kept]).save(session, tmp_path / "m")
    tf.reset_default_graph()
    # a graph has the variables that somebody holds
    others = [tf.Variable(np.zeros((3, 2), np.float32), name="w")]
    others += [tf.Variable(np.zeros(2, np.int64), name="v"), tf.Variable(0.0, name="new")]
    kept = tf.Variable(0.0, name="kept")
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(GraphError) as caught:
            saver.restore(session, path)
        assert session.run(kept) == 0.0
    message = str(caught.value)
    assert "'w' has shape (2, 3), expected (3, 2)" in message
    assert "'v' has dtype float32, expected int64" in message
    assert "'new' is missing" in message
    assert message.count("test_saver.py:") == 3


def test_files_that_are_not_there_or_damaged_are_said_to_be(tmp_path: Path) -> None:
    w = tf.Variable(1.0)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(FileNotFoundError, match="nothing"):
            saver.restore(session, tmp_path / "nothing")
        path = Path(saver.save(session, tmp_path / "m"))
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(DamagedFile):
            saver.restore(session, path)
        assert session.run(w) == 1.0


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="no variable to save"):
        tf.train.Saver()
    saver = tf.train.Saver([tf.Variable(1.0, name="a")])
    with tf.Session() as session, pytest.raises(GraphError, match="'a' has no value yet"):
        saver.save(session, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_ranks_save_one_file_and_each_restores_it(tmp_path: Path) -> None:
    def rank(comm: Any) -> list[float]:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            with tf.device("cpu:0"):
                a = tf.Variable(1.0, name="a")
            with tf.device("cpu:1"):
                b = tf.Variable(2.0, name="b")
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            session.run([tf.assign(a, 10.0), tf.assign(b, 20.0)])
            path = saver.save(session, tmp_path / "m")
            session.run(tf.global_variables_initializer())
            comm.barrier()
            saver.restore(session, path)
            return [float(v) for v in session.run([a, b])]

    assert list(launch(rank, 2, transport="threads", timeout_s=200)) == [[10.0, 20.0]] * 2


def test_a_path_that_is_none_is_refused(tmp_path: Path) -> None:
    saver = tf.train.Saver([tf.Variable(1.0)])
    with tf.Session() as session, pytest.raises(GraphError, match="got None for a path"):
        saver.restore(session, tf.train.latest_checkpoint(tmp_path))  # type: ignore[arg-type]
