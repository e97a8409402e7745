"""Checks of lab 17. A store in memory notes what is written and read, and dies when it is told."""

from zlib import crc32

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close, to_number

LAB = LabSettings(preload=("numpy",))

WORDS = ["the", "of", "and", "to", "in", "is", "rose", "map", "key", "slot", "disk", "rank", "ring"]


def draw_text(rng, lines, longest=6):
    """Return lines of words, some of them more than once."""
    return [" ".join(rng.choice(WORDS, size=int(rng.integers(1, longest)))) for _ in range(lines)]


def find_reducer(word, reducers):
    return crc32(word.encode()) % reducers


# ---- 1. phases


def run_map_task(records, reducers):
    """Return the lists of a map task whose mapper yields (word, position in the line)."""

    def mapper(line):
        for at, word in enumerate(line.split()):
            yield word, at

    parts = map_task(records, mapper, reducers)
    if not isinstance(parts, list | tuple):
        return type(parts).__name__
    return [[list(pair) for pair in part] for part in parts]


def map_by_hand(records, reducers):
    parts = [[] for _ in range(reducers)]
    for line in records:
        for at, word in enumerate(line.split()):
            parts[find_reducer(word, reducers)].append([word, at])
    return parts


@check("phases", weight=2)
def each_pair_goes_where_its_key_belongs(student, rng):
    """map_task puts a pair into list place(key) % reducers, in the order of the records"""
    for lines, reducers in ((6, 3), (1, 4), (5, 1)):
        records = draw_text(rng, lines, 6 if lines > 1 else 3)  # a list without pairs at least
        got, expected = (
            student.probe(run_map_task, records=records, reducers=reducers),
            map_by_hand(records, reducers),
        )
        require_list("map_task", got)
        if len(got) != reducers:
            raise Feedback(
                f"map_task for {reducers} reducers returned {len(got)} lists. "
                "A list without pairs is a list too."
            )
        hint = ""
        if reducers > 1 and got[0] and all(part == got[0] for part in got):
            hint = "All lists hold the same. Is it one list, under several names?"
        elif sorted(p for part in got for p in part) != sorted(
            p for part in expected for p in part
        ):
            hint = "Some pairs are lost, or new. What does mapper(record) yield, and how often?"
        elif [sorted(part) for part in got] != [sorted(part) for part in expected]:
            hint = "The pairs are right; which list does place(key) say?"
        elif got != expected:
            hint = "Each list has its pairs; in which order did they come?"
        if hint:
            raise Feedback(f"map_task of {records!r} for {reducers} reducers: {hint}")


def run_reduce_task(parts, kind):
    """Return what a reduce task makes of lists of pairs; a reducer that shows what it is given."""
    import numpy as np

    def reducer(key, values):
        return [key, *values] if kind == "shown" else sum(values)

    if kind == "arrays":
        parts = [[(key, np.array([value, 1.0])) for key, value in part] for part in parts]
    else:
        parts = [[tuple(pair) for pair in part] for part in parts]
    pairs = reduce_task(parts, reducer)
    if not isinstance(pairs, list | tuple):
        return type(pairs).__name__
    return [[key, value] for key, value in pairs]


def require_list(name, got):
    """Raise Feedback where a probe gives the name of a type: what came was no list."""
    if isinstance(got, str):
        hint = "What a task returns is stored, and read by number, more than once."
        raise Feedback(f"{name} returned something of type {got}, expected a list.", hint=hint)


def reduce_by_hand(parts):
    keys = sorted({key for part in parts for key, _ in part})
    return [[key, [key, *(v for part in parts for k, v in part if k == key)]] for key in keys]


@check("phases", weight=2)
def each_key_is_reduced_once_with_all_its_values(student, rng):
    """reduce_task calls the reducer once a key, with its values in order, and sorts by key"""
    for sizes in ((4, 5, 3), (0, 6), (2,)):
        parts = [
            [[str(rng.choice(WORDS[:5])), int(rng.integers(100))] for _ in range(size)]
            for size in sizes
        ]
        got = student.probe(run_reduce_task, parts=parts, kind="shown")
        require_list("reduce_task", got)
        expected = reduce_by_hand(parts)
        if got == expected:
            continue
        hint = "What does the reducer get: the key, and a list of all its values?"
        if sorted(got) == expected:
            hint = "The pairs are right. In which order are keys wanted?"
        elif [key for key, _ in got] != [key for key, _ in expected]:
            hint = (
                f"The keys are {[key for key, _ in got]}, expected {[key for key, _ in expected]}."
            )
        elif [[k, sorted(map(str, v))] for k, v in got] == [
            [k, sorted(map(str, v))] for k, v in expected
        ]:
            hint = "All values are there. In which order did they come, part after part?"
        raise Feedback(f"reduce_task of {parts!r}: {hint}")


@check("phases", hidden=True)
def values_may_be_arrays(student, rng):
    """values may be arrays, and one key may have many"""
    parts = [[["w", float(rng.integers(9))], ["b", 1.0]], [["w", 2.0], ["w", 3.0]]]
    got = student.probe(run_reduce_task, parts=parts, kind="arrays")
    expected = [["b", np.array([1.0, 1.0])], ["w", np.array([parts[0][0][1] + 5.0, 3.0])]]
    close(got, expected, called="reduce_task of arrays", hint="What do you sort, and what compare?")


def run_numbered(pairs, reducers):
    """Return what a map task makes of pairs with numbers for keys, and a reduce task of all."""
    parts = map_task([tuple(pair) for pair in pairs], lambda pair: [pair], reducers)
    mapped = [[list(pair) for pair in part] for part in parts]
    return mapped, [list(pair) for pair in reduce_task(parts, lambda key, values: list(values))]


@check("phases", hidden=True, requires="each_key_is_reduced_once_with_all_its_values")
def keys_may_be_numbers_too(student, rng):
    """keys may be numbers, which place hands on as they are, and 10 comes after 9"""
    pairs = [[int(key), at] for at, key in enumerate(rng.permutation(12))]
    parts, reduced = student.probe(run_numbered, pairs=pairs, reducers=3)
    expected = [[pair for pair in pairs if pair[0] % 3 == r] for r in range(3)]
    hint = "Who says where a key belongs?"
    close(parts, expected, called="map_task of numbered pairs", hint=hint)
    hint = "As what are keys sorted: as what they are?"
    expected = [[key, [at]] for key, at in sorted(pairs)]
    close(reduced, expected, called="reduce_task of numbered pairs", hint=hint)


def leaves_records(records, parts):
    """Return whether a map task leaves its records, and a reduce task its parts, as they were."""
    import copy

    parts = [[tuple(pair) for pair in part] for part in parts]
    before = copy.deepcopy((records, parts))
    map_task(records, lambda line: [(word, 1) for word in line.split()], 2)
    reduce_task(parts, lambda key, values: sum(values))
    return [records == before[0], parts == before[1]]


@check("phases", hidden=True, requires="each_key_is_reduced_once_with_all_its_values")
def what_a_task_reads_stays_as_it_is(student, rng):
    """a task leaves the records, or the lists of pairs, as they are"""
    parts = [[["to", 2], ["in", 1]], [["to", 5], ["of", int(rng.integers(9))]]]
    same = student.probe(leaves_records, records=draw_text(rng, 3), parts=parts)
    for name, is_same in zip(("map_task", "reduce_task"), same):
        if not is_same:
            hint = "A task may be run again on the same. Which line takes from it, or sorts it?"
            raise Feedback(f"{name} changed what it was given.", hint=hint)


# ---- 2. map_reduce


def run_job(partitions, reducers, dies_at=0, lose=()):
    """Run a job over a store in memory; where it dies, again, and again after what is lost.

    Returns for each call what was written, read, mapped and reduced, in order, then the names and
    what they hold.
    """
    import pickle

    class Memory:
        def __init__(self):
            self.held, self.log, self.dies_at = {}, [], dies_at

        def __contains__(self, name):
            return name in self.held

        def write(self, name, pieces):
            if name in self.held:
                raise ValueError(f"write: {name!r} is stored already.")
            self.dies_at -= 1
            if self.dies_at == 0:
                raise MemoryError("the machine died")
            self.held[name] = [pickle.loads(pickle.dumps(piece)) for piece in pieces]
            self.log.append(["write", name, len(self.held[name])])

        def read(self, name, piece=0):
            self.log.append(["read", name, piece])
            return self.held[name][piece]

    def mapper(line):
        store.log.append(["map", line, 0])
        for word in line.split():
            yield word, 1

    def reducer(key, values):
        store.log.append(["reduce", key, 0])
        return sum(values)

    def pairs_in(pieces):
        try:
            return [[key, value] for key, value in pieces[0]]
        except (IndexError, TypeError, ValueError):
            return "no pairs"

    store = Memory()
    names = [f"text{i}" for i in range(len(partitions))]
    store.held = {name: [lines] for name, lines in zip(names, partitions)}
    calls, results = [], []
    for call in range(1 + bool(dies_at) + bool(lose)):
        if lose and call == bool(dies_at) + 1:
            for name in lose:
                store.held.pop(name, None)
        try:
            results = map_reduce(store, "tally", names, mapper, reducer, reducers)
        except MemoryError:
            results = []
        calls.append(store.log)
        store.log = []
    if not isinstance(results, (list, tuple)):
        return calls, f"something of type {type(results).__name__}", [], []
    results = list(results)
    result_names = [name for name in store.held if name in results]
    contents = [pairs_in(store.held[name]) for name in sorted(result_names)]
    return calls, results, contents, sorted(set(store.held) - set(names))


def count_words(partitions, reducers):
    """Return what each reduce task should hold."""
    counts_by_reducer = [{} for _ in range(reducers)]
    for line in (line for lines in partitions for line in lines):
        for word in line.split():
            counts = counts_by_reducer[find_reducer(word, reducers)]
            counts[word] = counts.get(word, 0) + 1
    return [[[word, counts[word]] for word in sorted(counts)] for counts in counts_by_reducer]


def list_written(calls, at):
    return sorted(name for what, name, _ in calls[at] if what == "write")


@check("map_reduce", weight=2)
def the_words_of_all_partitions_are_counted(student, rng):
    """the results of the reduce tasks have every word of every partition, with its count"""
    for maps, reducers in ((3, 2), (2, 3), (1, 1)):
        partitions = [draw_text(rng, 3) for _ in range(maps)]
        _, names, contents, _ = student.probe(run_job, partitions=partitions, reducers=reducers)
        if names != [f"tally/reduce{r}" for r in range(reducers)]:
            raise Feedback(
                f"map_reduce with {reducers} reducers returned {names}, expected the {reducers} "
                "names of the reduce tasks' results, in order: 'tally/reduce0' is the first."
            )
        if "no pairs" in contents:
            raise Feedback(
                f"the first piece of 'tally/reduce{contents.index('no pairs')}' is no list of pairs. A "
                "reduce task has one piece: what is in it?"
            )
        expected = count_words(partitions, reducers)
        if contents != expected:
            count = sum(n for part in contents for _, n in part)
            total = sum(n for part in expected for _, n in part)
            hint = "Which piece of each map task does reduce task r read?"
            if count != total:
                hint = f"{count} words are counted, of {total}. Of which map tasks does it read?"
            raise Feedback(f"map_reduce of {maps} partitions, {reducers} reducers: {hint}")


@check("map_reduce", requires="the_words_of_all_partitions_are_counted")
def every_intermediate_result_is_stored(student, rng):
    """map task m stores its lists as job/map{m}, one piece for each reduce task"""
    maps, reducers = 3, int(rng.integers(2, 5))
    partitions = [draw_text(rng, 2) for _ in range(maps)]
    calls, _, _, stored_names = student.probe(run_job, partitions=partitions, reducers=reducers)
    expected = [f"tally/map{m}" for m in range(maps)] + [
        f"tally/reduce{r}" for r in range(reducers)
    ]
    if stored_names != sorted(expected):
        raise Feedback(f"map_reduce stored {stored_names!r}, expected {sorted(expected)!r}.")
    for what, name, pieces in calls[0]:
        if what == "write" and pieces != (reducers if "map" in name else 1):
            raise Feedback(
                f"{name!r} was stored in {pieces} pieces, with {reducers} reduce tasks. "
                "Who reads it, and what of it?"
            )


@check("map_reduce", weight=2, requires="the_words_of_all_partitions_are_counted")
def what_is_stored_is_not_computed_again(student, rng):
    """after a death, and after a loss, only the tasks whose results are missing run"""
    partitions = [draw_text(rng, 2) for _ in range(3)]
    lost_names = ["tally/map1", "tally/reduce0"]
    for dies_at in (int(rng.integers(2, 4)), int(rng.integers(4, 6))):
        calls, _, contents, _ = student.probe(
            run_job, partitions=partitions, reducers=2, dies_at=dies_at, lose=lost_names
        )
        if [len(list_written(calls, at)) for at in (0, 1)] != [dies_at - 1, 6 - dies_at]:
            raise Feedback(
                f"the machine died at write {dies_at} of 5; the next call wrote "
                f"{list_written(calls, 1)!r}. Which results were stored before it died?"
            )
        if list_written(calls, 2) != lost_names or contents != count_words(partitions, 2):
            raise Feedback(
                f"after {lost_names!r} were lost, the next call wrote {list_written(calls, 2)!r}. "
                "Which name says that a task need not run?"
            )
        lines, keys = (
            [at for what, at, _ in calls[2] if what == kind] for kind in ("map", "reduce")
        )
        if sorted(lines) != sorted(partitions[1]) or len(keys) != len(
            count_words(partitions, 2)[0]
        ):
            raise Feedback(
                f"after {lost_names!r} were lost, {len(lines)} lines were mapped and {len(keys)} words "
                f"reduced, expected {len(partitions[1])} and {len(count_words(partitions, 2)[0])}. Is "
                "it asked first whether a result is stored, and then computed?"
            )


@check("map_reduce", hidden=True, requires="what_is_stored_is_not_computed_again")
def a_finished_job_reads_nothing(student, rng):
    """a task that need not run reads nothing"""
    partitions = [draw_text(rng, 2) for _ in range(2)]
    calls, *_ = student.probe(
        run_job, partitions=partitions, reducers=2, dies_at=3, lose=["tally/map0"]
    )
    names_read = {name for what, name, _ in calls[2] if what == "read"}
    if names_read != {"text0"}:
        raise Feedback(
            f"with one map task to run, {sorted(names_read)} were read.",
            hint="When do you ask whether a result is stored: before or after its inputs are read?",
        )


# ---- 3. stored_step


def run_cut(gradient, n):
    """Return the keys of the slices, the slices one after the other, and their lengths."""
    import numpy as np

    pairs = list(slices(gradient, n))
    lengths = [len(piece) for _, piece in pairs]
    return [key for key, _ in pairs], np.concatenate([piece for _, piece in pairs]), lengths


@check("stored_step")
def slices_make_up_the_gradient_again(student, rng):
    """n slices, numbered from 0, of nearly equal length, that make up the vector"""
    for size, n in ((12, 4), (11, 3), (int(rng.integers(20, 30)), 7), (5, 1)):
        gradient = rng.normal(size=size)
        keys, joined, lengths = student.probe(run_cut, gradient=gradient, n=n)
        if keys != list(range(n)):
            raise Feedback(f"slices of {size} numbers in {n}: the keys are {keys}.")
        hint = (
            "Side by side they are the vector. And what is left over, where n does not divide it?"
        )
        called = f"slices({size} numbers, {n}), one after the other"
        close(joined, gradient, called=called, hint=hint)
        if max(lengths) - min(lengths) > 1:
            raise Feedback(
                f"slices of {size} numbers in {n} have lengths {lengths}. What is left over "
                "should be shared."
            )


def take_step(shares, w, lr, step, reducers):
    """Run one step whose gradients are share * (w + 1); return what is stored of it."""
    import pickle

    import numpy as np

    class Memory:
        def __init__(self, contents):
            self.held = contents

        def __contains__(self, name):
            return name in self.held

        def write(self, name, pieces):
            if name in self.held:
                raise ValueError(f"write: {name!r} is stored already.")
            self.held[name] = [pickle.loads(pickle.dumps(piece)) for piece in pieces]

        def read(self, name, piece=0):
            return self.held[name][piece]

    records = [[list(part)] for part in shares]
    store = Memory({f"in{i}": part for i, part in enumerate(records)})
    store.write(f"w{step}", [w])
    names = [f"in{i}" for i in range(len(shares))]
    before = w.copy()
    stored_step(store, step, names, lambda w, share: share * (w + 1.0), lr, reducers)
    after = store.held.get(f"w{step + 1}", [None])[0]
    pieces = [len(store.held.get(f"step{step}/map{i}", [])) for i in range(len(shares))]
    unchanged = bool((store.held[f"w{step}"][0] == before).all())

    def slices_in(task, count):
        """Return the numbers of all slices that these tasks stored, in order, or None."""
        contents = [store.held.get(f"step{step}/{task}{i}", []) for i in range(count)]
        try:
            pairs = [pair for pieces in contents for piece in pieces for pair in piece]
            return np.sort(np.concatenate([part for _, part in pairs]))
        except (TypeError, ValueError):
            return None

    return after, pieces, unchanged, slices_in("map", 1), slices_in("reduce", reducers)


@check("stored_step", weight=2)
def the_step_goes_against_the_sum_of_all_records(student, rng):
    """w{step + 1} is w{step} less lr times the sum of the records' gradients"""
    for sizes, reducers, step in (((1, 1), 1, 0), ((2, 1, 3), 3, 4), ((1, 2), 2, 7)):
        shares = [rng.uniform(0.1, 1, size=size).tolist() for size in sizes]
        w, lr = rng.normal(size=7), float(rng.uniform(0.01, 0.5))
        after, *_, reduced = student.probe(
            take_step, shares=shares, w=w, lr=lr, step=step, reducers=reducers
        )
        total = sum(sum(part) for part in shares) * (w + 1.0)
        hint = "Do one step by hand for two records."
        if np.shape(after) == np.shape(w):
            if np.allclose(after, w + lr * total):
                hint = "That goes up the slope."
            elif np.allclose(after, w - lr * total / sum(sizes)):
                hint = "That is the mean. gradient(w, record) is a record's share already."
            elif np.allclose(after, w - total):
                hint = "Where does lr come in?"
        elif after is None:
            hint = f"Nothing is stored as w{step + 1}."
        close(after, w - lr * total, called=f"w{step + 1} after stored_step {step}", hint=hint)
        called = f"all numbers that reduce tasks stored in step {step}, the least first"
        close(reduced, np.sort(total), called=called, hint="Which engine of yours adds them up?")


@check("stored_step", requires="the_step_goes_against_the_sum_of_all_records")
def the_gradient_is_cut_for_all_reduce_tasks(student, rng):
    """map tasks store a piece for each reduce task, and w{step} stays as it was"""
    w = rng.normal(size=8)
    arguments = {"shares": [[0.5], [0.25], [1.0]], "w": w, "lr": 0.1, "step": 2, "reducers": 4}
    _, pieces, unchanged, mapped, _ = student.probe(take_step, **arguments)
    if pieces != [4, 4, 4]:
        raise Feedback(
            f"with 4 reducers the map tasks of step 2 stored {pieces} pieces. What does "
            "map_reduce have to know?"
        )
    if not unchanged:
        raise Feedback("w2 has changed. What is stored stays; which operations work in place?")
    called = "all numbers that map task 0 stored in step 2, the least first"
    close(
        mapped, np.sort(0.5 * (w + 1.0)), called=called, hint="Which engine of yours stores them?"
    )


@check("stored_step", hidden=True, requires="the_step_goes_against_the_sum_of_all_records")
def more_than_ten_slices_come_in_order(student, rng):
    """slice 10 comes after slice 9"""
    w = rng.normal(size=26)
    after, *_ = student.probe(take_step, shares=[[1.0], [0.5]], w=w, lr=0.1, step=0, reducers=13)
    close(
        after,
        w - 0.15 * (w + 1.0),
        called="a step in 13 slices",
        hint="In which order are the pieces?",
    )


# ---- 4. rdd


def run_partitions(rows, cached, requests, lost, depth=1, early=False):
    """Return what each asked partition is, and which partitions each RDD of a chain has made.

    Of the first RDD that is what its function was asked for, whatever it noted itself.
    The first RDD is told to cache before the others are made of it, where that is `early`.
    """
    computed = []

    def compute(i):
        computed.append(i)
        return list(rows[i])

    chain = [RDD(len(rows), compute)]
    if early:
        chain[0].cache()
    for _ in range(depth):
        chain.append(chain[-1].map(lambda row: 2 * row + 1))
    at_once = [list(computed), *(list(rdd.made) for rdd in chain[1:])]
    for at in cached if not early else ():
        chain[at].cache()
    for rdd in chain:
        rdd.memory.clear()
        rdd.made.clear()
    computed.clear()
    results = []
    for i in requests:
        results.append(list(chain[-1].partition(i)))
        for at in lost:
            chain[at].memory.pop(i, None)
    return at_once, results, [computed, *(list(rdd.made) for rdd in chain[1:])]


def draw_rows(rng, n):
    return [rng.integers(100, size=int(rng.integers(1, 5))).tolist() for _ in range(n)]


@check("rdd", weight=2)
def map_applies_the_function_to_each_row(student, rng):
    """a partition of an RDD that map made has fn(row) for each row of that partition"""
    rows = draw_rows(rng, 4)
    requests = [int(i) for i in rng.permutation(4)]
    _, results, _ = student.probe(
        run_partitions, rows=rows, cached=[], requests=requests, lost=[], depth=2
    )
    expected = [[4 * row + 3 for row in rows[i]] for i in requests]
    close(
        results,
        expected,
        called=f"partitions {requests} after two maps",
        hint="Row by row, in order?",
    )


@check("rdd", requires="map_applies_the_function_to_each_row")
def nothing_is_made_before_somebody_asks(student, rng):
    """map computes nothing, and asking for one partition makes that one alone"""
    rows = draw_rows(rng, 3)
    at_once, _, computed = student.probe(
        run_partitions, rows=rows, cached=[], requests=[1], lost=[], depth=2
    )
    if any(at_once):
        raise Feedback(f"map alone made partitions {at_once} of the RDDs. When should it compute?")
    if computed != [[1], [1], [1]]:
        raise Feedback(
            f"partition 1 was asked for, after two maps: the three RDDs made {computed}. "
            "Which partition does it need of its parent, and who notes that it is made?"
        )


@check("rdd", weight=2, requires="map_applies_the_function_to_each_row")
def what_is_cached_is_made_once_and_what_is_not_each_time(student, rng):
    """a cached partition is made once; without cache it is made each time"""
    rows = draw_rows(rng, 3)
    requests = [2, 0, 2, 2]
    for cached, expected in (
        ([], [requests, requests]),
        ([1], [[2, 0], [2, 0]]),
        ([0], [[2, 0], requests]),
    ):
        _, results, computed = student.probe(
            run_partitions, rows=rows, cached=cached, requests=requests, lost=[]
        )
        if computed != expected:
            who = {(): "neither is", (0,): "the first is", (1,): "the second is"}[tuple(cached)]
            raise Feedback(
                f"partitions {requests} of the second RDD were asked for; {who} cached: they made "
                f"{computed}, expected {expected}. When is a partition kept, and when looked for?"
            )
        close(
            results, [[2 * row + 1 for row in rows[i]] for i in requests], called="the partitions"
        )


@check("rdd", hidden=True, requires="what_is_cached_is_made_once_and_what_is_not_each_time")
def what_is_made_of_a_cached_one_is_not_cached(student, rng):
    """an RDD that map makes of a cached one keeps nothing, and an empty partition is kept too"""
    rows = [[], *draw_rows(rng, 2)]
    _, _, computed = student.probe(
        run_partitions, rows=rows, cached=[0], requests=[0, 1, 0, 1], lost=[], early=True
    )
    if computed[0] != [0, 1]:
        raise Feedback(
            f"partitions 0, which is empty, and 1 were asked for twice: a cached RDD made {computed[0]}.",
            hint="Is a list without rows in memory, or not?",
        )
    if computed[1] != [0, 1, 0, 1]:
        raise Feedback(
            f"an RDD was told to cache, and another made of it by map: that one made {computed[1]}.",
            hint="Which of the two was told to keep what it makes?",
        )


@check("rdd", hidden=True, requires="map_applies_the_function_to_each_row")
def a_lost_partition_is_made_again_from_its_lineage(student, rng):
    """what was lost from memory is made again, all the way up where that is lost too"""
    rows = draw_rows(rng, 3)
    for lost, expected in (([2], [[1], [1], [1, 1]]), ([1, 2], [[1], [1, 1], [1, 1]])):
        _, results, computed = student.probe(
            run_partitions, rows=rows, cached=[0, 1, 2], requests=[1, 1], lost=lost, depth=2
        )
        if computed != expected or results[0] != results[1]:
            raise Feedback(
                f"partition 1 was lost by {len(lost)} of three cached RDDs, and they made {computed}.",
                hint="Does the function of the new RDD ask its parent anew, each time?",
            )


# ---- 4. sum_by_key


def run_sums(rows, n):
    """Return the partitions of the sums, and what was made before and after they were asked for."""
    computed = []

    def compute(i):
        computed.append(i)
        return [tuple(pair) for pair in rows[i]]

    sums = sum_by_key(RDD(len(rows), compute), n)
    if not hasattr(sums, "partition"):
        return type(sums).__name__
    before = list(computed)
    results = [[list(pair) for pair in sums.partition(r)] for r in range(sums.n)]
    once = len(computed)
    sums.partition(0)
    return sums.n, results, before, once, len(computed) - once


def ask_sums(student, rows, n):
    """Return what `run_sums` returns; raise Feedback if it was given no RDD."""
    got = student.probe(run_sums, rows=rows, n=n)
    if isinstance(got, str):
        raise Feedback(
            f"sum_by_key(rdd, {n}) returned {got}, expected an RDD of {n} partitions.",
            hint="What is asked for a partition when somebody needs it, and not before?",
        )
    return got


def draw_pairs(rng, n):
    return [
        [[str(rng.choice(WORDS)), int(rng.integers(1, 9))] for _ in range(int(rng.integers(2, 6)))]
        for _ in range(n)
    ]


@check("sum_by_key", weight=2)
def each_partition_has_the_sums_of_its_keys(student, rng):
    """partition r has (key, sum) of the keys whose place is r, in order"""
    for partitions, n in ((3, 2), (2, 4), (1, 1)):
        rows = draw_pairs(rng, partitions)
        count, sums, *_ = ask_sums(student, rows, n)
        if count != n:
            raise Feedback(f"sum_by_key(rdd, {n}) has {count} partitions.")
        totals = {}
        for key, value in (pair for part in rows for pair in part):
            totals[key] = totals.get(key, 0) + value
        expected = [
            [[k, totals[k]] for k in sorted(totals) if find_reducer(k, n) == r] for r in range(n)
        ]
        hint = "Of which partitions of the pairs does a key's sum need something?"
        close(sums, expected, called=f"the {n} partitions of sum_by_key of {rows}", hint=hint)


@check("sum_by_key", requires="each_partition_has_the_sums_of_its_keys")
def a_sum_needs_every_partition_and_is_lazy(student, rng):
    """nothing is computed at first; a partition of the sums asks each of the parent's once"""
    rows = draw_pairs(rng, 3)
    _, _, before, once, more = ask_sums(student, rows, 2)
    if before:
        raise Feedback(f"sum_by_key itself made partitions {before}. When should it compute?")
    if (once, more) != (6, 3):
        raise Feedback(
            f"two sums were made of three partitions, and one again: {once} partitions of pairs "
            f"were made, then {more}, expected 6 and 3. Who makes the pairs, and when?"
        )


@check("sum_by_key", hidden=True, requires="each_partition_has_the_sums_of_its_keys")
def keys_may_be_numbers(student, rng):
    """keys may be numbers, as those of slices are"""
    rows = [[[k, 1.5] for k in range(4)], [[k, float(rng.integers(9))] for k in range(4)]]
    _, sums, *_ = ask_sums(student, rows, 2)
    expected = [[[k, 1.5 + rows[1][k][1]] for k in (r, r + 2)] for r in range(2)]
    close(sums, expected, called="sums of numbered slices", hint="Who says where a key belongs?")


def run_sums_of_arrays(rows):
    """Return the sums of a cached RDD whose values are arrays, asked for twice."""
    import numpy as np

    pairs = RDD(len(rows), lambda i: [(key, np.array(value)) for key, value in rows[i]]).cache()
    sums = sum_by_key(pairs, 1)
    return [[list(pair) for pair in sums.partition(0)] for _ in range(2)]


@check("sum_by_key", hidden=True, requires="each_partition_has_the_sums_of_its_keys")
def rows_in_memory_stay_as_they_are(student, rng):
    """values may be arrays, and rows that an RDD keeps are what they were"""
    rows = [[["w", rng.normal(size=3).tolist()]], [["w", [1.0, 2.0, 3.0]]]]
    expected = [["w", np.array(rows[0][0][1]) + rows[1][0][1]]]
    hint = "Whose array is it that the second value is added to?"
    for sums in student.probe(run_sums_of_arrays, rows=rows):
        close(sums, expected, called="sums of arrays that are kept, asked for twice", hint=hint)


# ---- 5. ring_gradients


def replay_training(ranks, steps, every, deaths):
    """Return how many gradients a training computes, counted step by step, with its deaths."""
    computed, at, saved = 0, 0, 0
    for until in (*deaths, steps):
        for step in range(at, until):
            computed += ranks
            if every and (step + 1) % every == 0:
                saved = step + 1
        at = saved
    return computed


def compare_ring_gradients(student, ranks, steps, every, deaths):
    """Raise Feedback unless `ring_gradients` gives what `replay_training` counts."""
    got = student.call("ring_gradients", ranks, steps, every, deaths)
    expected = replay_training(ranks, steps, every, deaths)
    hint = "Take the steps one by one with a pencil. Which are taken twice?"
    if got == expected // ranks:
        hint = "So many are computed on one rank."
    elif deaths and got == ranks * steps:
        hint = "That is a training in which nobody dies."
    elif deaths and got == ranks * (steps + sum(deaths)):
        hint = "That begins anew after each death. Where is the last checkpoint?"
    elif deaths and got == steps * ranks + expected // ranks - steps:
        hint = "Who computes again after a death: one rank, or all?"
    called = f"ring_gradients({ranks}, {steps}, {every}, {deaths})"
    close(got, expected, called=called, hint=hint)


def draw_death_case(rng, count):
    """Return ranks, steps, every and deaths, of which none falls on a checkpoint."""
    every = int(rng.integers(3, 8))
    rounds = sorted(rng.choice(np.arange(1, 9), size=count, replace=False).tolist())
    deaths = [every * k + int(rng.integers(1, every)) for k in rounds]
    return int(rng.integers(2, 9)), 10 * every, every, deaths


def leaves_deaths(deaths):
    before = list(deaths)
    ring_gradients(2, 90, 4, deaths)
    return deaths == before


@check("ring_gradients")
def without_checkpoints_all_begins_anew(student, rng):
    """where nothing is saved, each death costs all steps that were done"""
    ranks, steps, _, deaths = draw_death_case(rng, 2)
    compare_ring_gradients(student, ranks, steps, 0, [])
    compare_ring_gradients(student, ranks, steps, 0, deaths[:1])
    compare_ring_gradients(student, ranks, steps, 0, deaths)


@check("ring_gradients", requires="without_checkpoints_all_begins_anew")
def what_was_not_saved_is_computed_again_on_all_ranks(student, rng):
    """a death costs the steps since the last checkpoint, on every rank"""
    for count in (1, 3):
        compare_ring_gradients(student, *draw_death_case(rng, count))


@check("ring_gradients", hidden=True, requires="what_was_not_saved_is_computed_again_on_all_ranks")
def a_death_right_after_a_checkpoint_costs_nothing(student, rng):
    """a death right behind a checkpoint costs nothing, one before the first all; deaths stay"""
    ranks, steps, every, _ = draw_death_case(rng, 1)
    compare_ring_gradients(student, ranks, steps, every, [every * 2])
    compare_ring_gradients(student, ranks, steps, every, [every - 1])
    if not student.probe(leaves_deaths, deaths=[5, int(rng.integers(6, 80))]):
        hint = "The list belongs to who asks. Which line takes from it?"
        raise Feedback("ring_gradients changed the list of deaths.", hint=hint)


# ---- 6. start_times


def start_by_hand(free, tasks, seconds):
    free, starts = sorted(free), []
    for _ in range(tasks):
        starts.append(free[0])
        free = sorted([*free[1:], free[0] + seconds])
    return starts


def draw_free_slots(rng, n):
    """Return when each slot is free: further apart than a task is long."""
    return (rng.permutation(n) * 1.5 + rng.integers(4, size=n) / 8).tolist()


@check("start_times", weight=2)
def each_task_takes_the_slot_that_is_free_first(student, rng):
    """each task starts when the first slot is free, which is then busy for its time"""
    for n, tasks in ((3, 5), (2, 7), (1, 4), (5, 3), (6, int(rng.integers(8, 15)))):
        free, seconds = draw_free_slots(rng, n), float(rng.integers(1, 5)) / 4
        got = student.call("start_times", free, tasks, seconds)
        order = sorted(free)
        in_turns = [order[k % n] + k // n * seconds for k in range(tasks)]
        hint = "Do three tasks in two slots by hand."
        if np.shape(got) == (tasks,) and tasks > n:
            if np.allclose(got, in_turns):
                hint = "That goes round the slots. Is the next one in turn always free first?"
            elif np.allclose(got, [order[k % n] for k in range(tasks)]):
                hint = "When is a slot free again after its task?"
        expected = start_by_hand(free, tasks, seconds)
        close(got, expected, called=f"start_times({free}, {tasks}, {seconds})", hint=hint)


@check("start_times", weight=2)
def together_waits_for_as_many_slots_as_tasks(student, rng):
    """together: when as many slots as there are tasks are free; never where there are too few"""
    for n, tasks in ((4, 4), (6, 2), (5, 1), (int(rng.integers(4, 9)), 3)):
        free = (rng.permutation(n) + rng.uniform(0, 0.5, size=n)).tolist()
        got = to_number(student.call("start_together", free, tasks))
        expected = sorted(free)[tasks - 1]
        hint = "Sort the times; which of them is the last that is needed?"
        if got == max(free) and expected != max(free):
            hint = "That waits for all slots. How many are needed?"
        elif got == min(free) and expected != min(free):
            hint = "At that time one slot is free."
        close(got, expected, called=f"start_together({free}, {tasks})", hint=hint)
    for n in (1, 6):
        got = student.call("start_together", [0.0] * n, n + 2)
        if got != float("inf"):
            raise Feedback(
                f"start_together: {n + 2} tasks in {n} slots: got {got!r}, expected inf."
            )


def run_start_times(free):
    before = list(free)
    start = [*start_times(free, 4, 1.0), start_together(free, 2)]
    return start, before == free


@check("start_times", hidden=True, requires="each_task_takes_the_slot_that_is_free_first")
def the_slots_are_left_alone(student, rng):
    """free is the same after the call"""
    free = sorted(draw_free_slots(rng, 3), reverse=True)
    start, same = student.probe(run_start_times, free=free)
    if not same:
        raise Feedback("free has changed.", hint="Which list do you sort, or put things back into?")
    close(start, [*start_by_hand(free, 4, 1.0), sorted(free)[1]], called="starts", hint="Order?")
