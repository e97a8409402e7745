"""Input pipelines by queues and threads: what goes in comes out, and everything ends."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.memory import State
from minitorch.graph.queues import store

EXECUTORS = ["compiled", "interpreter", "tokens", "parallel"]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait look around so often that one who could help is always slow."""
    monkeypatch.setattr(store, "LOOK_AROUND_S", 0.01)


def _alive(threads: list[threading.Thread]) -> list[str]:
    for thread in threads:
        thread.join(60)
    return [thread.name for thread in threads if thread.is_alive()]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_elements_leave_a_queue_in_the_order_in_which_they_came(executor: str) -> None:
    queue = tf.FIFOQueue(10, [tf.float32, tf.int32], [[2], []])
    x, n = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])
    put = queue.enqueue([x, n])
    a, b = queue.dequeue()
    assert (a.shape, b.shape) == ((2,), ())
    with tf.Session(executor=executor) as session:
        for i in range(3):
            session.run(put, {x: [i, -i], n: i})
        assert session.run(queue.size()) == 3
        for i in range(3):
            row, number = session.run([a, b])
            assert (row.tolist(), int(number)) == ([i, -i], i)


def test_rows_go_in_and_batches_come_out() -> None:
    queue = tf.FIFOQueue(10, tf.int32, [[]])
    put = queue.enqueue_many([tf.range(7)])
    three, rest = queue.dequeue_many(3), queue.dequeue_up_to(5)
    assert (three.shape, rest.shape) == ((3,), (None,))
    with tf.Session() as session:
        session.run(put)
        session.run(queue.close())
        assert session.run(three).tolist() == [0, 1, 2]
        assert session.run(rest).tolist() == [3, 4, 5, 6]
        with pytest.raises(tf.errors.OutOfRangeError, match=r"closed and has 0 elements, not 3"):
            session.run(three)


def test_too_few_elements_stay_where_they_are() -> None:
    queue = tf.FIFOQueue(10, tf.int32, [[]])
    put, three, one = queue.enqueue_many([[1, 2]]), queue.dequeue_many(3), queue.dequeue()
    with tf.Session() as session:
        session.run(put)
        session.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError, match="has 2 elements, not 3"):
            session.run(three)
        assert [session.run(one), session.run(one)] == [1, 2]


def test_more_elements_than_fit_pass_through_while_somebody_takes_them() -> None:
    queue = tf.FIFOQueue(2, tf.int32, [[]])
    put, take = queue.enqueue_many([tf.range(9)]), queue.dequeue_many(9)
    with tf.Session() as session:
        thread = threading.Thread(target=session.run, args=(put,), daemon=True)
        thread.start()
        assert session.run(take).tolist() == list(range(9))
        assert not _alive([thread])


def test_a_shuffling_queue_keeps_some_and_gives_each_once() -> None:
    queue = tf.RandomShuffleQueue(100, 90, tf.int32, [[]], seed=3)
    put, ten = queue.enqueue_many([tf.range(100)]), queue.dequeue_many(10)
    with tf.Session() as session:
        session.run(put)
        first = session.run(ten).tolist()
        session.run(queue.close())
        found = [first, *(session.run(ten).tolist() for _ in range(9))]
    flat = [n for part in found for n in part]
    assert sorted(flat) == list(range(100)) != flat
    with tf.Session() as session:  # the same seed, the same order
        session.run(put)
        assert session.run(ten).tolist() == first


def test_shorter_elements_of_a_padding_queue_get_zeros() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.int32], [[None]])
    row = tf.placeholder(tf.int32, [None])
    put, take = queue.enqueue([row]), queue.dequeue_many(3)
    with tf.Session() as session:
        for values in ([1], [2, 3, 4], [5, 6]):
            session.run(put, {row: values})
        assert session.run(take).tolist() == [[1, 0, 0], [2, 3, 4], [5, 6, 0]]


def test_elements_with_names_are_dicts() -> None:
    queue = tf.FIFOQueue(5, [tf.float32, tf.int32], [[], []], names=["x", "n"])
    put, take = queue.enqueue({"x": 0.5, "n": 2}), queue.dequeue()
    with tf.Session() as session:
        session.run(put)
        assert session.run(take) == {"x": 0.5, "n": 2}
    with pytest.raises(GraphError, match="takes a dict"):
        queue.enqueue({"x": 0.5})


def test_a_queue_keeps_what_it_was_given_though_the_array_changes() -> None:
    queue, x = tf.FIFOQueue(5, tf.float32, [[2]]), tf.placeholder(tf.float32, [2])
    put, take = queue.enqueue(x), queue.dequeue()
    array = np.ones(2, np.float32)
    with tf.Session() as session:
        session.run(put, {x: array})
        array[:] = 7
        assert session.run(take).tolist() == [1, 1]


# ── waiting, and ending ─────────────────────────────────────────────────────────────────────────


def test_whoever_waits_alone_is_told_so() -> None:
    take = tf.FIFOQueue(1, tf.int32, [[]], name="lonely").dequeue()
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError) as caught:
        session.run(take)
    assert "'lonely' is empty, and no other thread is left" in str(caught.value)
    assert "test_tf1_queues.py:" in str(caught.value)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Counts how often a thread that waits has looked around for another that could help."""
    seen, alone = threading.Semaphore(0), State.alone

    def looked(state: State) -> bool:
        found = alone(state)
        seen.release()
        return found

    monkeypatch.setattr(State, "alone", looked)
    return seen


def _some(looks: threading.Semaphore) -> None:
    """Wait until a thread that waits has looked around in vain, several times."""
    for _ in range(5):
        assert looks.acquire(timeout=60)


def test_a_slow_producer_is_waited_for(looks: threading.Semaphore) -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    put, take = queue.enqueue(5), queue.dequeue()

    def fill() -> None:
        _some(looks)
        session.run(put)

    with tf.Session() as session:
        thread = threading.Thread(target=fill, daemon=True)
        thread.start()
        assert session.run(take) == 5
        assert not _alive([thread])


def test_a_slow_consumer_is_waited_for(looks: threading.Semaphore) -> None:
    """The thread that made the session may do something else for as long as it likes."""
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    rows = tf.train.limit_epochs(tf.constant(7), 4)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(rows)]))
    take, coord = queue.dequeue(), tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        threads = tf.train.start_queue_runners(session, coord)
        for _ in range(2):
            _some(looks)  # the queue is full
            assert session.run(take) == 7
        assert [session.run(take) for _ in range(2)] == [7, 7]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(take)
        coord.join(threads)


def test_a_producer_from_before_the_session_is_waited_for_once_it_has_put_something_in(
    looks: threading.Semaphore,
) -> None:
    queue, opened = tf.FIFOQueue(5, tf.int32, [[]]), threading.Event()
    put, take = queue.enqueue(5), queue.dequeue_many(2)

    def fill() -> None:
        opened.wait(60)
        session.run(put)
        began.set()
        _some(looks)
        session.run(put)

    thread, began = threading.Thread(target=fill, daemon=True), threading.Event()
    thread.start()
    with tf.Session() as session:
        opened.set()
        began.wait(60)
        assert session.run(take).tolist() == [5, 5]
        assert not _alive([thread])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_one_of_threads_that_all_wait_is_told_so(executor: str) -> None:
    queue, empty = tf.FIFOQueue(1, tf.int32, [[]]), tf.FIFOQueue(1, tf.int32, [[]], name="empty")
    first, second = queue.dequeue(), empty.dequeue()
    beside = [tf.exp(tf.constant(1.0)) for _ in range(3)]  # of several threads of one run too
    with tf.Session(executor=executor) as session:
        threads = [_ending(lambda: session.run(first)) for _ in range(2)]
        with pytest.raises(tf.errors.DeadlineExceededError, match="'empty' is empty, and no other"):
            session.run([second, *beside])
        session.close()
        assert not _alive(threads)


def _ending(work: Callable[[], Any]) -> threading.Thread:
    """Return a thread, started, that works until it is told that it waits in vain, or has to end.

    Of threads that all wait any may be told first.
    """

    def ends() -> None:
        with pytest.raises(GraphError, match=r"no other thread is left|closed"):
            while True:
                work()

    thread = threading.Thread(target=ends, daemon=True)
    thread.start()
    return thread


def test_whoever_joins_threads_that_wait_does_not_keep_them_waiting() -> None:
    queue, coord = tf.FIFOQueue(1, tf.int32, [[]], name="full"), tf.train.Coordinator()
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    with tf.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        with pytest.raises(tf.errors.DeadlineExceededError, match="'full' is full, and no other"):
            coord.join(threads)


def test_a_wait_has_the_limit_that_the_session_was_given() -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]], name="q")
    put = queue.enqueue(1)
    config = tf.ConfigProto(operation_timeout_in_ms=20)
    with tf.Session(config=config) as session:
        session.run(put)
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"'q' is full.*0\.02 s"):
            session.run(put)


@pytest.mark.parametrize("end", ["cancel", "session"])
def test_a_thread_that_waits_for_room_is_ended(end: str) -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    put, cancel = queue.enqueue_many([[1, 2, 3]]), queue.close(cancel_pending_enqueues=True)
    size, seen, began = queue.size(), [], threading.Event()

    def fill() -> None:
        began.set()
        try:
            session.run(put)
        except GraphError as error:
            seen.append(error)

    session = tf.Session()
    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    began.wait(20)
    while session.run(size) == 0:
        pass
    session.close() if end == "session" else session.run(cancel)
    assert not _alive([thread])
    assert [type(error) for error in seen] == [tf.errors.CancelledError]
    session.close()


def test_a_closed_queue_takes_no_more() -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]], name="q")
    put, closed = queue.enqueue(1), queue.is_closed()
    with tf.Session() as session:
        assert not session.run(closed)
        session.run(queue.close())
        assert session.run(closed)
        with pytest.raises(tf.errors.AbortedError, match="'q' is closed"):
            session.run(put)


def test_the_first_error_of_a_thread_reaches_whoever_joins() -> None:
    coord = tf.train.Coordinator()

    def fails() -> None:
        with coord.stop_on_exception():
            raise ZeroDivisionError("first")

    def waits() -> None:
        coord.wait_for_stop()

    threads = [threading.Thread(target=f, daemon=True) for f in (waits, fails)]
    for thread in threads:
        thread.start()
    with pytest.raises(ZeroDivisionError, match="first"):
        coord.join(threads)
    assert coord.should_stop()


def test_an_end_of_the_input_is_no_error() -> None:
    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError("the end"))
    coord.join([])
    coord.clear_stop()
    assert not coord.should_stop()


def test_a_thread_that_does_not_end_is_named() -> None:
    coord, hold = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=hold.wait, daemon=True, name="stubborn")
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="stubborn"):
        coord.join([thread], stop_grace_period_secs=0.01)
    hold.set()
    assert not _alive([thread])


def test_a_failing_enqueue_stops_all_and_is_raised() -> None:
    queue = tf.FIFOQueue(4, tf.float32, [[2]])
    bad = tf.placeholder_with_default(np.zeros(3, np.float32), None)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(bad)]))
    take, coord = queue.dequeue(), tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(take)
        with pytest.raises(GraphError, match=r"takes shape \(2,\), got \(3,\)"):
            coord.join(threads)


def test_one_runner_closes_its_queue_in_every_session_that_it_fills() -> None:
    queue = tf.FIFOQueue(4, tf.int32, [[]])
    row = tf.train.limit_epochs(tf.constant(7), 1)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(row)]))
    take, begin = queue.dequeue(), tf.local_variables_initializer()
    with tf.Session() as one, tf.Session() as other:
        for session in (one, other):
            session.run(begin)
        threads = [t for s in (one, other) for t in tf.train.start_queue_runners(s)]
        assert len(threads) == 2
        for session in (one, other):
            assert session.run(take) == 7
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(take)
        assert not _alive(threads)


def test_a_runner_that_runs_already_gets_no_further_threads() -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)] * 2))
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session)
        assert len(threads) == 2
        assert tf.train.start_queue_runners(session) == []
    assert not _alive(threads)


def test_a_thread_that_was_never_started_is_not_waited_for() -> None:
    coord = tf.train.Coordinator()
    coord.register_thread(threading.Thread())
    coord.join()
    assert coord.joined


def test_what_one_taker_gives_back_another_one_gets() -> None:
    queue = tf.FIFOQueue(4, tf.int32, [[]])
    put, three, one = queue.enqueue_many([[1, 2]]), queue.dequeue_many(3), queue.dequeue()
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=20)) as session:
        session.run(put)
        with pytest.raises(tf.errors.DeadlineExceededError, match="is empty"):
            session.run(three)
        assert [session.run(one), session.run(one)] == [1, 2]


def test_threads_that_count_together_count_every_number_once() -> None:
    v = tf.Variable(0)
    up, found = tf.count_up_to(v, 400), []
    with tf.Session() as session:
        session.run(v.initializer)

        def count() -> None:
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    found.append(int(session.run(up)))

        threads = [threading.Thread(target=count, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert not _alive(threads)
    assert sorted(found) == list(range(400))


def test_what_several_threads_add_to_a_variable_is_all_there() -> None:
    v = tf.Variable(0)
    up = tf.assign_add(v, 1)
    with tf.Session() as session:
        session.run(v.initializer)

        def add() -> None:
            for _ in range(200):
                session.run(up)

        threads = [threading.Thread(target=add, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert not _alive(threads)
        assert session.run(v) == 800


def test_runs_that_share_planned_memory_take_turns_and_end() -> None:
    """One thread waits for room, the other for the memory, and the last one for both of them."""
    queue, empty = tf.FIFOQueue(1, tf.int32, [[]]), tf.FIFOQueue(1, tf.int32, [[]], name="empty")
    put, take, never = queue.enqueue(1), queue.dequeue(), empty.dequeue()
    with tf.Session(executor="arena") as session:
        threads = [_ending(lambda: session.run(put)) for _ in range(2)]
        assert [session.run(take) for _ in range(5)] == [1] * 5
        with pytest.raises(tf.errors.DeadlineExceededError, match="'empty' is empty, and no other"):
            session.run(never)
        session.close()
        assert not _alive(threads)


# ── whole pipelines ─────────────────────────────────────────────────────────────────────────────


def _all(fetch: Any) -> list[Any]:
    """Return what every run gives until the input ends; all threads must end as well."""
    coord, found = tf.train.Coordinator(), []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        threads = tf.train.start_queue_runners(session, coord)
        try:
            while not coord.should_stop():
                found.append(session.run(fetch))
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
        assert not _alive(threads)
    return found


def test_rows_that_belong_together_stay_together_for_every_epoch() -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    a, b = tf.train.slice_input_producer([x, x[:, 0] * 10], num_epochs=2, seed=1)
    found = _all([a, b])
    assert len(found) == 12
    assert all(row[0] * 10 == label for row, label in found)
    firsts = [row[0] for row, _ in found]
    assert sorted(firsts[:6]) == sorted(firsts[6:]) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("smaller", [False, True])
def test_batches_cover_the_input_once(smaller: bool) -> None:
    x, n = tf.train.slice_input_producer([np.arange(10) * 2, np.arange(10)], 1, shuffle=False)
    batch = tf.train.batch([x, n], 4, allow_smaller_final_batch=smaller)
    found = _all(batch)
    assert [len(part) for part, _ in found] == ([4, 4, 2] if smaller else [4, 4])
    assert np.concatenate([p for p, _ in found]).tolist() == [
        2 * i for i in range(10 if smaller else 8)
    ]


def test_shuffled_batches_of_several_threads_hold_each_example_once() -> None:
    (x,) = tf.train.slice_input_producer([np.arange(60)], num_epochs=1)
    batch = tf.train.shuffle_batch({"x": x}, 10, 40, 20, num_threads=3, seed=5)
    found = np.concatenate([part["x"] for part in _all(batch)])
    assert sorted(found.tolist()) == list(range(60))


def test_rows_in_one_value_become_examples() -> None:
    batch = tf.train.batch(
        tf.train.limit_epochs(tf.constant(np.arange(6)), 1), 3, enqueue_many=True
    )
    assert [part.tolist() for part in _all(batch)] == [[0, 1, 2], [3, 4, 5]]


def test_numbers_are_produced_in_order_when_asked() -> None:
    queue = tf.train.range_input_producer(4, num_epochs=2, shuffle=False)
    assert [int(n) for n in _all(queue.dequeue())] == [0, 1, 2, 3] * 2


def test_a_count_ends_at_its_limit() -> None:
    v = tf.Variable(1)
    up = tf.count_up_to(v, 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(up), session.run(up)] == [1, 2]
        with pytest.raises(tf.errors.OutOfRangeError, match="limit of 3"):
            session.run(up)


def test_a_regression_is_trained_from_a_shuffled_queue() -> None:
    rng = np.random.RandomState(0)
    inputs = rng.randn(200, 3).astype(np.float32)
    weights = np.array([1.5, -2.0, 0.5], np.float32)
    x, y = tf.train.slice_input_producer([inputs, inputs @ weights + 0.25], num_epochs=40)
    xs, ys = tf.train.shuffle_batch([x, y], 20, 100, 40, num_threads=2)
    assert xs.shape == (20, 3)
    w, b = tf.Variable(tf.zeros([3])), tf.Variable(0.0)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(xs * w, 1) + b - ys))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        threads = tf.train.start_queue_runners(sess=session, coord=coord)
        steps = 0
        try:
            while not coord.should_stop():
                session.run(step)
                steps += 1
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coord.request_stop()
        coord.join(threads)
        found = session.run([w, b])
    assert steps == 400
    np.testing.assert_allclose(found[0], weights, atol=1e-3)
    assert found[1] == pytest.approx(0.25, abs=1e-3)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: tf.RandomShuffleQueue(5, 5, tf.int32), "min_after_dequeue 5"),
        (lambda: tf.FIFOQueue(5, [tf.int32], [[], []]), "2 shapes for 1"),
        (lambda: tf.FIFOQueue(5, tf.int32).dequeue_many(2), "shapes of queue"),
        (lambda: tf.FIFOQueue(5, [tf.int32, tf.int32]).enqueue([1]), "2 components, got 1"),
        (lambda: tf.FIFOQueue(5, tf.int32, [[2]]).enqueue(tf.zeros([3], tf.int32)), "takes int32"),
        (lambda: tf.FIFOQueue(5, tf.int32, [[]]).enqueue(tf.zeros([])), "takes int32"),
        (lambda: tf.train.QueueRunner(tf.FIFOQueue(5, tf.int32), []), "no enqueue_ops"),
        (lambda: tf.train.limit_epochs(tf.zeros([2]), 0), "num_epochs 0"),
        (lambda: tf.train.slice_input_producer([]), "no values"),
    ],
)
def test_what_is_no_queue_is_refused(build: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        build()
