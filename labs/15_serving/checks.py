"""Checks of lab 15: everything is counted, or runs on a virtual clock."""

from fractions import Fraction

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close, to_number
from autograder.errors import StudentError

WITHHELD = (
    *("minitorch.serve.batching:AIMD", "minitorch.serve.cache:Cache"),
    *("minitorch.serve.selection:Policy", "minitorch.serve.selection:vote"),
    "minitorch.serve.simulation:simulate",
)
LAB = LabSettings(wall_s=120.0, memory_mib=2048, preload=("numpy", "minitorch"), withheld=WITHHELD)


# ---- 1. largest_batch


@check("largest_batch", weight=2)
def the_line_says_where_the_goal_is_met(student, rng):
    """the largest batch that the line through the measurements puts within the goal"""
    sizes = np.array([1, 2, 8, 32, 100])
    for _ in range(4):
        fixed, per_item = rng.uniform(1, 4), rng.uniform(0.05, 0.5)
        goal = float(rng.uniform(15, 40))
        exact = (goal - fixed) / per_item
        if abs(exact - round(exact)) < 0.01:
            continue
        got = student.call("largest_batch", sizes, fixed + per_item * sizes, goal)
        expected = int(np.floor(exact))
        called = f"largest_batch with {fixed:.2f} ms a batch, {per_item:.2f} ms a query, {goal:.1f}"
        hint = "Put your n into fixed + per_item * n: what comes out beside the goal?"
        if isinstance(got, float) and int(got) == expected:
            hint = "A batch has a whole number of queries: an int, rounded down."
        if got == expected + 1:
            hint = "That batch misses the goal. Which way do you round?"
        elif abs(got - goal / per_item) < 1:
            hint = "What became of the fixed part?"
        if got != expected or isinstance(got, bool | float):
            raise Feedback(f"{called} gave {got!r}. {hint}")


@check("largest_batch", requires="the_line_says_where_the_goal_is_met")
def a_single_query_is_served_however_slow(student, rng):
    """at least 1, where even one query misses the goal"""
    sizes = np.array([1, 2, 4])
    got = student.call("largest_batch", sizes, 30.0 + 5 * sizes, float(rng.uniform(5, 20)))
    if got != 1:
        raise Feedback(
            f"Where even a batch of one misses the goal, largest_batch gave {got!r}. "
            "What would a server with that limit do?"
        )


def run_largest_batch(sizes, times_ms, goal_ms):
    """Return the caller's measurements after a call."""
    largest_batch(sizes, times_ms, goal_ms)
    return sizes, times_ms


@check("largest_batch", requires="the_line_says_where_the_goal_is_met")
def the_measurements_stay_as_they_are(student, rng):
    """the arrays of measurements are the same afterwards"""
    sizes = np.array([1.0, 4.0, 16.0])
    times = 2.0 + float(rng.uniform(0.1, 0.5)) * sizes
    after = student.probe(run_largest_batch, sizes=sizes, times_ms=times, goal_ms=20.0)
    for name, got, before in zip(("sizes", "times_ms"), after, (sizes, times), strict=True):
        close(got, before, called=f"{name} after largest_batch", hint="Which step is in place?")


@check("largest_batch", hidden=True, requires="the_line_says_where_the_goal_is_met")
def all_measurements_count(student, rng):
    """the line is that of least squares through all measurements"""
    sizes = np.arange(1, 40, 3)
    noise = rng.normal(0, 0.1, len(sizes))
    noise[[0, -1]] += (-2.0, 2.0)  # the two ends mislead
    times = 2.0 + 0.3 * sizes + noise
    per_item, fixed = np.polyfit(sizes, times, 1)
    goal = float(fixed + per_item * (60 + rng.uniform(0.3, 0.7)))
    got = student.call("largest_batch", sizes, times, goal)
    if got != 60:
        raise Feedback(
            "The line is not that of least squares.",
            hint="Do all the points have a say, or only the first and the last?",
        )


# ---- 2. AIMD


def run_limits(goal_ms, batches):
    """Return the limit before each batch and after the last."""
    controller = AIMD(goal_ms)
    if callable(controller.limit):
        return None
    limits = [controller.limit]
    for size, took_ms in batches:
        controller.observe(size, took_ms)
        limits.append(controller.limit)
    return limits


def ask_limits(student, goal_ms, batches):
    got = student.probe(run_limits, goal_ms=goal_ms, batches=batches)
    if got is None:
        raise Feedback(
            "AIMD: limit is a method; it is read as controller.limit. Is @property there?"
        )
    for limit in got:
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer):
            raise Feedback(f"AIMD: limit is {limit!r}. A batch has a whole number of queries.")
    return [int(limit) for limit in got]


@check("AIMD", weight=2)
def a_full_batch_in_time_allows_one_more(student, rng):
    """from 1 on, each full batch that meets the goal allows one more"""
    goal = float(rng.uniform(10, 30))
    got = ask_limits(student, goal, [(n, 0.5 * goal) for n in range(1, 13)])
    if got[0] != 1:
        raise Feedback(
            f"AIMD starts with a limit of {got[0]}. What is known before the first batch?"
        )
    if got != list(range(1, 14)):
        raise Feedback(
            f"After full batches within the goal the limits were {got[:6]}. "
            "By how much does the limit go up each time?"
        )
    got = ask_limits(student, goal, [(n, 0.5 * goal) for n in range(1, 1001)])
    if got[-1] != 1001:
        raise Feedback(
            f"After 1,000 full batches within the goal the limit is {got[-1]}, not 1,001. What "
            "but a miss may end the climb?"
        )


@check("AIMD", weight=2)
def a_miss_takes_a_tenth(student, rng):
    """a batch that misses the goal takes a tenth of the limit, and never goes below 1"""
    top, goal = 10 * int(rng.integers(3, 7)), 20.0
    climb = [(n, 1.0) for n in range(1, top)]
    got = ask_limits(student, goal, [*climb, (top, 20.5), (int(0.9 * top), 30.0)])
    exact = [Fraction(9, 10) * top, Fraction(81, 100) * top]
    if got[-2:] != [int(x) for x in exact]:
        hint = "What is 0.9 of it, and 0.9 of that?"
        if got[-2] == top + 1:
            hint = "It went up, although the goal was missed."
        elif got[-2] == top // 2:
            hint = "Half is TCP's way. The best batch moves less than a wire's share."
        raise Feedback(f"At a limit of {top}, two misses gave {got[-2:]}. {hint}")
    got = ask_limits(student, goal, [*[(1, 99.0)] * 5, (1, 1.0)])
    if got[:-1] != [1] * 6:
        raise Feedback("After five misses at 1 the limit is not 1. What would a limit of 0 serve?")
    if got[-1] != 2:
        raise Feedback(
            f"After five misses at 1 a full batch met the goal, and the limit is {got[-1]}, not 2.",
            hint="Has what you keep fallen below 1, and not the limit alone?",
        )


@check("AIMD")
def a_batch_that_was_not_full_says_nothing(student, rng):
    """a batch smaller than the limit that meets the goal changes nothing"""
    top = int(rng.integers(8, 20))
    climb = [(n, 1.0) for n in range(1, top)]
    got = ask_limits(student, 20.0, [*climb, *[(top // 2, 1.0)] * 5])
    if got[-1] != top:
        raise Feedback(
            f"At a limit of {top}, five batches of {top // 2} made it {got[-1]}. "
            "What do they tell about a batch that is larger than the limit?"
        )


@check("AIMD", requires="a_miss_takes_a_tenth")
def a_small_batch_that_misses_counts(student, rng):
    """a batch that misses the goal takes a tenth of the limit, full or not"""
    climb = [(n, 1.0) for n in range(1, 20)]
    got = ask_limits(student, 20.0, [*climb, (int(rng.integers(2, 9)), 20.5)])
    if got[-1] != 18:
        raise Feedback(
            f"At a limit of 20 a small batch missed the goal, and the limit is {got[-1]}, not 18. "
            "What would a full batch have done?"
        )


@check("AIMD", requires="a_full_batch_in_time_allows_one_more")
def exactly_the_goal_is_still_met(student, rng):
    """a batch that takes exactly the goal has met it"""
    if ask_limits(student, 20.0, [(1, 20.0)]) != [1, 2]:
        raise Feedback("A full batch took exactly the goal, and the limit did not go up by one.")


@check("AIMD", hidden=True, requires="a_miss_takes_a_tenth")
def fractions_are_kept(student, rng):
    """what is lost by rounding is not lost for the next step"""
    climb = [(n, 1.0) for n in range(1, 15)]
    batches = [*climb, *[(15, 30.0)] * 3, (10, 1.0), (11, 1.0), (12, 30.0)]
    if ask_limits(student, 20.0, batches)[-6:] != [13, 12, 10, 11, 12, 11]:
        raise Feedback(
            "The limit after several misses is not 0.9 of 0.9 of it.",
            hint="Where is the part after the point kept between two calls?",
        )


# ---- 3. steady_batch


@check("steady_batch", weight=2)
def as_many_arrive_as_are_computed(student, rng):
    """while a batch is computed, as many arrive as are in it"""
    for _ in range(4):
        per_item, fixed = rng.uniform(0.05, 0.2), rng.uniform(2, 5)
        rate = float(rng.uniform(0.5, 0.95) / per_item)
        got = to_number(student.call("steady_batch", rate, fixed, per_item))
        arrive = rate * (fixed + per_item * got)
        if not abs(arrive - got) <= 1e-6 * arrive:
            raise Feedback(
                f"steady_batch({rate:.3g}, {fixed:.3g}, {per_item:.3g}) gave {got:.4g}; while that "
                f"batch is computed, {arrive:.4g} queries arrive. Are the two equal?"
            )


@check("steady_batch", requires="as_many_arrive_as_are_computed")
def a_batch_has_at_least_one_query(student, rng):
    """where little comes, batches are of one"""
    got = student.call("steady_batch", float(rng.uniform(0.01, 0.05)), 1.0, 0.1)
    if got != 1:
        raise Feedback(
            f"With hardly any queries steady_batch gave {got!r}. Who computes a part of one?"
        )


@check("steady_batch", requires="as_many_arrive_as_are_computed")
def beyond_the_rate_of_the_largest_batch_there_is_none(student, rng):
    """where queries come as fast as 1/per_item or faster, it is infinite"""
    for rate in (10.0, float(rng.uniform(11, 30))):
        try:
            got = student.call("steady_batch", rate, 1.0, 0.1)
        except StudentError as error:
            raise Feedback(
                f"steady_batch({rate:.3g}, 1, 0.1): {error}",
                hint="Where rate * per_item_ms is 1 or more it is infinity, without a quotient.",
            ) from error
        if got != float("inf"):
            raise Feedback(
                f"steady_batch({rate:.3g}, 1.0, 0.1) gave {got!r}: 1/0.1 is all that batches of any "
                "size can serve. How does the queue go on?"
            )


# ---- 4. open_loop


def lindley(arrivals, service):
    end, responses = 0.0, []
    for arrival, cost in zip(arrivals, service, strict=True):
        end = max(arrival, end) + cost
        responses.append(end - arrival)
    return np.array(responses)


@check("open_loop", weight=2)
def an_idle_server_begins_at_once(student, rng):
    """a query that finds the server idle takes its own service time"""
    service = rng.uniform(0.5, 1.0, 8)
    arrivals = 5.0 + 3.0 * np.arange(8)
    got = student.call("open_loop", arrivals, service)
    close(got, service, called="open_loop with pauses between all queries",
          hint="When does service begin, if nobody is before it?")  # fmt: skip


@check("open_loop", weight=3)
def who_comes_while_it_is_busy_waits(student, rng):
    """a query that comes while the server is busy waits for all before it"""
    arrivals = np.sort(rng.uniform(0, 60, 50))
    service = rng.exponential(1.2, 50)
    got = student.call("open_loop", arrivals, service)
    if np.shape(got) == (50,) and np.allclose(got, service):
        raise Feedback("open_loop gave the service times: nobody waits. That is the closed loop.")
    if np.shape(got) == (50,) and np.allclose(got, lindley(arrivals, service) - service):
        raise Feedback("open_loop gave how long each waits. The answer comes after its service.")
    close(got, lindley(arrivals, service), called="open_loop of 50 random queries",
          hint="Do it by hand for arrivals 0, 1, 2 and service 3, 1, 1.")  # fmt: skip


@check("open_loop", requires="who_comes_while_it_is_busy_waits")
def arrivals_may_be_whole_and_equal(student, rng):
    """arrivals may be whole numbers where services are not, and two queries may come at once"""
    got = student.call("open_loop", np.array([0, 0, 1]), [2.5, 1.0, 0.25])
    hint = "Two come at 0, and the first in line takes 2.5. Which dtype has what you write into?"
    close(got, [2.5, 3.5, 2.75], called="open_loop([0, 0, 1], [2.5, 1.0, 0.25])", hint=hint)


def count_looks(arrivals_ms, service_ms):
    """Return the latencies, and how many numbers were taken out of the two lists."""
    looks = [0]

    class Watched(list):
        def __iter__(self):
            for value in super().__iter__():
                looks[0] += 1
                yield value

        def __getitem__(self, at):
            looks[0] += len(range(len(self))[at]) if isinstance(at, slice) else 1
            return super().__getitem__(at)

    return open_loop(Watched(arrivals_ms), Watched(service_ms)), looks[0]


@check("open_loop", requires="who_comes_while_it_is_busy_waits")
def each_query_is_looked_at_once(student, rng):
    """the end of one query is all that the next needs to know"""
    arrivals, service = np.sort(rng.uniform(0, 300, 250)), rng.exponential(1.2, 250)
    got, looks = student.probe(
        count_looks, arrivals_ms=arrivals.tolist(), service_ms=service.tolist()
    )
    close(got, lindley(arrivals, service), called="open_loop of two lists",
          hint="Lists have no arithmetic.")  # fmt: skip
    if looks > 40 * len(service):
        raise Feedback(
            f"open_loop of 250 queries took {looks:,} numbers out of its lists. Which one number "
            "of all queries before is enough for the next?"
        )


def run_open_loop(arrays):
    """Return the caller's arrays after a call."""
    open_loop(*arrays)
    return arrays


@check("open_loop", hidden=True, requires="who_comes_while_it_is_busy_waits")
def no_query_is_no_latency(student, rng):
    """of no queries there are no latencies, and plain lists will do"""
    if np.shape(student.call("open_loop", [], [])) != (0,):
        raise Feedback(
            "open_loop([], []) is not empty.", hint="What does an empty loop leave behind?"
        )
    close(student.call("open_loop", [0, 1], [2, 2]), [2.0, 3.0], called="open_loop of lists",
          hint="Lists have no arithmetic.")  # fmt: skip
    arrays = [np.sort(rng.uniform(0, 9, 6)), rng.uniform(1, 3, 6)]
    for given, kind in ((arrays, "an array"), ([x.tolist() for x in arrays], "a list")):
        if not all(map(np.array_equal, student.probe(run_open_loop, arrays=given), arrays)):
            raise Feedback(
                f"open_loop changed {kind} that it was given.", hint="Write into one of your own."
            )


# ---- 5. Clock


class Model:
    """CLOCK, as the text has it."""

    def __init__(self, room):
        self.room, self.hand, self.ring = room, 0, []

    def get(self, key):
        for entry in self.ring:
            if entry[0] == key:
                entry[2] = True
                return entry[1]
        return None

    def put(self, key, value):
        if len(self.ring) < self.room:
            self.ring.append([key, value, False])
            return
        while self.ring[self.hand][2]:
            self.ring[self.hand][2] = False
            self.hand = (self.hand + 1) % self.room
        self.ring[self.hand] = [key, value, False]
        self.hand = (self.hand + 1) % self.room


def run_cache(room, asks):
    """Return what get gives for each ask; what is missing is put."""
    cache, values = Clock(room), []
    for key in asks:
        value = cache.get(key)
        values.append(value)
        if value is None:
            cache.put(key, 10 * (key - asks[0]))
    return values


def run_model_cache(room, asks):
    cache, values = Model(room), []
    for key in asks:
        value = cache.get(key)
        values.append(value)
        if value is None:
            cache.put(key, 10 * (key - asks[0]))
    return values


@check("Clock", weight=2)
def what_was_put_is_there(student, rng):
    """what was put is found while there is room, and nothing else"""
    keys = rng.permutation(50)[:6].tolist()
    got = student.probe(run_cache, room=8, asks=keys + keys)
    expected = [None] * 6 + [10 * (key - keys[0]) for key in keys]
    if got != expected:
        raise Feedback(
            f"Six keys, room for eight: the second time they gave {got[6:]}, expected "
            f"{expected[6:]}. (A value may be 0.)"
        )


@check("Clock", weight=3, requires="what_was_put_is_there")
def what_was_used_is_spared(student, rng):
    """the hand clears the bits that it meets, and evicts the first entry without one"""
    a, b, c, d, e = rng.permutation(90)[:5].tolist()
    asks = [a, b, c, a, d, a, c, b]
    got, expected = student.probe(run_cache, room=3, asks=asks), run_model_cache(3, asks)
    if got[5] is None:
        raise Feedback(
            "Room for three, and a, b, c were put; a was used, then d was put: a is gone. "
            "Which entry has no bit?"
        )
    asks2 = [a, b, c, a, b, c, d, e]
    got2, want2 = (
        student.probe(run_cache, room=3, asks=[*asks2, a, b, c]),
        run_model_cache(3, [*asks2, a, b, c]),
    )
    if got != expected or got2 != want2:
        raise Feedback(
            "Room for three, keys a to e: another entry went than CLOCK would evict. Walk through "
            "a b c a d with your hand on the circle: where does it stand after each?"
        )


def run_sizes(room, asks):
    """Return the most entries that a get finds after each put, all keys asked anew."""
    cache = Clock(room)
    for key in asks:
        if cache.get(key) is None:
            cache.put(key, key + 1)
    return sum(cache.get(key) is not None for key in sorted(set(asks)))


@check("Clock", requires="what_was_put_is_there")
def there_is_never_more_than_the_room(student, rng):
    """no more values are kept than there is room for"""
    for room in (int(rng.integers(3, 9)), 1):
        got = student.probe(run_sizes, room=room, asks=list(range(40)))
        if got != room:
            raise Feedback(f"Room for {room}, 40 keys were put, and {got} are there.")


def count_comparisons(room):
    """Return how many keys a get is compared with, on average, where there are `room`."""
    compared = [0]

    class Key:
        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return self.number

        def __eq__(self, other):
            compared[0] += 1
            return self.number == getattr(other, "number", None)

    cache = Clock(room)
    for number in range(room):
        cache.put(Key(number), number)
    compared[0] = 0
    gave = [cache.get(Key(number)) for number in range(room)]
    return gave, compared[0] / room


@check("Clock", requires="what_was_put_is_there")
def a_key_is_found_without_a_search(student, rng):
    """get goes straight to its key, however many there are"""
    room = int(rng.integers(80, 120))
    gave, compared = student.probe(count_comparisons, room=room)
    if gave != list(range(room)):
        raise Feedback(f"Of {room} keys, room for all of them, not every one was found again.")
    if compared > 10:
        raise Feedback(
            f"get compares its key with {compared:.0f} others where {room} are kept. A cache that "
            "is searched through is slow: which of its fields says at once where a key lies?"
        )


@check("Clock", hidden=True, requires="what_was_used_is_spared")
def a_long_stream_hits_and_misses_as_clock_does(student, rng):
    """over a long random stream every hit and miss is CLOCK's"""
    asks = np.minimum(rng.zipf(1.3, 1500), 60).tolist()
    if student.probe(run_cache, room=12, asks=asks) != run_model_cache(12, asks):
        raise Feedback(
            "Over 1,500 queries the hits differ from CLOCK's.",
            hint="After an eviction the hand goes one on; a new entry's bit is clear.",
        )


# ---- 6. Exp3


@check("Exp3", weight=2)
def a_share_of_the_draws_explores(student, rng):
    """the chances are the weights, but for a share gamma that is spread evenly"""
    for n in (4, 2, 7):
        weights = rng.dirichlet(np.ones(n))
        gamma = float(rng.uniform(0.1, 0.4))
        got = student.call("chances_of", weights, gamma)
        called = f"chances_of({n} weights, {gamma:.2f})"
        close(got, (1 - gamma) * weights + gamma / n, called=called,
              hint="Do the chances sum to 1? Which chance has a model of weight 0?")  # fmt: skip


def update_weights(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    chance = (1 - gamma) * weights[asked] + gamma / len(weights)
    new[asked] *= np.exp(-eta * loss / chance)
    raised = np.clip(new / np.sum(new), floor, None)
    return raised / np.sum(raised)


@check("Exp3", weight=3)
def only_the_one_that_was_asked_is_charged(student, rng):
    """the asked model pays its loss over its chance, and the weights sum to 1"""
    for _ in range(3):
        weights, asked = rng.dirichlet(3 * np.ones(4)), int(rng.integers(4))
        loss, eta, gamma = float(rng.uniform(0.3, 1)), 0.2, 0.1
        got = np.asarray(student.call("learn", weights, asked, loss, eta, gamma), float)
        called = f"learn(weights, {asked}, {loss:.2f}, {eta}, {gamma})"
        if got.shape != (4,) or not abs(got.sum() - 1) < 1e-9:
            raise Feedback(f"{called}: the weights are {got}, with the sum {got.sum():.4f}, not 1.")
        unscaled = weights.copy()
        unscaled[asked] *= np.exp(-eta * loss)
        unscaled /= unscaled.sum()
        if np.allclose(got, unscaled, atol=1e-12):
            raise Feedback(
                f"{called}: the loss counts as it is. A model that is asked once in ten times would "
                "be charged a tenth of what it loses."
            )
        close(got, update_weights(weights, asked, loss, eta, gamma), called=called,
              hint="Which weight changed, in which direction, and by which chance was divided?")  # fmt: skip


@check("Exp3", requires="only_the_one_that_was_asked_is_charged")
def no_weight_falls_below_the_floor(student, rng):
    """a model that has lost everything keeps about the floor"""
    weights = np.array([0.5, 0.3, 0.2])
    for floor in (0.01, 0.05):
        got = student.call("learn", weights, 2, 1.0, 5.0, 0.0, floor)
        close(got, update_weights(weights, 2, 1.0, 5.0, 0.0, floor), called=f"learn with floor {floor}",
              hint="In which order: sum to 1, raise to the floor, sum to 1?")  # fmt: skip
    weights = np.array([0.599, 0.4, 0.001])
    for loss in (1.0, 0.0):
        got = student.call("learn", weights, 0, loss, 0.1, 0.0)
        called = f"learn of weights {weights.tolist()}, model 0 asked, loss {loss:g},"
        hint = "Which weights are raised to the floor: the asked one's, or all that lie below?"
        close(got, update_weights(weights, 0, loss, 0.1, 0.0), called=called, hint=hint)


def run_learn(weights):
    """Return the caller's weights after a call of each function."""
    before, asked = weights.copy(), weights.copy()
    learn(before, 0, 1.0, 0.5, 0.1)
    chances_of(asked, 0.1)
    return before, asked


@check("Exp3", requires="only_the_one_that_was_asked_is_charged")
def the_callers_weights_are_left_alone(student, rng):
    """learn and chances_of return new arrays and leave the weights that they were given"""
    weights = rng.dirichlet(np.ones(3))
    after = student.probe(run_learn, weights=weights)
    for name, array in zip(("learn", "chances_of"), after, strict=True):
        if not np.array_equal(array, weights):
            raise Feedback(f"{name} changed the array that it was given. Whose is it?")


# ---- 7. at_deadline


def answer_at_deadline(replies, deadline, default):
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms <= deadline]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(replies)


@check("at_deadline", weight=2)
def the_most_frequent_that_has_arrived_is_the_answer(student, rng):
    """of the answers that have arrived the most frequent wins"""
    for _ in range(4):
        a, b = rng.permutation(10)[:2].tolist()
        replies = [(a, 9.0), (b, 3.0), (b, 12.0), (a, 5.0), (b, 30.0), (b, 31.0), (a, 15.0)]
        got = student.call("at_deadline", replies, 20.0, -1)
        if got[0] == b:
            raise Feedback(
                f"at_deadline({replies}, 20.0, -1) gave {got}: not all of {b} are there."
            )
        if got[0] != a:
            raise Feedback(f"at_deadline({replies}, 20.0, -1) gave {got}. Who is in the majority?")


@check("at_deadline", requires="the_most_frequent_that_has_arrived_is_the_answer")
def an_answer_may_be_zero(student, rng):
    """0 is an answer like any other"""
    replies = [(0, 3.0), (7, 4.0), (0, 5.0)]
    got = student.call("at_deadline", replies, 20.0, -1)
    if got[0] != 0:
        raise Feedback(
            f"at_deadline({replies}, 20.0, -1) gave {got}: two models say 0. How do you tell an "
            "answer that is 0 from none?"
        )


def run_at_deadline(replies):
    """Return the caller's replies after a call."""
    at_deadline(replies, 20.0, -1)
    return [list(reply) for reply in replies]


@check("at_deadline", requires="the_most_frequent_that_has_arrived_is_the_answer")
def the_replies_stay_as_they_are(student, rng):
    """the list of replies is the same afterwards"""
    replies = [[3, 9.0], [4, 2.0], [3, 25.0]]
    after = student.probe(run_at_deadline, replies=replies)
    if after != replies:
        raise Feedback(f"at_deadline made {after} of {replies}. Which step sorts in place?")


@check("at_deadline", requires="the_most_frequent_that_has_arrived_is_the_answer")
def of_equals_the_first_to_arrive_wins(student, rng):
    """of equally frequent answers the one that arrived first wins"""
    for _ in range(4):
        a, b, c = rng.permutation(10)[:3].tolist()
        replies = [(a, 8.0), (b, 2.0), (c, 5.0), (c, 90.0)]
        got = student.call("at_deadline", replies, 20.0, -1)
        if got[0] != b:
            raise Feedback(
                f"at_deadline({replies}, 20.0, -1) gave {got}. Which came first in time?"
            )
        replies = [(b, 3.0), (c, 99.0), (a, 9.0), (b, 2.0), (a, 1.0)]
        got = student.call("at_deadline", replies, 20.0, -1)
        if got[0] != a:
            raise Feedback(
                f"at_deadline({replies}, 20.0, -1) gave {got}. Two each: whose first one came first?"
            )


@check("at_deadline", weight=2, requires="the_most_frequent_that_has_arrived_is_the_answer")
def confidence_is_the_share_of_those_asked(student, rng):
    """confidence counts the models that were asked, also those that are late"""
    n_late = int(rng.integers(1, 4))
    replies = [(4, 1.0), (4, 2.0), (5, 3.0), *[(4, 99.0)] * n_late]
    answer, share = student.call("at_deadline", replies, 20.0, -1)
    if answer == 4 and abs(share - 2 / 3) < 1e-6:
        raise Feedback(f"Two of three that arrived agree, and {n_late} are late: confidence {share:.2f}. "
                       "How many were asked?")  # fmt: skip
    if answer != 4 or not abs(share - 2 / (3 + n_late)) < 1e-6:
        raise Feedback(
            f"at_deadline({replies}, 20.0, -1) gave {(answer, share)}.",
            hint="Two models said 4 in time. How many were asked?",
        )


@check("at_deadline", requires="the_most_frequent_that_has_arrived_is_the_answer")
def with_nothing_there_it_is_the_default(student, rng):
    """with nothing there the answer is the default, with confidence 0"""
    default = int(rng.integers(20, 90))
    got = student.call("at_deadline", [(3, 21.0), (3, 50.0)], 20.0, default)
    if tuple(got) != (default, 0.0):
        raise Feedback(
            f"Nothing had arrived, the default was {default}, and at_deadline gave {got}."
        )
    try:
        got = student.call("at_deadline", [], 20.0, default)
    except StudentError as error:
        raise Feedback(
            f"No model was asked, and at_deadline raised {error.type_name}. What is a share of none?"
        ) from error
    if tuple(got) != (default, 0.0):
        raise Feedback(f"No model was asked, the default was {default}, at_deadline gave {got}.")


@check("at_deadline", hidden=True, requires="the_most_frequent_that_has_arrived_is_the_answer")
def exactly_at_the_deadline_counts(student, rng):
    """an answer that arrives exactly at the deadline counts, and answers may be texts"""
    replies = [("cat", 20.0), ("dog", 25.0)]
    if tuple(student.call("at_deadline", replies, 20.0, "none")) != ("cat", 0.5):
        raise Feedback("An answer exactly at the deadline is not counted.", hint="< or <=?")
    for _ in range(10):
        ms = rng.permutation(40)[:6].tolist()
        replies = list(zip(rng.integers(0, 3, 6).tolist(), map(float, ms), strict=True))
        got = student.call("at_deadline", replies, 20.0, -1)
        answer, share = answer_at_deadline(replies, 20.0, -1)
        if got[0] != answer or not abs(got[1] - share) < 1e-6:
            raise Feedback("Random replies: another answer.", hint="Look at ties once more.")
