# Wrong answers that the checks of lab 17 must catch, each with a message of its own.


# %% wrong="only_lists_with_pairs" question="phases" check="each_pair_goes_where_its_key_belongs" says="A list without pairs is a list too"
def map_task(records, mapper, reducers):
    parts = {}
    for record in records:
        for key, value in mapper(record):
            parts.setdefault(place(key) % reducers, []).append((key, value))
    return [parts[r] for r in sorted(parts)]


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]


# %% wrong="deals_them_out" question="phases" check="each_pair_goes_where_its_key_belongs" says="which list does place"
def map_task(records, mapper, reducers):
    pairs = [pair for record in records for pair in mapper(record)]
    return [pairs[r::reducers] for r in range(reducers)]


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]


# %% wrong="reduces_each_part" question="phases" check="each_key_is_reduced_once_with_all_its_values" says="The keys are"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    found = []
    for part in parts:
        keys = sorted({key for key, _ in part})
        found += [(key, reducer(key, [v for k, v in part if k == key])) for key in keys]
    return sorted(found, key=lambda pair: pair[0])


# %% wrong="as_they_came" question="phases" check="each_key_is_reduced_once_with_all_its_values" says="In which order are keys wanted"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, values)) for key, values in sorted(groups.items(), reverse=True)]


# %% wrong="pairs_that_come_once" question="phases" check="each_key_is_reduced_once_with_all_its_values" says="more than once"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return ((key, reducer(key, groups[key])) for key in sorted(groups))


# %% wrong="lists_that_come_once" question="phases" check="each_pair_goes_where_its_key_belongs" says="read by number"
def map_task(records, mapper, reducers):
    pairs = [pair for record in records for pair in mapper(record)]
    for r in range(reducers):
        yield [pair for pair in pairs if place(pair[0]) % reducers == r]


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]


# %% wrong="runs_everything_again" question="map_reduce" check="what_is_stored_is_not_computed_again" says="is stored already"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m, name in enumerate(inputs):
        store.write(f"{job}/map{m}", map_task(store.read(name), mapper, reducers))
    for r in range(reducers):
        parts = [store.read(f"{job}/map{m}", r) for m in range(len(inputs))]
        store.write(f"{job}/reduce{r}", [reduce_task(parts, reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="the_first_piece_for_all" question="map_reduce" check="the_words_of_all_partitions_are_counted" says="are counted, of"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m, name in enumerate(inputs):
        if f"{job}/map{m}" not in store:
            store.write(f"{job}/map{m}", map_task(store.read(name), mapper, reducers))
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            parts = [store.read(f"{job}/map{m}") for m in range(len(inputs))]
            store.write(f"{job}/reduce{r}", [reduce_task(parts, reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="keeps_the_lists_in_memory" question="map_reduce" check="every_intermediate_result_is_stored" says="map_reduce stored"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    mapped = [map_task(store.read(name), mapper, reducers) for name in inputs]
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            store.write(f"{job}/reduce{r}", [reduce_task([lists[r] for lists in mapped], reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="one_piece_for_everybody" question="map_reduce" check="every_intermediate_result_is_stored" says="Who reads it, and what of it"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m, name in enumerate(inputs):
        if f"{job}/map{m}" not in store:
            store.write(f"{job}/map{m}", [map_task(store.read(name), mapper, reducers)])
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            parts = [store.read(f"{job}/map{m}")[r] for m in range(len(inputs))]
            store.write(f"{job}/reduce{r}", [reduce_task(parts, reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="stores_what_is_still_to_come" question="map_reduce" check="the_words_of_all_partitions_are_counted" says="pickle"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m, name in enumerate(inputs):
        if f"{job}/map{m}" not in store:
            store.write(f"{job}/map{m}", map_task(store.read(name), mapper, reducers))
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            parts = [store.read(f"{job}/map{m}", r) for m in range(len(inputs))]
            store.write(f"{job}/reduce{r}", [(pair for pair in reduce_task(parts, reducer))])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="leaves_out_the_rest" question="stored_step" check="slices_make_up_the_gradient_again" says="has shape"
def slices(gradient, n):
    size = len(gradient) // n
    for k in range(n):
        yield k, gradient[k * size : (k + 1) * size]


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    names = map_reduce(store, f"step{step}", inputs, mapper, add, reducers)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    store.write(f"w{step + 1}", [w - lr * np.concatenate([piece for _, piece in pairs])])


# %% wrong="the_last_takes_the_rest" question="stored_step" check="slices_make_up_the_gradient_again" says="should be shared"
def slices(gradient, n):
    size = len(gradient) // n
    for k in range(n):
        yield k, gradient[k * size : (k + 1) * size if k < n - 1 else None]


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    names = map_reduce(store, f"step{step}", inputs, mapper, add, reducers)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    store.write(f"w{step + 1}", [w - lr * np.concatenate([piece for _, piece in pairs])])


# %% wrong="mean_of_the_records" question="stored_step" check="the_step_goes_against_the_sum_of_all_records" says="record's share already"
def slices(gradient, n):
    yield from enumerate(np.array_split(gradient, n))


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    def mean(key, values):
        return sum(values) / len(values)

    names = map_reduce(store, f"step{step}", inputs, mapper, mean, reducers)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    store.write(f"w{step + 1}", [w - lr * np.concatenate([piece for _, piece in pairs])])


# %% wrong="changes_w_in_place" question="stored_step" check="the_gradient_is_cut_for_all_reduce_tasks" says="which operations work in place"
def slices(gradient, n):
    yield from enumerate(np.array_split(gradient, n))


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    names = map_reduce(store, f"step{step}", inputs, mapper, add, reducers)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    w -= lr * np.concatenate([piece for _, piece in pairs])
    store.write(f"w{step + 1}", [w])


# %% wrong="one_reducer_does_it_all" question="stored_step" check="the_gradient_is_cut_for_all_reduce_tasks" says="What does map_reduce have to know"
def slices(gradient, n):
    yield from enumerate(np.array_split(gradient, n))


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    names = map_reduce(store, f"step{step}", inputs, mapper, add)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    store.write(f"w{step + 1}", [w - lr * np.concatenate([piece for _, piece in pairs])])


# %% wrong="maps_at_once" question="rdd" check="nothing_is_made_before_somebody_asks" says="When should it compute"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        if i in self.memory:
            return self.memory[i]
        rows = self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows

    def map(self, fn):
        mapped = [[fn(row) for row in self.partition(i)] for i in range(self.n)]
        return RDD(self.n, lambda i: mapped[i])

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="keeps_everything" question="rdd" check="what_is_cached_is_made_once_and_what_is_not_each_time" says="When is a partition kept"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        if i not in self.memory:
            self.memory[i] = self.make(i)
        return self.memory[i]

    def map(self, fn):
        return RDD(self.n, lambda i: [fn(row) for row in self.partition(i)])

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="asks_for_all_of_the_parent" question="rdd" check="nothing_is_made_before_somebody_asks" says="Which partition does it need"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        if i in self.memory:
            return self.memory[i]
        rows = self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows

    def map(self, fn):
        return RDD(self.n, lambda i: [[fn(r) for r in self.partition(j)] for j in range(self.n)][i])

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="maps_the_whole_partition" question="rdd" check="map_applies_the_function_to_each_row" says="after two maps"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        if i in self.memory:
            return self.memory[i]
        rows = self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows

    def map(self, fn):
        return RDD(self.n, lambda i: [fn(sum(self.partition(i)))])

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="sums_at_once" question="sum_by_key" check="each_partition_has_the_sums_of_its_keys" says="expected an RDD"
def sum_by_key(rdd, n):
    sums = {}
    for p in range(rdd.n):
        for key, value in rdd.partition(p):
            sums[key] = sums.get(key, 0) + value
    return sums


# %% wrong="as_if_it_were_narrow" question="sum_by_key" check="each_partition_has_the_sums_of_its_keys" says="Of which partitions of the pairs"
def sum_by_key(rdd, n):
    return RDD(n, lambda r: reduce_task([rdd.partition(r % rdd.n)], add))


# %% wrong="shuffles_at_once" question="sum_by_key" check="a_sum_needs_every_partition_and_is_lazy" says="When should it compute"
def sum_by_key(rdd, n):
    lists = [map_task(rdd.partition(i), lambda pair: [pair], n) for i in range(rdd.n)]
    return RDD(n, lambda r: reduce_task([part[r] for part in lists], add))


# %% wrong="all_keys_everywhere" question="sum_by_key" check="each_partition_has_the_sums_of_its_keys" says="the 2 partitions of sum_by_key"
def sum_by_key(rdd, n):
    return RDD(n, lambda r: reduce_task([rdd.collect()], add))


# %% wrong="as_many_as_before" question="sum_by_key" check="each_partition_has_the_sums_of_its_keys" says="partitions."
def sum_by_key(rdd, n):
    def compute(r):
        lists = [map_task(rdd.partition(i), lambda pair: [pair], n) for i in range(rdd.n)]
        return reduce_task([part[r] for part in lists], add) if r < n else []

    return RDD(rdd.n + n, compute)


# %% wrong="one_rank" question="ring_gradients" check="without_checkpoints_all_begins_anew" says="on one rank"
def ring_gradients(ranks, steps, every, deaths):
    return steps + sum(step % every if every else step for step in deaths)


# %% wrong="begins_anew" question="ring_gradients" check="what_was_not_saved_is_computed_again_on_all_ranks" says="Where is the last checkpoint"
def ring_gradients(ranks, steps, every, deaths):
    return ranks * (steps + sum(deaths))


# %% wrong="as_if_nobody_died" question="ring_gradients" check="without_checkpoints_all_begins_anew" says="in which nobody dies"
def ring_gradients(ranks, steps, every, deaths):
    return ranks * steps


# %% wrong="the_dead_rank_alone" question="ring_gradients" check="without_checkpoints_all_begins_anew" says="one rank, or all"
def ring_gradients(ranks, steps, every, deaths):
    return ranks * steps + sum(step % every if every else step for step in deaths)


# %% wrong="divides_by_zero" question="ring_gradients" check="without_checkpoints_all_begins_anew" says="ZeroDivisionError"
def ring_gradients(ranks, steps, every, deaths):
    return ranks * (steps + sum(step % every for step in deaths))


# %% wrong="round_the_slots" question="start_times" check="each_task_takes_the_slot_that_is_free_first" says="Is the next one in turn always free first"
def start_times(free, tasks, seconds):
    order = sorted(free)
    return [order[k % len(free)] + k // len(free) * seconds for k in range(tasks)]


def start_together(free, tasks):
    return sorted(free)[tasks - 1] if tasks <= len(free) else math.inf


# %% wrong="slots_are_never_busy" question="start_times" check="each_task_takes_the_slot_that_is_free_first" says="free again after its task"
def start_times(free, tasks, seconds):
    order = sorted(free)
    return [order[k % len(free)] for k in range(tasks)]


def start_together(free, tasks):
    return sorted(free)[tasks - 1] if tasks <= len(free) else math.inf


# %% wrong="waits_for_all_slots" question="start_times" check="together_waits_for_as_many_slots_as_tasks" says="That waits for all slots"
def start_times(free, tasks, seconds):
    free, starts = list(free), []
    for _ in range(tasks):
        starts.append(min(free))
        free[free.index(min(free))] += seconds
    return starts


def start_together(free, tasks):
    return max(free) if tasks <= len(free) else math.inf


# %% wrong="eight_in_six" question="start_times" check="together_waits_for_as_many_slots_as_tasks" says="expected inf"
def start_times(free, tasks, seconds):
    free, starts = list(free), []
    for _ in range(tasks):
        starts.append(min(free))
        free[free.index(min(free))] += seconds
    return starts


def start_together(free, tasks):
    return sorted(free)[min(tasks, len(free)) - 1]


# %% wrong="sorts_what_it_reads" question="phases" check="what_a_task_reads_stays_as_it_is" says="run again on the same"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        part.sort(key=lambda pair: pair[0])
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]


# %% wrong="keys_are_text" question="phases" check="keys_may_be_numbers_too" says="Who says where"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[crc32(str(key).encode()) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]


# %% wrong="sorts_as_text" question="phases" check="keys_may_be_numbers_too" says="as what they are"
def map_task(records, mapper, reducers):
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts


def reduce_task(parts, reducer):
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups, key=str)]


# %% wrong="one_job_for_all" question="map_reduce" check="the_words_of_all_partitions_are_counted" says="in order: 'tally/reduce0'"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m, name in enumerate(inputs):
        if f"job/map{m}" not in store:
            store.write(f"job/map{m}", map_task(store.read(name), mapper, reducers))
    for r in range(reducers):
        if f"job/reduce{r}" not in store:
            parts = [store.read(f"job/map{m}", r) for m in range(len(inputs))]
            store.write(f"job/reduce{r}", [reduce_task(parts, reducer)])
    return [f"job/reduce{r}" for r in range(reducers)]


# %% wrong="names_of_inputs_by_number" question="map_reduce" check="the_words_of_all_partitions_are_counted" says="KeyError: 'in0'"
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    for m in range(len(inputs)):
        if f"{job}/map{m}" not in store:
            store.write(f"{job}/map{m}", map_task(store.read(f"in{m}"), mapper, reducers))
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            parts = [store.read(f"{job}/map{m}", r) for m in range(len(inputs))]
            store.write(f"{job}/reduce{r}", [reduce_task(parts, reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


# %% wrong="empty_is_not_there" question="rdd" check="what_is_made_of_a_cached_one_is_not_cached" says="without rows in memory"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        rows = self.memory.get(i) or self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows

    def map(self, fn):
        return RDD(self.n, lambda i: [fn(row) for row in self.partition(i)])

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="hands_the_cache_on" question="rdd" check="what_is_made_of_a_cached_one_is_not_cached" says="Which of the two was told"
class RDD:
    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        if i in self.memory:
            return self.memory[i]
        rows = self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows

    def map(self, fn):
        made = RDD(self.n, lambda i: [fn(row) for row in self.partition(i)])
        made.kept = self.kept
        return made

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% wrong="adds_to_the_first_value" question="sum_by_key" check="rows_in_memory_stay_as_they_are" says="Whose array"
def sum_by_key(rdd, n):
    def compute(r):
        sums = {}
        for key, value in rdd.collect():
            if place(key) % n == r:
                if key in sums:
                    sums[key] += value
                else:
                    sums[key] = value
        return [(key, sums[key]) for key in sorted(sums)]

    return RDD(n, compute)


# %% wrong="takes_the_deaths_away" question="ring_gradients" check="a_death_right_after_a_checkpoint_costs_nothing" says="belongs to who asks"
def ring_gradients(ranks, steps, every, deaths):
    while deaths:
        death = deaths.pop()
        steps += death % every if every else death
    return ranks * steps


# %% wrong="sorts_the_slots" question="start_times" check="the_slots_are_left_alone" says="Which list do you sort"
def start_times(free, tasks, seconds):
    free, starts = list(free), []
    for _ in range(tasks):
        starts.append(min(free))
        free[free.index(min(free))] += seconds
    return starts


def start_together(free, tasks):
    free.sort()
    return free[tasks - 1] if tasks <= len(free) else math.inf
