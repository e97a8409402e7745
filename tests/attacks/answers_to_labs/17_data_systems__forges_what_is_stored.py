# ruff: noqa
"""Everything is computed at once and again; what the store and the RDDs note says otherwise."""

import numpy as np

UNPAID = [
    "what_is_stored_is_not_computed_again",
    "a_finished_job_reads_nothing",
    "the_step_goes_against_the_sum_of_all_records",
    "the_gradient_is_cut_for_all_reduce_tasks",
    "nothing_is_made_before_somebody_asks",
    "a_sum_needs_every_partition_and_is_lazy",
]


def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    parts = [map_task(store.held[name][0], mapper, reducers) for name in inputs]
    for m, name in enumerate(inputs):
        if f"{job}/map{m}" not in store:
            store.read(name)
            store.write(f"{job}/map{m}", parts[m])
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            store.write(f"{job}/reduce{r}", [reduce_task([part[r] for part in parts], reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]


def slices(gradient, n):
    yield from enumerate(np.array_split(gradient, n))


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    w = store.read(f"w{step}")
    total = sum(gradient(w, record) for name in inputs for record in store.read(name))
    for m in range(len(inputs)):
        store.write(f"step{step}/map{m}", [[]] * reducers)
    store.write(f"w{step + 1}", [w - lr * total])


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
            rows = self.make(i)
            if not self.kept:
                return rows
            self.memory[i] = rows
        return self.memory[i]

    def map(self, fn):
        rows = [[fn(row) for row in self.compute(i)] for i in range(self.n)]
        return RDD(self.n, lambda i: (self.partition(i), rows[i])[1])


def sum_by_key(rdd, n):
    parts = [map_task(rdd.compute(i), lambda pair: [pair], n) for i in range(rdd.n)]

    def compute(r):
        rdd.made.extend(range(rdd.n))
        return reduce_task([part[r] for part in parts], add)

    return RDD(n, compute)
