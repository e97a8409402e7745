"""Datasets and their iterators: elements in order, in batches, shuffled, computed, to the end."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError

Dataset = tf.data.Dataset


def _all(dataset: Any, most: int = 1000) -> list[Any]:
    value = dataset.make_one_shot_iterator().get_next()
    found: list[Any] = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        try:
            while len(found) < most:
                got = session.run(value)
                found.append(got.tolist() if hasattr(got, "tolist") else got)
        except tf.errors.OutOfRangeError:
            pass
    return found


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda: Dataset.range(4), [0, 1, 2, 3]),
        (lambda: Dataset.range(2, 8, 3), [2, 5]),
        (lambda: Dataset.from_tensors([1, 2]), [[1, 2]]),
        (lambda: Dataset.from_tensor_slices([1, 2, 3]), [1, 2, 3]),
        (lambda: Dataset.range(3).repeat(2), [0, 1, 2, 0, 1, 2]),
        (lambda: Dataset.range(9).take(2), [0, 1]),
        (lambda: Dataset.range(4).skip(3), [3]),
        (lambda: Dataset.range(9).shard(3, 1), [1, 4, 7]),
        (lambda: Dataset.range(5).batch(2), [[0, 1], [2, 3], [4]]),
        (lambda: Dataset.range(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
        (lambda: Dataset.range(3).repeat().batch(2).take(2), [[0, 1], [2, 0]]),
        (lambda: Dataset.range(4).map(lambda x: x * x), [0, 1, 4, 9]),
        (lambda: Dataset.range(6).filter(lambda x: tf.equal(x % 2, 0)), [0, 2, 4]),
        (lambda: Dataset.range(2).concatenate(Dataset.range(1)), [0, 1, 0]),
        (lambda: Dataset.range(3).map(lambda x: x + 1).cache().repeat(2), [1, 2, 3] * 2),
        (lambda: Dataset.range(3).prefetch(1).apply(lambda d: d.skip(1)), [1, 2]),
        (lambda: Dataset.range(0).repeat(), []),
        (
            lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(
                Dataset.from_tensor_slices
            ),
            [1, 2, 3, 4],
        ),
        (
            lambda: Dataset.range(1, 4).map(lambda n: tf.fill([n], n)).padded_batch(3, [None]),
            [[[1, 0, 0], [2, 2, 0], [3, 3, 3]]],
        ),
        (
            lambda: Dataset.range(1, 3).map(lambda n: tf.fill([n], n)).padded_batch(2, [3], -1),
            [[[1, -1, -1], [2, 2, -1]]],
        ),
    ],
)
def test_a_dataset_has_the_elements_of_its_recipe(build: Any, want: Any) -> None:
    assert _all(build()) == want


def test_shuffling_gives_each_element_once_and_another_order_each_time() -> None:
    found = np.array(_all(Dataset.range(50).shuffle(50, seed=4).batch(50).repeat(1)))
    assert sorted(found[0]) == list(range(50)) != found[0].tolist()
    rounds = np.array(_all(Dataset.range(50).shuffle(50, seed=4).repeat(2))).reshape(2, 50)
    assert sorted(rounds[0]) == sorted(rounds[1]) == list(range(50))
    assert rounds[0].tolist() != rounds[1].tolist()
    fixed = Dataset.range(50).shuffle(50, reshuffle_each_iteration=False).repeat(2)
    rounds = np.array(_all(fixed)).reshape(2, 50)
    assert rounds[0].tolist() == rounds[1].tolist() != list(range(50))


def test_a_small_buffer_lets_no_element_move_far_forward() -> None:
    found = _all(Dataset.range(40).shuffle(3, seed=1))
    assert sorted(found) == list(range(40))
    assert all(at >= number - 2 for at, number in enumerate(found))


def test_elements_keep_their_structure() -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3)
    dataset = Dataset.from_tensor_slices(({"x": x}, y)).map(lambda f, n: ({"x": f["x"] * 2}, n))
    assert dataset.output_types == ({"x": tf.float64}, tf.int64)
    assert dataset.output_shapes == ({"x": (2,)}, ())
    features, label = dataset.batch(2).make_one_shot_iterator().get_next()
    assert features["x"].shape == (None, 2)
    with tf.Session() as session:
        first, numbers = session.run([features, label])
    assert first["x"].tolist() == [[0, 2], [4, 6]]
    assert numbers.tolist() == [0, 1]


def test_datasets_side_by_side_end_with_the_shortest() -> None:
    both = Dataset.zip((Dataset.range(3), Dataset.range(5).map(lambda x: x * 10)))
    assert _all(both) == [(0, 0), (1, 10), (2, 20)]


def test_a_generator_of_python_gives_elements() -> None:
    def numbers() -> Iterator[Any]:
        yield 1, [1.0, 2.0]
        yield 2, [3.0, 4.0]

    dataset = Dataset.from_generator(numbers, (tf.int32, tf.float32), ((), (2,)))
    assert [(int(n), v.tolist()) for n, v in _all(dataset)] == [(1, [1, 2]), (2, [3, 4])]
    wrong = Dataset.from_generator(numbers, (tf.int32, tf.float32), ((), (3,)))
    with pytest.raises(GraphError, match=r"shape \(2,\), expected \(3,\)"):
        _all(wrong)


def test_what_a_map_builds_sees_variables_and_draws_anew() -> None:
    v = tf.Variable(np.int64(5))
    assert _all(Dataset.range(2).map(lambda x: x + v)) == [5, 6]
    drawn = _all(Dataset.range(9).map(lambda x: tf.random_uniform([])))
    assert len(set(map(float, drawn))) == 9


def test_an_initializer_begins_anew_with_what_is_fed() -> None:
    data = tf.placeholder(tf.float32, [None])
    iterator = Dataset.from_tensor_slices(data).make_initializable_iterator()
    value = iterator.get_next()
    with tf.Session() as session:
        with pytest.raises(GraphError, match="has not begun"):
            session.run(value)
        for numbers in ([1.0, 2.0], [3.0]):
            session.run(iterator.initializer, {data: numbers})
            assert [session.run(value) for _ in numbers] == numbers
            with pytest.raises(tf.errors.OutOfRangeError, match="at its end"):
                session.run(value)
    with tf.Session() as other, pytest.raises(GraphError, match="has not begun"):
        other.run(value)


def test_an_iterator_that_waits_for_a_queue_keeps_nobody_from_filling_it() -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    put = queue.enqueue(5)
    following = tf.data.Dataset.from_tensors(queue.dequeue()).make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session:
        thread = threading.Thread(target=lambda: found.append(session.run(following)), daemon=True)
        thread.start()
        session.run(put)
        thread.join(20)
        assert not thread.is_alive()
    assert found == [5]


def test_one_iterator_goes_through_training_and_then_validation() -> None:
    train, valid = Dataset.range(2), Dataset.range(10, 13)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    value = iterator.get_next()
    starts = [iterator.make_initializer(d) for d in (train, valid)]
    found = []
    with tf.Session() as session:
        for start in starts:
            session.run(start)
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    found.append(int(session.run(value)))
    assert found == [0, 1, 10, 11, 12]
    with pytest.raises(GraphError, match="got elements of"):
        iterator.make_initializer(Dataset.from_tensors(1.0))


def test_a_classifier_is_trained_from_a_dataset() -> None:
    rng = np.random.RandomState(0)
    x = rng.randn(120, 4).astype(np.float32)
    y = (x[:, 0] - 2 * x[:, 1] > 0).astype(np.int32)
    dataset = Dataset.from_tensor_slices((x, y)).shuffle(120, seed=0).repeat(30).batch(20)
    features, labels = dataset.make_one_shot_iterator().get_next()
    logits = tf.layers.dense(features, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.train.AdamOptimizer(0.05).minimize(loss)
    steps = 0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        try:
            while True:
                last, _ = session.run([loss, step])
                steps += 1
        except tf.errors.OutOfRangeError:
            pass
    assert steps == 180
    assert last < 0.1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Dataset.from_tensor_slices((np.ones(2), np.ones(3))), "equally many rows"),
        (lambda: Dataset.from_tensor_slices(1.0), "equally many rows"),
        (lambda: Dataset.range(3).batch(0), "size of 0"),
        (lambda: Dataset.range(3).filter(lambda x: x), "no boolean"),
        (lambda: Dataset.range(3).make_one_shot_iterator().initializer, "no initializer"),
        (lambda: Dataset.range(3).cache("file"), "files are not supported"),
        (lambda: _all(Dataset.range(1, 3).map(lambda n: tf.fill([n], n)).batch(2)), "padded_batch"),
    ],
)
def test_what_is_no_dataset_is_refused(build: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        build()


def test_records_in_files_are_read_in_python() -> None:
    with pytest.raises(AttributeError, match="Read files in Python"):
        tf.data.TFRecordDataset  # noqa: B018
