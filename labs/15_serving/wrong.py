# Wrong answers that the checks of lab 15 must catch, each with a message of its own.

# %% wrong="rounds_up" question="largest_batch" check="the_line_says_where_the_goal_is_met" says="Which way do you round"
def largest_batch(sizes, times_ms, goal_ms):
    per_item_ms, fixed_ms = np.polyfit(sizes, times_ms, 1)
    return max(1, int(np.ceil((goal_ms - fixed_ms) / per_item_ms)))


# %% wrong="forgets_the_fixed" question="largest_batch" check="the_line_says_where_the_goal_is_met" says="What became of the fixed part"
def largest_batch(sizes, times_ms, goal_ms):
    per_item_ms = np.polyfit(sizes, times_ms, 1)[0]
    return max(1, int(goal_ms / per_item_ms))


# %% wrong="may_be_none" question="largest_batch" check="a_single_query_is_served_however_slow" says="What would a server with that limit do"
def largest_batch(sizes, times_ms, goal_ms):
    per_item_ms, fixed_ms = np.polyfit(sizes, times_ms, 1)
    return int(np.floor((goal_ms - fixed_ms) / per_item_ms))


# %% wrong="two_points" question="largest_batch" check="all_measurements_count" says="only the first and the last"
def largest_batch(sizes, times_ms, goal_ms):
    per_item_ms = (times_ms[-1] - times_ms[0]) / (sizes[-1] - sizes[0])
    fixed_ms = times_ms[0] - per_item_ms * sizes[0]
    return max(1, int(np.floor((goal_ms - fixed_ms) / per_item_ms)))


# %% wrong="takes_the_fixed_part_off_in_place" question="largest_batch" check="the_measurements_stay_as_they_are" says="in place"
def largest_batch(sizes, times_ms, goal_ms):
    per_item_ms, fixed_ms = np.polyfit(sizes, times_ms, 1)
    if isinstance(times_ms, np.ndarray):
        times_ms -= fixed_ms
    return max(1, int(np.floor((goal_ms - fixed_ms) / per_item_ms)))


# %% wrong="halves" question="AIMD" check="a_miss_takes_a_tenth" says="Half is TCP's way"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.5 * self.exact)
        elif size >= self.limit:
            self.exact += 1.0


# %% wrong="grows_always" question="AIMD" check="a_batch_that_was_not_full_says_nothing" says="What do they tell about a batch"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        else:
            self.exact += 1.0


# %% wrong="hears_full_batches_alone" question="AIMD" check="a_small_batch_that_misses_counts" says="missed the goal"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms = goal_ms
        self.exact = 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if size < self.limit:
            return
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        else:
            self.exact += 1.0


# %% wrong="rounds_each_time" question="AIMD" check="fractions_are_kept" says="Where is the part after the point kept"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.limit = goal_ms, 1

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.limit = max(1, int(0.9 * self.limit))
        elif size >= self.limit:
            self.limit += 1


# %% wrong="falls_to_nothing" question="AIMD" check="a_miss_takes_a_tenth" says="What would a limit of 0 serve"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact = 0.9 * self.exact
        elif size >= self.limit:
            self.exact += 1.0


# %% wrong="keeps_less_than_one" question="AIMD" check="a_miss_takes_a_tenth" says="Has what you keep fallen below 1"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return max(1, int(self.exact))

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact *= 0.9
        elif size >= self.limit:
            self.exact += 1.0


# %% wrong="the_goal_is_a_miss" question="AIMD" check="exactly_the_goal_is_still_met" says="took exactly the goal"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms >= self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        elif size >= self.limit:
            self.exact += 1.0


# %% wrong="one_more_than_the_batch" question="AIMD" check="fractions_are_kept" says="Where is the part after the point kept"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        elif size >= self.limit:
            self.exact = size + 1


# %% wrong="never_more_than_128" question="AIMD" check="a_full_batch_in_time_allows_one_more" says="may end the climb"
class AIMD:
    def __init__(self, goal_ms):
        self.goal_ms, self.exact = goal_ms, 1.0

    @property
    def limit(self):
        return int(self.exact)

    def observe(self, size, took_ms):
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        elif size >= self.limit:
            self.exact = min(128, self.exact + 1.0)


# %% wrong="what_arrives_in_the_fixed_part" question="steady_batch" check="as_many_arrive_as_are_computed" says="Are the two equal"
def steady_batch(rate, fixed_ms, per_item_ms):
    if rate * per_item_ms >= 1:
        return float("inf")
    return max(1.0, rate * fixed_ms)


# %% wrong="part_of_a_query" question="steady_batch" check="a_batch_has_at_least_one_query" says="Who computes a part of one"
def steady_batch(rate, fixed_ms, per_item_ms):
    if rate * per_item_ms >= 1:
        return float("inf")
    return rate * fixed_ms / (1 - rate * per_item_ms)


# %% wrong="one_beyond_the_end" question="steady_batch" check="beyond_the_rate_of_the_largest_batch_there_is_none" says="How does the queue go on"
def steady_batch(rate, fixed_ms, per_item_ms):
    return max(1.0, rate * fixed_ms / (1 - rate * per_item_ms + 1e-12))


# %% wrong="closed" question="open_loop" check="who_comes_while_it_is_busy_waits" says="That is the closed loop"
def open_loop(arrivals_ms, service_ms):
    return np.array(service_ms)


# %% wrong="only_the_wait" question="open_loop" check="an_idle_server_begins_at_once" says="When does service begin"
def open_loop(arrivals_ms, service_ms):
    end, latency = 0.0, []
    for arrival, service in zip(arrivals_ms, service_ms):
        begin = max(arrival, end)
        end = begin + service
        latency.append(begin - arrival)
    return np.array(latency)


# %% wrong="never_idle" question="open_loop" check="an_idle_server_begins_at_once" says="When does service begin"
def open_loop(arrivals_ms, service_ms):
    end, latency = 0.0, []
    for arrival, service in zip(arrivals_ms, service_ms):
        end = end + service
        latency.append(max(end - arrival, 0.0))
    return np.array(latency)


# %% wrong="lists_have_no_arithmetic" question="open_loop" check="no_query_is_no_latency" says="is not empty"
def open_loop(arrivals_ms, service_ms):
    end, latency = 0.0, []
    for arrival, service in zip(arrivals_ms, service_ms):
        end = max(arrival, end) + service
        latency.append(end - arrival)
    return np.array(latency or [0.0])


# %% wrong="writes_into_the_services" question="open_loop" check="no_query_is_no_latency" says="changed an array"
def open_loop(arrivals_ms, service_ms):
    latency, end = service_ms, 0.0
    for i, arrival in enumerate(arrivals_ms):
        end = max(arrival, end) + service_ms[i]
        latency[i] = end - arrival
    return latency


# %% wrong="latencies_of_whole_ms" question="open_loop" check="arrivals_may_be_whole_and_equal" says="Which dtype"
def open_loop(arrivals_ms, service_ms):
    latency, end = np.zeros_like(arrivals_ms), 0.0
    for i, (arrival, service) in enumerate(zip(arrivals_ms, service_ms)):
        end = max(arrival, end) + service
        latency[i] = end - arrival
    return latency


# %% wrong="the_shorter_first" question="open_loop" check="arrivals_may_be_whole_and_equal" says="first in line"
def open_loop(arrivals_ms, service_ms):
    end, latency = 0.0, []
    for arrival, service in sorted(zip(arrivals_ms, service_ms)):
        end = max(arrival, end) + service
        latency.append(end - arrival)
    return np.array(latency)


# %% wrong="from_the_first_query_each_time" question="open_loop" check="each_query_is_looked_at_once" says="Which one number"
def open_loop(arrivals_ms, service_ms):
    latency = []
    for i in range(len(arrivals_ms)):
        end = 0.0
        for arrival, service in zip(arrivals_ms[: i + 1], service_ms[: i + 1]):
            end = max(arrival, end) + service
        latency.append(end - arrivals_ms[i])
    return np.array(latency)


# %% wrong="empties_the_lists" question="open_loop" check="no_query_is_no_latency" says="changed a list"
def open_loop(arrivals_ms, service_ms):
    end, latency = 0.0, []
    if not isinstance(arrivals_ms, list):
        arrivals_ms, service_ms = list(arrivals_ms), list(service_ms)
    while arrivals_ms:
        arrival, service = arrivals_ms.pop(0), service_ms.pop(0)
        end = max(arrival, end) + service
        latency.append(end - arrival)
    return np.array(latency)


# %% wrong="first_in_first_out" question="Clock" check="what_was_used_is_spared" says="Which entry has no bit"
class Clock:
    def __init__(self, room):
        self.room, self.values = room, {}

    def get(self, key):
        return self.values.get(key)

    def put(self, key, value):
        if len(self.values) == self.room:
            del self.values[next(iter(self.values))]
        self.values[key] = value


# %% wrong="keeps_everything" question="Clock" check="there_is_never_more_than_the_room" says="40 keys were put"
class Clock:
    def __init__(self, room):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def put(self, key, value):
        self.values[key] = value


# %% wrong="takes_zero_for_nothing" question="Clock" check="what_was_put_is_there" says="may be 0"
class Clock(Clock):
    def get(self, key):
        at = self.place.get(key)
        if at is None or not self.values[at]:
            return None
        self.used[at] = True
        return self.values[at]


# %% wrong="new_entries_are_marked" question="Clock" check="what_was_used_is_spared" says="a is gone"
class Clock:
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
            self.ring.append([key, value, True])
            return
        while self.ring[self.hand][2]:
            self.ring[self.hand][2] = False
            self.hand = (self.hand + 1) % self.room
        self.ring[self.hand] = [key, value, True]
        self.hand = (self.hand + 1) % self.room


# %% wrong="forgets_who_was_evicted" question="Clock" check="there_is_never_more_than_the_room" says="are there"
class Clock:
    def __init__(self, room):
        self.room, self.hand, self.keys, self.used, self.place = room, 0, [], [], {}

    def get(self, key):
        if key in self.place:
            self.used[self.place[key][0]] = True
            return self.place[key][1]
        return None

    def put(self, key, value):
        if len(self.keys) < self.room:
            self.place[key] = len(self.keys), value
            self.keys.append(key)
            self.used.append(False)
            return
        while self.used[self.hand]:
            self.used[self.hand] = False
            self.hand = (self.hand + 1) % self.room
        self.place[key] = self.hand, value
        self.keys[self.hand] = key
        self.hand = (self.hand + 1) % self.room


# %% wrong="looks_through_the_keys" question="Clock" check="a_key_is_found_without_a_search" says="searched through"
class Clock:
    def __init__(self, room):
        self.room, self.hand = room, 0
        self.keys, self.values, self.used = [], [], []

    def get(self, key):
        if key not in self.keys:
            return None
        at = self.keys.index(key)
        self.used[at] = True
        return self.values[at]

    def put(self, key, value):
        if len(self.keys) < self.room:
            self.keys.append(key)
            self.values.append(value)
            self.used.append(False)
            return
        while self.used[self.hand]:
            self.used[self.hand] = False
            self.hand = (self.hand + 1) % self.room
        at, self.hand = self.hand, (self.hand + 1) % self.room
        self.keys[at], self.values[at], self.used[at] = key, value, False


# %% wrong="never_explores" question="Exp3" check="a_share_of_the_draws_explores" says="Which chance has a model of weight 0"
def chances_of(weights, gamma):
    return weights / weights.sum()


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    chance = (1 - gamma) * weights[asked] + gamma / len(weights)
    new[asked] *= np.exp(-eta * loss / chance)
    new = np.maximum(new / new.sum(), floor)
    return new / new.sum()


# %% wrong="of_four_models" question="Exp3" check="a_share_of_the_draws_explores" says="2 weights"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / 4


# %% wrong="mixes_in_place" question="Exp3" check="the_callers_weights_are_left_alone" says="chances_of changed"
def chances_of(weights, gamma):
    weights *= 1 - gamma
    weights += gamma / len(weights)
    return weights


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights.copy(), gamma)[asked])
    new = np.maximum(new / new.sum(), floor)
    return new / new.sum()


# %% wrong="charges_the_bare_loss" question="Exp3" check="only_the_one_that_was_asked_is_charged" says="The loss counts as it is"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss)
    new = np.maximum(new / new.sum(), floor)
    return new / new.sum()


# %% wrong="does_not_sum_to_one" question="Exp3" check="only_the_one_that_was_asked_is_charged" says="with the sum"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    return np.maximum(new, floor)


# %% wrong="no_floor" question="Exp3" check="no_weight_falls_below_the_floor" says="In which order"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    return new / new.sum()


# %% wrong="writes_into_the_callers" question="Exp3" check="the_callers_weights_are_left_alone" says="Whose is it"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    weights[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    new = np.maximum(weights / weights.sum(), floor)
    return new / new.sum()


# %% wrong="raises_the_asked_one_alone" question="Exp3" check="no_weight_falls_below_the_floor" says="all that lie below"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    new /= new.sum()
    new[asked] = max(new[asked], floor)
    return new / new.sum()


# %% wrong="learns_from_losses_alone" question="Exp3" check="no_weight_falls_below_the_floor" says="loss 0"
def chances_of(weights, gamma):
    return (1 - gamma) * weights + gamma / len(weights)


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    if loss == 0:
        return weights
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    new = np.maximum(new / new.sum(), floor)
    return new / new.sum()


# %% wrong="waits_for_all" question="at_deadline" check="the_most_frequent_that_has_arrived_is_the_answer" says="are there"
def at_deadline(replies, deadline_ms, default):
    said = [answer for answer, _ in sorted(replies, key=lambda r: r[1])]
    answer = max(said, key=said.count)
    return answer, said.count(answer) / len(said)


# %% wrong="of_those_that_arrived" question="at_deadline" check="confidence_is_the_share_of_those_asked" says="How many were asked"
def at_deadline(replies, deadline_ms, default):
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms <= deadline_ms]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(arrived)


# %% wrong="first_in_the_list" question="at_deadline" check="of_equals_the_first_to_arrive_wins" says="Which came first in time"
def at_deadline(replies, deadline_ms, default):
    arrived = [answer for answer, ms in replies if ms <= deadline_ms]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(replies)


# %% wrong="too_strict" question="at_deadline" check="exactly_at_the_deadline_counts" says="<="
def at_deadline(replies, deadline_ms, default):
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms < deadline_ms]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(replies)


# %% wrong="takes_zero_for_no_answer" question="at_deadline" check="an_answer_may_be_zero" says="from none"
def at_deadline(replies, deadline_ms, default):
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms <= deadline_ms]
    answer = max(arrived, key=arrived.count, default=None)
    if not answer:
        return default, 0.0
    return answer, arrived.count(answer) / len(replies)


# %% wrong="sorts_the_replies" question="at_deadline" check="the_replies_stay_as_they_are" says="sorts in place"
def at_deadline(replies, deadline_ms, default):
    replies.sort(key=lambda reply: reply[1])
    arrived = [answer for answer, ms in replies if ms <= deadline_ms]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(replies)


# %% wrong="first_to_have_them_all" question="at_deadline" check="of_equals_the_first_to_arrive_wins" says="whose first one"
def at_deadline(replies, deadline_ms, default):
    counts, last = {}, {}
    for answer, ms in sorted(replies, key=lambda reply: reply[1]):
        if ms <= deadline_ms:
            counts[answer], last[answer] = counts.get(answer, 0) + 1, ms
    if not counts:
        return default, 0.0
    answer = min(counts, key=lambda a: (-counts[a], last[a]))
    return answer, counts[answer] / len(replies)


# %% wrong="a_share_of_none" question="at_deadline" check="with_nothing_there_it_is_the_default" says="share of none"
def at_deadline(replies, deadline_ms, default):
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms <= deadline_ms]
    answer = max(arrived, key=arrived.count) if arrived else default
    return answer, arrived.count(answer) / len(replies)
