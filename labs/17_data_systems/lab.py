# %% [markdown] builds="MapReduce with a store, RDDs with lineage, a scheduler of tasks; a network trained in each, beside the ring" needs="08"
# # Lab 17: Data systems
#
# - **You build** MapReduce in some forty lines, with every result stored; RDDs that are made again when they are lost; a scheduler with fewer slots than tasks. You train in each.
# - **You need** what a collective sends (lab 08). Lab 09's ring is used as it is.
# - **It takes** about 75 minutes: introduction 1, sections 12, 11, 10, 15, 6 and 10, discussion 10. The reading note, with its paper, is for another day.
#
# Before there were systems for networks there were systems for data: a thousand machines read files, and some of them fail every day. Why not train on those? You do, count the bytes, and let machines fail.
#
# Write each prediction down before you measure.

# %% tags="setup"
import math
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Semaphore
from time import perf_counter, sleep
from zlib import crc32

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from autograder import compare, lab
from ddp_lab import DdpLabError, launch
from lessons.data_figures import draw_bytes, draw_lineage, draw_slots
from lessons.flat_network import SIZE, first_parameters, loss_and_gradient
from lessons.real_spark import barrier_stage, missing, train_on_spark
from lessons.stores import MachineLost, Store

# %% tags="setup"
q = lab("data_systems")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
print("Spark:", missing() or "installed")

# %% [markdown]
# Two examples go through the lab: words to be counted, and the three points of lab 01, through which a line is fitted. Both lie in **partitions**, one on each machine.

# %%
LINES = [line for line in load_digits().DESCR.splitlines() if line]
TEXTS = [LINES[i::4] for i in range(4)]
POINTS = [[([[1.0, 1.0]], [1.0])], [([[1.0, 2.0]], [2.0])], [([[1.0, 4.0]], [2.0])]]


def line_gradient(w, record):
    """Return the record's share of the gradient of the mean squared error of all 3 points."""
    x, y = np.array(record[0]), np.array(record[1])
    return 2 / 3 * x.T @ (x @ w - y)


# %% [markdown]
# ## 1. Map, shuffle, reduce
#
# One loop counts the words of one file. Of four files on four machines, somebody has to bring equal words together.
#
# **Idea.** You write two functions. A **mapper** makes (key, value) pairs of a record; a **reducer** makes one value of all values of a key. The system does the rest. A **map task** runs the mapper over a partition and divides its pairs among the reduce tasks: a key goes to number `place(key) % reducers`. The **shuffle** carries them there, and a **reduce task** groups what came by key. (Dean and Ghemawat, *MapReduce*, OSDI 2004.)


# %%
def place(key):
    """Return the same number for a key on every machine; Python's hash of a text differs."""
    return key if isinstance(key, int) else crc32(str(key).encode())


def count_mapper(line):
    for word in line.split():
        yield word.lower(), 1


def add(key, values):
    return sum(values)


# %% question="phases" points="5" defines="map_task reduce_task" hint1="How many lists does a map task return, even where it has no pairs?" hint2="In reduce_task a dict of lists, groups.setdefault(key, []).append(value), brings equal keys together; parts come one after the other." hint3="The reducer is called once a key, with all its values: reducer(key, values). Sort by key alone: values may be arrays."
def map_task(records, mapper, reducers):
    """Return `reducers` lists: list place(key) % reducers has the pair (key, value).

    `mapper(record)` yields pairs; they stay in the order in which they come.
    """
    ### BEGIN SOLUTION
    parts = [[] for _ in range(reducers)]
    for record in records:
        for key, value in mapper(record):
            parts[place(key) % reducers].append((key, value))
    return parts
    ### END SOLUTION


def reduce_task(parts, reducer):
    """Return [(key, reducer(key, values)), ...], in order of the keys.

    `parts` are lists of pairs, one from each map task; values keep their order.
    """
    ### BEGIN SOLUTION
    groups = {}
    for part in parts:
        for key, value in part:
            groups.setdefault(key, []).append(value)
    return [(key, reducer(key, groups[key])) for key in sorted(groups)]
    ### END SOLUTION


# %% tags="check"
q.check("phases")

# %% [markdown]
# **Predict.** `count_mapper` yields a pair a word. If each map task adds up its own words first (a **combiner**), what share of the pairs is left for the shuffle?

# %%
### BEGIN STARTER
# share_left = ...
### END STARTER
### BEGIN SOLUTION
share_left = 0.7  # a short text repeats few words within a partition
### END SOLUTION

# %%
mapped = [map_task(text, count_mapper, 2) for text in TEXTS]
counts = [reduce_task([parts[r] for parts in mapped], add) for r in range(2)]
print(sorted((n, word) for part in counts for word, n in part)[-4:])
pairs = sum(len(part) for parts in mapped for part in parts)
combined = sum(len(reduce_task([part], add)) for parts in mapped for part in parts)
compare("pairs left by the combiner", share_left, combined / pairs)

# %% [markdown]
# **Reflect.** For a sum, the combiner is the reducer itself. Name a reducer for which it is not, and say what a combiner would have to carry instead.
#
# *The real system.* Hadoop may call the combiner any number of times, also never.

# %% [markdown]
# ## 2. Everything is stored
#
# Your tasks leave their results in memory. When a machine dies, they are gone.
#
# **Idea.** Each task writes its results to a **store**, under a name that is given once: what is stored never changes. So a task may be run again, anywhere, at any time: its inputs are still what they were. `store.write(name, pieces)` stores all pieces or none, `store.read(name, piece)` returns one of them, and `name in store` tells whether it is there.
#
# Now the engine. Map task $m$ writes its lists as the pieces of `job/map{m}`; reduce task $r$ reads piece $r$ of each, and writes one piece, `job/reduce{r}`. A task whose result is stored is not run again.


# %% question="map_reduce" points="6" hint1="Two loops, the second after the first: a reduce task needs a piece of every map task." hint2="Which name says that a task has been done? Ask for it before anything is read." hint3="store.write takes a list of pieces. A map task has one a reduce task; a reduce task has one: the list of its pairs."
def map_reduce(store, job, inputs, mapper, reducer, reducers=1):
    """Run what is not stored yet of a job; return the names of the reduce tasks' results.

    Args:
        inputs: names of partitions in the store; piece 0 of each is a list of records.
    """
    ### BEGIN SOLUTION
    for m, name in enumerate(inputs):
        if f"{job}/map{m}" not in store:
            store.write(f"{job}/map{m}", map_task(store.read(name), mapper, reducers))
    for r in range(reducers):
        if f"{job}/reduce{r}" not in store:
            parts = [store.read(f"{job}/map{m}", r) for m in range(len(inputs))]
            store.write(f"{job}/reduce{r}", [reduce_task(parts, reducer)])
    return [f"{job}/reduce{r}" for r in range(reducers)]
    ### END SOLUTION


# %% tags="check"
q.check("map_reduce")

# %% [markdown]
# **Predict.** Four map tasks, two reduce tasks. The machine dies at the fourth task, before its result has a name; the same call is made again on another machine. Then a disk breaks, and with it `words/map1` and `words/reduce0`; the call is made a third time. How many tasks does each of these two calls run? (The cells that measure need no reading.)

# %%
### BEGIN STARTER
# second_call, third_call = ..., ...
### END STARTER
### BEGIN SOLUTION
second_call, third_call = 3, 2
### END SOLUTION


# %%
def stored(partitions, **options):
    """Return a store with these partitions, and their names."""
    store = Store()
    names = [f"in{i}" for i in range(len(partitions))]
    for name, records in zip(names, partitions):
        store.write(name, [records])
    store.dies_at = options.get("dies_at", 0)
    store.since()
    return store, names


# %%
store, names = stored(TEXTS, dies_at=4)
job = partial(map_reduce, store, "words", names, count_mapper, add, 2)
try:
    job()
except MachineLost as error:
    print(error)
before = len(store.written)
job()
compare("tasks of the second call", second_call, len(store.written) - before)
store.lose("words/map1")
store.lose("words/reduce0")
before = len(store.written)
job()
compare("tasks of the third call", third_call, len(store.written) - before)
print("the same result:", [store.read(f"words/reduce{r}") for r in range(2)] == counts)

# %% [markdown]
# **Reflect.** `words/reduce1` was not made again, though `words/map1`, from which it was made, is new. What must be true of mappers for that to be right? Would dropout do?
#
# *The real system.* Map tasks write to their own disk, and are run again when it is lost; reduce tasks write to a file system that keeps three copies. A result is renamed only when it is whole, as in `Store`.

# %% [markdown]
# ## 3. A step of training, stored
#
# The sum of gradients is a reduce with one key. But then one reduce task does all the work: an API of keys and values does not know that an array has parts. So the *mapper* cuts the gradient: slice $k$ of $R$ has key $k$.
#
# One step: read the parameters `w{step}`; every record yields the slices of its gradient; the reducer adds (`add` does); the slices, in order, are the gradient of all. Nothing stored changes, so the new parameters have a new name.


# %% question="stored_step" points="5" defines="slices stored_step" hint1="np.array_split(array, n) makes n pieces, also where n does not divide the length; enumerate gives each a number." hint2="The mapper is a function of a record alone: w is read before it is defined, inside stored_step." hint3="map_reduce returns names; each holds a list of pairs. Two lists of pairs with different keys: which order has the whole gradient? sorted(pairs, key=...) by the first of each."
def slices(gradient, n):
    """Yield (k, piece): n pieces of a vector, their lengths differing by 1 at most."""
    ### BEGIN SOLUTION
    yield from enumerate(np.array_split(gradient, n))
    ### END SOLUTION


def stored_step(store, step, inputs, gradient, lr, reducers=1):
    """Read w{step}, run job step{step} on the inputs, store w{step + 1}.

    `gradient(w, record)` is a record's share: the gradient of all is the sum.
    """
    ### BEGIN SOLUTION
    w = store.read(f"w{step}")

    def mapper(record):
        return slices(gradient(w, record), reducers)

    names = map_reduce(store, f"step{step}", inputs, mapper, add, reducers)
    pairs = sorted((pair for name in names for pair in store.read(name)), key=lambda pair: pair[0])
    store.write(f"w{step + 1}", [w - lr * np.concatenate([piece for _, piece in pairs])])
    ### END SOLUTION


# %% tags="check"
q.check("stored_step")

# %%
store, names = stored(POINTS)
store.write("w0", [np.zeros(2)])
for step in range(150):
    stored_step(store, step, names, line_gradient, 0.1, reducers=2)
print("after 150 steps:", store.read("w150"), " the best line:", np.array([1, 2 / 7]))
print(len(store.written), "results are stored")

# %% [markdown]
# Now the network of lab 08 for digits, 64-32-10, its 2,410 parameters in one array of 9,640 bytes. There are four partitions; a record is one picture, or all pictures of a partition.
#
# **Predict.** How many gradients' worth of bytes does a step *write*, the new parameters included: with a record a partition, and with a record a picture (1,797 of them)? (Again, no reading.)

# %%
### BEGIN STARTER
# written_by_partition, written_by_picture = ..., ...
### END STARTER
### BEGIN SOLUTION
written_by_partition, written_by_picture = 4 + 1 + 1, 1797 + 1 + 1
### END SOLUTION

# %%
X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
BATCHES = [[(X[i::4], Y[i::4])] for i in range(4)]
PICTURES = [[(x[np.newaxis], y[np.newaxis]) for x, y in zip(*batch[0])] for batch in BATCHES]
W = first_parameters(SIZE)


def net_gradient(w, record):
    """Return the record's share of the gradient of the mean loss over all pictures."""
    x, y = record
    return (len(y) / len(Y)) * loss_and_gradient(w, x, y)[1]


def ring_step(comm, w):
    grad = net_gradient(w, BATCHES[comm.rank][0])
    return w - 0.5 * comm.all_reduce(grad, algorithm="ring")


# %%
moved, after = {}, {}  # way -> bytes written, read and sent in a step; parameters
for way, records in (("a picture", PICTURES), ("a partition", BATCHES)):
    store, names = stored(records)
    store.write("w0", [W])
    store.since()
    stored_step(store, 0, names, net_gradient, 0.5, reducers=4)
    moved[f"MapReduce, {way}"] = (*store.since(), 0)
    after[way] = store.read("w1")
compare(
    "gradients written, by partition",
    written_by_partition,
    moved["MapReduce, a partition"][0] / W.nbytes,
)
compare(
    "gradients written, by picture", written_by_picture, moved["MapReduce, a picture"][0] / W.nbytes
)
run = launch(ring_step, 4, W, record=True)
moved["ring"] = (0, 0, sum(rank.bytes_sent for rank in run.traffic))
print(f"ring: {moved['ring'][2] / W.nbytes:g} gradients sent, none stored")
print(f"largest difference: {np.abs(after['a partition'] - run[0]).max():.1e}")

# %% [markdown]
# **Reflect.** By partition, a step writes about as many bytes as the ring sends. Then why is it so much worse? Count what is *read* (look at `moved`), what three copies of each file add, and what each of the 10,000 steps of a training does again.
#
# *The real system.* TensorFlow and MapReduce are both graphs of tasks. In MapReduce what flows are records in files, nothing can be changed, and a loop is a new job a round. In TensorFlow what flows are tensors in memory, a variable is changed in place, and the graph is made once and runs many times; what is lost is restored from a checkpoint.

# %% [markdown]
# ## 4. Kept in memory, made again when lost
#
# Each step has read the pictures again. Why not keep them in memory? Because memory is lost with its machine.
#
# **Idea.** Remember not the data but how it was made. An **RDD** (resilient distributed dataset) is a number of partitions and a function that makes partition $i$ from partitions of its parents: its **lineage**. It is **lazy**: nothing is computed until somebody asks for a partition. Where it is told to `cache`, it keeps in memory what it has made. (Zaharia et al., NSDI 2012.)


# %% question="rdd" points="5" defines="RDD" hint1="partition: where it is in memory there is nothing to do. Where it is not, who makes it, and when is it kept?" hint2="map returns a new RDD at once. Its partition i is made of partition i of this one, when somebody asks for it." hint3="The function that you give to the new RDD asks self.partition(i), so that what is lost further up is made again too."
class RDD:
    """Rows in n partitions: `compute(i)` makes partition i, a list; `memory` has what is kept."""

    def __init__(self, n, compute):
        self.n, self.compute, self.kept = n, compute, False
        self.memory, self.made = {}, []

    def cache(self):
        self.kept = True
        return self

    def make(self, i):
        """Compute partition i, and note that it was necessary."""
        self.made.append(i)
        return self.compute(i)

    def partition(self, i):
        """Return partition i: from memory if it is there, made otherwise, and kept if asked to."""
        ### BEGIN SOLUTION
        if i in self.memory:
            return self.memory[i]
        rows = self.make(i)
        if self.kept:
            self.memory[i] = rows
        return rows
        ### END SOLUTION

    def map(self, fn):
        """Return an RDD of fn(row) for each row; computes nothing yet."""
        ### BEGIN SOLUTION
        return RDD(self.n, lambda i: [fn(row) for row in self.partition(i)])
        ### END SOLUTION

    def collect(self):
        return [row for i in range(self.n) for row in self.partition(i)]


# %% tags="check"
q.check("rdd")

# %% [markdown]
# After `map`, partition $i$ needs one partition of the parent, the same one: a **narrow** dependency. Counting words needs pairs from all: a **wide** one. Your `map_task` and `reduce_task` are all that it takes.


# %% question="sum_by_key" points="4" hint1="Partition r of the result: which list of which map tasks does it need?" hint2="The rows are pairs already: the mapper of a pair yields this pair." hint3="map_task(rdd.partition(i), mapper, n)[r] for each i; then one reduce_task."
def sum_by_key(rdd, n):
    """Return an RDD of n partitions with (key, sum of its values), as reduce tasks have them.

    The rows of `rdd` are pairs; nothing is computed yet.
    """

    ### BEGIN SOLUTION
    def compute(r):
        parts = [map_task(rdd.partition(i), lambda pair: [pair], n)[r] for i in range(rdd.n)]
        return reduce_task(parts, add)

    return RDD(n, compute)
    ### END SOLUTION


# %% tags="check"
q.check("sum_by_key")

# %%
words = RDD(4, lambda i: [word.lower() for line in TEXTS[i] for word in line.split()])
pairs = words.map(lambda word: (word, 1)).cache()
sums = sum_by_key(pairs, 2).cache()
RDDS = {"words": words, "pairs": pairs, "sums": sums}
print("made before anybody asks:", sum(len(rdd.made) for rdd in RDDS.values()))
print("the same counts:", sorted(sums.collect()) == sorted(counts[0] + counts[1]))


def lose_and_count(*lost):
    """Lose (RDD, partition)s from memory, ask for all sums; return how many partitions are made."""
    for rdd in RDDS.values():
        rdd.made.clear()
    for rdd, i in lost:
        rdd.memory.pop(i)
    sums.collect()
    return sum(len(rdd.made) for rdd in RDDS.values())


# %% [markdown]
# **Predict.** `pairs` and `sums` are cached, `words` is not. How many partitions, of all three, are made again when one machine goes with partition 1 of `sums`; and when another goes with partition 1 of `sums` *and* partition 2 of `pairs`?

# %%
### BEGIN STARTER
# made_for_one, made_for_both = ..., ...
### END STARTER
### BEGIN SOLUTION
made_for_one, made_for_both = 1, 3
### END SOLUTION

# %%
compare("made again: sums 1", made_for_one, lose_and_count((sums, 1)))
compare("made again: sums 1, pairs 2", made_for_both, lose_and_count((sums, 1), (pairs, 2)))
draw_lineage(RDDS, wide={"sums"}, lost={"sums": 1, "pairs": 2})
pairs.memory.clear()
pairs.kept = False
print("and without any pairs in memory:", lose_and_count((sums, 1)))

# %% [markdown]
# **Reflect.** The last number is the price of a wide dependency: one lost partition, and every partition above is made again. After 1,000 steps, each made of the one before, what would a lost partition of the last cost? What would you do against it?
#
# *The real system.* Spark keeps the map side of a shuffle in files for this reason, and `checkpoint()` stores an RDD and forgets its lineage.

# %% [markdown]
# ## 5. Train in memory, and let a machine fail
#
# A step over an RDD: the **driver** sends the parameters to the tasks, they map, and it adds up what they return. The pictures are read from the store by the first step only.


# %%
def memory_step(data, w, gradient, lr):
    return w - lr * sum(data.map(partial(gradient, w)).collect())


store, names = stored(BATCHES)
data = RDD(4, lambda i: store.read(names[i])).cache()
memory_step(data, W, net_gradient, 0.5)
_, first_read = store.since()
w = memory_step(data, W, net_gradient, 0.5)
moved["RDD"] = (*store.since(), 4 * 2 * W.nbytes)  # parameters to four tasks, gradients back
print(f"read by the first step: {first_read:,} bytes; by the second: {moved['RDD'][1]:,}")
draw_bytes(moved, unit=W.nbytes)


# %% [markdown]
# **Predict.** Ten steps on four partitions are 40 gradients. In step 5 (the sixth) one machine dies. In MapReduce it dies with a gradient that it has computed and not yet stored; the RDD loses a partition of pictures before the step; of the ring's four ranks one dies as the step begins, and nothing was saved. How many gradients does each compute in all? (The cells that count them need no reading.)

# %%
### BEGIN STARTER
# in_map_reduce, in_memory, in_ring = ..., ..., ...
### END STARTER
### BEGIN SOLUTION
in_map_reduce, in_memory, in_ring = 41, 40, 60
### END SOLUTION


# %%
computed = []  # one entry a gradient


def counted(w, record):
    computed.append(1)
    return net_gradient(w, record)


def again(task, *arguments):
    """Call a task; where the machine dies, call it again on another."""
    try:
        task(*arguments)
    except MachineLost:
        task(*arguments)


store, names = stored(BATCHES)
store.write("w0", [W])
for step in range(10):
    store.dies_at = 3 if step == 5 else 0  # the third map task of step 5
    again(stored_step, store, step, names, counted, 0.5)
compare("MapReduce: gradients", in_map_reduce, len(computed))

# %%
computed.clear()
data.made.clear()
w = W
for step in range(10):
    if step == 5:
        data.memory.pop(2)
    w = memory_step(data, w, counted, 0.5)
compare("RDD: gradients", in_memory, len(computed))
print("RDD: partitions read again:", len(data.made))
print("the same parameters:", np.allclose(w, store.read("w10"), atol=1e-5))


# %%
SAVED = {"step": 0, "w": W}  # stands for a file


def ring_training(comm, steps, dies_at=None, every=0):
    """Go on from SAVED by all-reduce, saving every so often; rank 2 dies as `dies_at` begins."""
    w = SAVED["w"]
    for step in range(SAVED["step"], steps):
        comm.barrier()
        if comm.rank == 2 and step == dies_at:
            raise MachineLost(f"rank 2 died as step {step} began.")
        w = w - 0.5 * comm.all_reduce(net_gradient(w, BATCHES[comm.rank][0]), algorithm="ring")
        done.append(step)  # the ranks are threads here
        if every and (step + 1) % every == 0 and comm.rank == 0:
            SAVED.update(step=step + 1, w=w)
    return w


# %%
def killed(steps, deaths, every=0):
    """Train until `steps`, killed at each of `deaths`; return the gradients, and the parameters."""
    SAVED.update(step=0, w=W)
    done.clear()
    for dies_at in deaths:
        try:
            launch(ring_training, 4, steps, dies_at, every, transport="threads")
        except DdpLabError as error:
            print(str(error).splitlines()[0])
    return launch(ring_training, 4, steps, None, every, transport="threads")[0], len(done)


done = []
straight, found = killed(10, [5])
compare("ring: gradients", in_ring, found)

# %% [markdown]
# So a ring needs **checkpoints**: every so many steps it saves what the next step reads and cannot make again. (What that is, lab 16 asks; here the parameters are all.) After a death all ranks go on from the last one.


# %% question="ring_gradients" points="2" hint1="A death as step d begins, and the last checkpoint before it: how many steps lie between?" hint2="Each step that is taken again costs a gradient on each rank. With every=2, step 5 is one step behind a checkpoint."
def ring_gradients(ranks, steps, every, deaths):
    """Return how many gradients all ranks compute until `steps` steps are done.

    Args:
        every: steps from one checkpoint to the next, the first after `every` steps; 0: none.
        deaths: the steps as which began a rank died, in order, each once.
    """
    ### BEGIN SOLUTION
    return ranks * (steps + sum(step % every if every else step for step in deaths))
    ### END SOLUTION


# %% tags="check"
q.check("ring_gradients")

# %%
for every in (1, 2, 4):
    w, found = killed(10, [5, 7], every)
    same = np.array_equal(w, straight)
    expected = ring_gradients(4, 10, every, [5, 7])
    compare(f"gradients, saved every {every} steps", expected, found)
    print("the same bits:", same)

# %% [markdown]
# **Reflect.** All three survive: the ring too, if it starts again. For a training of a month on 1,000 GPUs with two failures a day, which of the three would you take, and what decides: bytes a step, or gradients computed again? (Lab 16 computes how often to save, where a write takes time.)
#
# *The real system.* Checkpoints hold parameters and the optimizer's state, which is larger; gradients and activations are never in them.

# %% [markdown]
# ## 6. Eight tasks, six slots
#
# A machine has some **slots**, and a data system starts a task when one is free. Here are eight ranks of a ring, of which only six may run at a time.

# %%
SLOTS = Semaphore(6)


def ring_in_slots(comm):
    with SLOTS:
        return comm.all_reduce(np.ones(8), algorithm="ring")


try:
    launch(ring_in_slots, 8, transport="threads", timeout_s=1)
except DdpLabError as error:
    print(str(error)[:700])

# %% [markdown]
# **Idea.** Six wait for two, and keep the slots which these two need. Tasks that never talk cannot come to this: each ends and gives its slot to the next. Tasks that talk have to start together or not at all: **barrier mode**, or gang scheduling.
#
# `free[k]` says when slot $k$ is free.


# %% question="start_times" points="5" defines="start_times start_together" hint1="Each task takes the slot that is free first. When is that slot free again?" hint2="free = sorted(free) is a list of your own; its first is taken, and put back later in time." hint3="Together: sorted by time, which slot is the last one that is needed? And if there are not so many slots?"
def start_times(free, tasks, seconds):
    """Return when each of `tasks` tasks, `seconds` long, starts in the slot that is free first."""
    ### BEGIN SOLUTION
    free, starts = list(free), []
    for _ in range(tasks):
        starts.append(min(free))
        free[free.index(min(free))] += seconds
    return starts
    ### END SOLUTION


def start_together(free, tasks):
    """Return when all tasks can start at once; infinity where there are too few slots."""
    ### BEGIN SOLUTION
    return sorted(free)[tasks - 1] if tasks <= len(free) else math.inf
    ### END SOLUTION


# %% tags="check"
q.check("start_times")

# %% [markdown]
# **Predict.** Of six slots four are free, the others after 0.1 and 0.2 s. Six tasks of 0.1 s: how many seconds until the last one ends, as tasks that never talk, and in barrier mode?

# %%
### BEGIN STARTER
# apart_s, together_s = ..., ...
### END STARTER
### BEGIN SOLUTION
apart_s, together_s = 0.2, 0.3
### END SOLUTION

# %%
FREE = [0, 0, 0, 0, 0.1, 0.2]
starts, together = start_times(FREE, 6, 0.1), start_together(FREE, 6)
draw_slots(FREE, starts, together, 0.1)
began = perf_counter()
with ThreadPoolExecutor(6) as slots:  # two slots are busy at first
    busy = [slots.submit(sleep, seconds) for seconds in FREE[4:]]
    tasks = [slots.submit(sleep, 0.1) for _ in range(6)]
    for task in tasks:
        task.result()
    apart = perf_counter() - began
compare("apart: seconds", apart_s, apart)
compare("together: seconds", together_s, computed=together + 0.1)
print(f"slot-seconds that wait for the gang: {sum(together - f for f in FREE):.1f}")
at = start_together(FREE, 8)
print("eight tasks in six slots, together:", "never" if np.isinf(at) else f"after {at:.1f} s")

# %% [markdown]
# **Measure** on the real Spark, where it and a Java are installed: the same step with your `slices`, its lineage, and a stage of eight tasks in barrier mode on six slots.

# %%
if missing():
    print(f"not here: {missing()}")
else:
    records = [batch[0] for batch in BATCHES]
    spark_w, lineage = train_on_spark(records, net_gradient, slices, W, steps=1, lr=0.5)
    print("Spark and your MapReduce agree:", np.allclose(spark_w, after["a partition"], atol=1e-5))
    print(lineage, barrier_stage(tasks=8, slots=6), sep="\n")

# %% [markdown]
# **Reflect.** In barrier mode one task fails: what has to be run again, and which promise of the data system is gone?
#
# *The real system.* Horovod on Spark: `horovod.spark.run(fn, num_proc=8)` starts a Spark job of eight tasks; each reports to the driver where it runs, and when all have come, `fn` runs in each with a ring among them. If they have not all come after `start_timeout`, it gives up. Ordinary tasks have prepared the data before.

# %% [markdown] question="why_not" points="6" manual="true" rubric1="2: Why data systems do badly at nets, with two numbers of this lab: what a step writes and reads against what a ring sends; the record as the unit (a gradient a record, slices by hand)" rubric2="2: What they buy: any failure costs a task or a partition, not the job; slots may be fewer than tasks, and shared; with a number of section 5" rubric3="1: TensorFlow beside MapReduce: mutable variables and tensors in memory against immutable results in files; one graph run many times against a job a round" rubric4="1: What is best stored for fault tolerance in a training, and why not gradients and activations"
# ## Discuss
#
# A colleague has a cluster with Spark and says: "Training is map and reduce. We need no second system." Half a page, with numbers of this lab: where is that true, what does it cost, what would be lost with a ring, and what do systems such as TensorFlow do differently from MapReduce? What would you save in each?
#
# ### BEGIN SOLUTION
# It is true of the mathematics: my MapReduce, the RDD and the ring made the same parameters. It is expensive because the unit is wrong. With a picture as record a step wrote 1,799 gradients' worth of bytes, with a partition as record six, and read the pictures (half a megabyte) and the gradients again in each step, for parameters of ten kilobytes; a file system with three copies makes that three times as much. The RDD reads the pictures once, but all gradients go through the driver: eight arrays there, and 1.5 sent by each rank of the ring; slices had to be cut by hand, because an API of keys does not know that an array has parts.
#
# What it buys: after a failure MapReduce computed one gradient again, the RDD none and read one partition; the ring started again and computed 20 twice. Tasks need not be active at once: eight run in six slots, where a ring never ends. Barrier mode gives that up to make a ring possible: it waits for all slots, and one failure restarts the stage.
#
# TensorFlow keeps the graph and drops the rest: tensors instead of records, variables that are changed in place instead of new results each round, one graph that is run many times, memory instead of files. Fault tolerance is then a checkpoint now and then: parameters, the optimizer's state and the step (which gives the data's order). Gradients and activations are made again from these by the next step, and are as large or larger. With a checkpoint every second step the ring would have computed 4 gradients twice, not 20. I would prepare data on Spark, and train beside it with a ring and checkpoints.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions (MapReduce: the two functions, re-execution, locality, backup tasks; or RDDs: lineage, narrow and wide dependencies, caching)" rubric4="1: Evaluation (names a figure with its conditions)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Choose one: Jeffrey Dean and Sanjay Ghemawat, [*MapReduce: Simplified Data Processing on Large Clusters*](https://www.usenix.org/legacy/events/osdi04/tech/dean.html), OSDI 2004; or Matei Zaharia et al., [*Resilient Distributed Datasets*](https://www.usenix.org/conference/nsdi12/technical-sessions/presentation/zaharia), NSDI 2012. One page, in the form below.
#
# ### BEGIN STARTER
# **Overview** (two sentences of your own):
#
# **Problem and challenges:**
#
# **Methods and contributions:**
#
# **Evaluation and discussion** (a figure with its conditions; what was not measured?):
#
# **Trade-offs:**
#
# **Open questions** (one at least that the paper does not answer):
# ### END STARTER
# ### BEGIN SOLUTION
# **Overview.** (Zaharia 2012) RDDs are read-only collections over many machines that stay in memory and are made again, by their lineage, when they are lost. They serve jobs that go over the same data many times, for which files between jobs are too slow. **Problem and challenges.** Sharing data between jobs through a replicated file system costs copying and disks; sharing memory that anybody may change is fast, but needs copies or logs to survive a failure. **Methods and contributions.** Only coarse operations (map, join, group) on whole collections, so that the log is a few functions; narrow dependencies, which run in one pass and recover by one partition, and wide ones, which need a shuffle; caching and partitioning chosen by the user; checkpoints where lineage grows long. **Evaluation.** Logistic regression and k-means on up to 100 machines: up to 20 times as fast as Hadoop from the second iteration on; after a failure one iteration was longer, by the lost partitions. No network with many parameters was trained. **Trade-offs.** Fine-grained updates, such as a parameter changed in place, are what RDDs cannot do; wide dependencies make recovery expensive. **Open questions.** Which RDDs the system should cache by itself; whether lineage can hold state that changes a little in each of many steps.
# ### END SOLUTION

# %%
q.status()
