# %% [markdown] builds="tensors and where their elements lie, the rates of your machine, a roofline, the equation of the course" needs="Python"
# # Lab 00: The machine
#
# - **You build** tensors of up to three axes, a clock for your machine, and a prediction of how long a task takes and what it waits for.
# - **You need** Python and a little NumPy.
# - **It takes** about 60 minutes: introduction 1, sections 8, 10, 9, 8, 6 and 8, discussion 10. The reading note, with its paper, is for another day.
#
# This course builds systems that train neural networks. All of them move **tensors** through a **machine**. In this lab you meet both.
#
# In each section you write a prediction down, and then a function. Run the cells from the top; where one says `raise NotImplementedError`, it is your turn. `q.hint("counts")` helps.

# %% tags="setup"
import platform
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import minitorch as mt
from autograder import compare, keep_rates, lab
from lessons.machine import blocks, kinds_of_work, text_file
from lessons.machine_figures import Point, draw_roofline, draw_years
from lessons.timing import best_seconds

# %% tags="setup"
q = lab("the_machine")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())

# %% [markdown]
# ## 1. Tensors
#
# Who does what to whom? Here are sentences of a subject, a verb and an object. A table can count pairs; three words need a table with one **axis** more.

# %%
SUBJECTS, VERBS, OBJECTS = (
    ["cat", "dog"],
    ["sees", "eats", "chases"],
    ["fish", "bird", "ball", "cat"],
)
SENTENCES = [("cat", "eats", "fish"), ("dog", "chases", "cat"), ("cat", "sees", "bird")]
SENTENCES += [("dog", "sees", "cat"), ("dog", "chases", "ball"), ("dog", "chases", "cat")]

# %% [markdown]
# **Idea.** A **tensor** is an array of numbers of one type. It has 0 axes (one number), 1 (a vector), 2 (a table, a grey picture), 3 (a picture with red, green and blue), or more. Its **shape** has one length for each axis. People say "dimension" for two things: a vector of three numbers has one axis, and yet it is an arrow in three-dimensional space. Here, `x.ndim` is the number of axes.
#
# **Predict.** `c[s, v, o]` counts how often subject `s` does verb `v` to object `o`. What is the shape of `c`, and how many numbers are in it?

# %%
### BEGIN STARTER
# predicted_numbers = ...
### END STARTER
### BEGIN SOLUTION
predicted_numbers = 2 * 3 * 4
### END SOLUTION


# %% question="counts" points="3" hint1="np.zeros((2, 3, 4), int) makes a tensor of zeros with these lengths. Which are the lengths here?" hint2="subjects.index(word) is a word's number in its list." hint3="For each sentence, c[s, v, o] += 1 with the three numbers of its words."
def counts(sentences, subjects, verbs, objects):
    """Return c: c[s, v, o] is how many sentences have subject s, verb v and object o.

    A sentence is (subject, verb, object), three words; each list names the words of an axis.
    """
    ### BEGIN SOLUTION
    c = np.zeros((len(subjects), len(verbs), len(objects)), int)
    for subject, verb, thing in sentences:
        c[subjects.index(subject), verbs.index(verb), objects.index(thing)] += 1
    return c
    ### END SOLUTION


# %% tags="check"
q.check("counts")

# %%
c = counts(SENTENCES, SUBJECTS, VERBS, OBJECTS)
compare("numbers in c", predicted_numbers, c.size)
print(f"{c.ndim} axes, shape {c.shape}, {c.dtype}")
print("verbs of each subject:", c.sum(axis=2).tolist(), "shape", c.sum(axis=2).shape)
print("verbs:", dict(zip(VERBS, c.sum(axis=(0, 2)).tolist())), "  all:", c.sum())

# %% [markdown]
# **Reflect.** A sum over an axis makes it vanish. Which sum says how often the cat is an object? A language has 100,000 words: how many numbers would `c` have, and how many of them would be zero?
#
# *The real system.* PyTorch's tensors have a **dtype** (the type of a number), a shape and a **device**, the memory in which they lie: of the processor or of a GPU.

# %% [markdown]
# ## 2. Where a number lies
#
# Memory has one axis: bytes, numbered from 0. How can `c.transpose()`, which exchanges the axes, take no time however large `c` is?
#
# **Idea.** A tensor is a piece of memory, a shape, and **strides**: for each axis, by how many bytes one step along it moves. Element $(i, j, k)$ lies at byte $i s_0 + j s_1 + k s_2$. In a new tensor the last axis is the fastest: its stride is the size of one number, and each stride before is the next one times the length of the next axis. Other strides on the same memory make a **view**: a transpose, a slice, a row.


# %% question="strides" points="4" defines="strides_of position" hint1="Begin at the last axis and go to the first: range(len(shape) - 1, -1, -1), or reversed(shape)." hint2="The stride of an axis is that of the axis behind it, times the length of the axis behind it." hint3="position is a sum over the axes: i * strides[axis] for axis, i in enumerate(index)."
def strides_of(shape, item_bytes):
    """Return the strides, in bytes, of a new tensor of this shape, a list, one for each axis."""
    ### BEGIN SOLUTION
    strides, step = [], item_bytes
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    return strides
    ### END SOLUTION


def position(index, strides):
    """Return at which byte the element of this index lies."""
    ### BEGIN SOLUTION
    return sum(i * strides[axis] for axis, i in enumerate(index))
    ### END SOLUTION


# %% tags="check"
q.check("strides")

# %%
picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # 2 rows, 4 columns, red green blue
print("strides", strides_of(picture.shape, 1), "NumPy says", picture.strides)
print("green of row 1, column 2 is at byte", position((1, 2, 1), picture.strides))
green = picture[:, :, 1]
print("green alone: shape", green.shape, "strides", green.strides, "view:", green.base is not None)

# %% [markdown]
# **Predict.** `x` has 4,096 rows of 4,096 numbers. A column has as many numbers as a row; how many times as long does it take to sum columns one by one as to sum rows one by one? (Every sixteenth of each is summed.)

# %%
### BEGIN STARTER
# predicted_ratio = ...
### END STARTER
### BEGIN SOLUTION
predicted_ratio = 5
### END SOLUTION

# %%
x = np.ones((4096, 4096), np.float32)
rows = best_seconds(lambda: [x[i].sum() for i in range(0, 4096, 16)], 5)
columns = best_seconds(lambda: [x[:, i].sum() for i in range(0, 4096, 16)], 5)
compare("columns over rows", predicted_ratio, columns / rows)

# %% [markdown]
# What an operation does to shapes and to gradients decides what a system can do with it. Of `floor`, `abs`, `sum`, `max`, `matmul` and `unique`, one has a gradient that is zero nearly everywhere, and one has a shape that nobody knows before the data is there.

# %%
x = mt.tensor([-1.5, 0.5, 0.5, 2.0], requires_grad=True)
for operation in (mt.floor, mt.abs, mt.max):
    x.grad = None
    y = operation(x)
    y.sum().backward()
    print(f"{operation.__name__:<6} shape {tuple(y.shape)!s:<5} gradient {x.grad.tolist()}")
for data in ([1, 1, 1, 1], [1, 2, 3, 4]):
    print("unique of four numbers: shape", tuple(mt.unique(mt.tensor(data)).shape))

# %% [markdown]
# **Reflect.** Memory is fetched in lines of 64 bytes. How many numbers of each line does a sum of one column use? And why can a network that contains `floor` not learn through it?
#
# *The real system.* PyTorch's `x.t()` is such a view, and `x.t().contiguous()` a copy with strides of its own. Compilers (labs 04 to 07) want shapes before they see data: to them `unique` is trouble.

# %% [markdown]
# ## 3. The machine in numbers
#
# How fast is your machine? It depends on what you ask it to do. Each `work()` below does something and returns *how much* it did: bytes, multiplications, messages.
#
# **Idea.** A rate is an amount divided by seconds. Other programs share the machine and can only ever make a turn slower. So take several turns and count the best.


# %% question="best_rate" points="4" hint1="clock() says the time now, in seconds. Ask it before and after one work()." hint2="The rate of one turn is what work() returned, divided by the seconds of this turn." hint3="Every turn has a rate of its own; return the largest. Do not add turns up."
def best_rate(work, turns=5, clock=perf_counter):
    """Call `work` so many times; return the largest amount a second of one turn.

    `work()` returns how much it did, not always the same; `clock()` the time in seconds.
    """
    ### BEGIN SOLUTION
    rates = []
    for _ in range(turns):
        began = clock()
        amount = work()
        rates.append(amount / (clock() - began))
    return max(rates)
    ### END SOLUTION


# %% tags="check"
q.check("best_rate")

# %% [markdown]
# **Predict**, as powers of ten: how many each second?

# %%
PREDICTED = {"disk bytes": ..., "memory bytes": ..., "pipe bytes": ..., "multiplications": ...}
PREDICTED |= {"messages": ..., "processes": ..., "calls": ...}
### BEGIN STARTER
# # for example PREDICTED["calls"] = 1e6: how often can Python call a function in a second?
### END STARTER
### BEGIN SOLUTION
PREDICTED |= {"disk bytes": 1e9, "memory bytes": 1e10, "pipe bytes": 1e9, "multiplications": 1e11}
PREDICTED |= {"messages": 1e5, "processes": 1e2, "calls": 1e7}
### END SOLUTION

# %%
rates = {}
with kinds_of_work() as kinds:
    for name, work in kinds.items():
        rates[name] = best_rate(work, turns=9)
        compare(f"{name} a second", PREDICTED[name], rates[name])
keep_rates(rates)

# %% [markdown]
# These are yours: `autograder progress` shows them, and labs 07, 08 and 16 predict with them.
#
# **Reflect.** While one message travels between two processes, how many multiplications could be done? While a process starts? What does that say about how large the pieces of work should be that a system hands out?
#
# *The real system.* Such tables hang on many walls since Jeff Dean's "numbers everyone should know" (2009). They age: measure.

# %% [markdown]
# ## 4. Three kinds of work
#
# A task reads bytes, moves bytes and multiplies, all at the same time. So it takes as long as the one of them that takes longest, and that one **bounds** it: it is bound by the disk (I/O-bound), by memory, or by computing.


# %% question="time_of" points="4" hint1="How long would each kind of work take if it were the only one? task[kind] / rates[kind]." hint2="A dict of seconds by kind, and then the largest of them." hint3="max(seconds, key=seconds.get) is the kind that takes longest."
def time_of(task, rates):
    """Return (seconds, kind): how long a task takes, and which kind of work bounds it.

    Args:
        task: {kind: amount}; some of the kinds that `rates` has.
        rates: {kind: amount a second}.
    """
    ### BEGIN SOLUTION
    seconds = {kind: amount / rates[kind] for kind, amount in task.items()}
    slowest = max(seconds, key=seconds.get)
    return seconds[slowest], slowest
    ### END SOLUTION


# %% tags="check"
q.check("time_of")

# %% [markdown]
# Three tasks. `scan` counts the lines of a file, 32 MB: MapReduce's case. `join` filters 4 million keys, and looks up those that are left: Spark's, whose data is in memory. `multiply` is a product of matrices: PyTorch's.
#
# **Predict.** Which kind bounds each? Write down three words: `"disk bytes"`, `"memory bytes"` or `"multiplications"`.

# %%
### BEGIN STARTER
# bounds = {"scan": ..., "join": ..., "multiply": ...}
### END STARTER
### BEGIN SOLUTION
bounds = {"scan": "disk bytes", "join": "memory bytes", "multiply": "multiplications"}
### END SOLUTION

# %%
KEYS = np.random.default_rng(0).integers(1000, size=1 << 22)
PRICES = np.linspace(0, 1, 1000)
A, B = np.ones((2, 640, 640), np.float32)


def scan(path):
    return sum(block.count(b"\n") for block in blocks(path))


def join():
    return PRICES[KEYS[KEYS < 500]]


moved = len(KEYS) * ((8 + 1) + (8 + 1) + (8 + 8 + 8) / 2)  # a mask; those left; their prices
TASKS = {
    "scan": {"disk bytes": 32 * 2**20, "memory bytes": 2 * 32 * 2**20, "multiplications": 0},
    "join": {"disk bytes": 0, "memory bytes": moved, "multiplications": 0},
    "multiply": {"disk bytes": 0, "memory bytes": 3 * A.nbytes, "multiplications": 640**3},
}

# %%
with text_file() as path:
    runs = {"scan": lambda: scan(path), "join": join, "multiply": lambda: A @ B}
    took = {name: best_seconds(run, 5) for name, run in runs.items()}
for name, task in TASKS.items():
    seconds, kind = time_of(task, rates)
    print(f"{name} is bound by {kind}; you said {bounds[name]}")
    compare(f"{name}: milliseconds", seconds * 1e3, took[name] * 1e3)
points = {
    "scan": Point(32 * 2**20, 32 * 2**20, took["scan"]),  # a comparison a byte
    "join": Point(1.5 * len(KEYS), moved, took["join"]),  # comparisons and look-ups
    "multiply": Point(640**3, 3 * A.nbytes, took["multiply"]),
}
draw_roofline(rates, points)

# %% [markdown]
# This picture is worth keeping: a **roofline**. Right of the corner a task can use all the multiplications that the machine has; left of it, it waits for bytes.
#
# **Reflect.** Which of your three predictions is furthest off, and what has it left out? A matrix times a *vector* does one multiplication for each number that it reads: where does it lie?
#
# *The real system.* Kernels on GPUs are judged by this picture (Williams, Waterman and Patterson, *Commun. ACM* 52(4), 2009). A GPU's corner lies further right than a processor's: it has to do more with each byte.

# %% [markdown]
# ## 5. Records or tensors
#
# The mean picture of each digit, three times: a loop; a lazy chain over **records**, as a data system would have it; and operations on whole tensors, which you write.

# %%
PICTURES, LABELS = load_digits(return_X_y=True)


def by_loop(x, labels, classes):
    sums, counts = [[0.0] * len(x[0]) for _ in range(classes)], [0] * classes
    for picture, label in zip(x, labels):
        counts[label] += 1
        for pixel, value in enumerate(picture):
            sums[label][pixel] += value
    return [[value / count for value in row] for row, count in zip(sums, counts)]


def by_chain(x, labels, classes):
    records = sorted(zip(labels, x), key=lambda record: record[0])
    groups = groupby(records, key=lambda record: record[0])
    means = ((k, map(np.mean, zip(*(x for _, x in rows)))) for k, rows in groups)
    return [list(mean) for _, mean in means]


# %% [markdown]
# **Idea.** Labels become a table `one_hot` of zeros with a single 1 in each row: `one_hot[i, labels[i]] = 1`. Then `one_hot.T @ x` adds up the pictures of each class: a sum by key *is* a product of matrices.
#
# **Predict.** How many times as fast as the loop is your version?

# %%
### BEGIN STARTER
# predicted_faster = ...
### END STARTER
### BEGIN SOLUTION
predicted_faster = 50
### END SOLUTION


# %% question="by_tensors" points="3" hint1="np.eye(classes)[labels] picks, for each label, a row of the unit matrix." hint2="What is the sum of one_hot over its rows? Divide, with shapes that fit: counts[:, np.newaxis]."
def by_tensors(x, labels, classes):
    """Return the mean row of each class, shape (classes, columns of x), without a loop.

    `x` has a row a record, `labels` its class; every class has one or more.
    """
    ### BEGIN SOLUTION
    one_hot = np.eye(classes)[labels]
    return one_hot.T @ x / one_hot.sum(axis=0)[:, np.newaxis]
    ### END SOLUTION


# %% tags="check"
q.check("by_tensors")

# %%
slow, chain, fast = (
    best_seconds(lambda way=way: way(PICTURES, LABELS, 10), 3)
    for way in (by_loop, by_chain, by_tensors)
)
for way, seconds in ((by_loop, slow), (by_chain, chain), (by_tensors, fast)):
    lines = {line for _, _, line in way.__code__.co_lines() if line}
    print(f"{way.__name__:<10} {len(lines)} lines of code, {seconds * 1e3:.2f} ms")
compare("loop over tensors", predicted_faster, slow / fast)

# %% [markdown]
# **Reflect.** The chain takes any record: texts, records of unlike length, more than fits into memory. What can none of the three do for you that training needs? (Which of them could say what its gradient is?)
#
# *The real system.* Spark sends a chain of functions to where the records are; TensorFlow sends a graph of operations on tensors, whose types, shapes and gradients it knows.

# %% [markdown]
# ## 6. The equation of the course
#
# Everything that this course trains, it trains by one equation:
#
# $$\theta^{(t+1)} = f\bigl(\theta^{(t)},\ \nabla L(\theta^{(t)}, D^{(t)})\bigr)$$
#
# | letter | what | you build it in |
# |---|---|---|
# | $\nabla$ | gradients, from a program | labs 01, 02, 04 to 07 |
# | $L$ | the loss of a model | labs 01, 03 |
# | $f$ | the optimizer | labs 03, 12 |
# | $D^{(t)}$ | data, one part on each machine | labs 10, 17 |
# | $\theta$ | parameters, on many machines | labs 12 to 14 |
# | $t$ to $t+1$ | wait for all, or not | labs 08 to 12 |


# %% question="train" points="2" hint1="One pass of a loop is the equation, once."
def train(theta, gradient, data, f, steps):
    """Return theta after so many steps: theta(t+1) = f(theta(t), gradient(theta(t), data(t)))."""
    ### BEGIN SOLUTION
    for t in range(steps):
        theta = f(theta, gradient(theta, data(t)))
    return theta
    ### END SOLUTION


# %% tags="check"
q.check("train")

# %%
POINTS = [(1.0, 1.0), (2.0, 2.0), (4.0, 2.0)]  # those of lab 01, to which a line is fitted


def line_gradient(theta, point):
    x, y = point
    return 2 * (theta[0] + theta[1] * x - y) * np.array([1, x])


def descend(theta, gradient):
    return theta - 0.01 * gradient


theta = train(np.zeros(2), line_gradient, lambda t: POINTS[t % 3], descend, 3000)
print("the line of lab 01 is 1 + 0.286 t; here:", theta.round(3))

# %% [markdown]
# GPT-3 has 175 billion parameters and was trained on 300 billion tokens. Each token takes three multiplications a parameter: one forward, two backward. (Brown et al., NeurIPS 2020, Table D.1: $3.14 \cdot 10^{23}$ operations, additions counted.)
#
# **Predict.** How many years does your machine take?

# %%
### BEGIN STARTER
# predicted_years = ...
### END STARTER
### BEGIN SOLUTION
predicted_years = 1e5
### END SOLUTION

# %%
GPT3 = 175e9
seconds, kind = time_of({"multiplications": 3 * GPT3 * 300e9}, rates)
compare("years of this machine", predicted_years, computed=seconds / 3.156e7)
print(f"computing: 1,000 machines, each 1,000 times as fast: {seconds / 1e6 / 86400:.0f} days")
seconds, kind = time_of({"pipe bytes": 2 * GPT3}, rates)
print(f"communication: one gradient to one neighbour: {seconds:.0f} s, in every step")
print(f"memory: {2 * GPT3 / 1e9:.0f} GB for the parameters alone, two bytes each")
draw_years()

# %% [markdown]
# **Computing, communication, memory**: these are the three problems of the course. In 2012 AlexNet, trained on two GPUs, made 15.3 % errors where the next best program made 26.2 % (Krizhevsky et al., NIPS 2012). One simple method, which got better with more data and fitted the hardware, replaced many clever ones, and systems have been made for it since.
#
# **Reflect.** Which of the three problems would be left if machines were 1,000 times as fast, at everything?

# %% [markdown] question="workflow" points="6" manual="true" rubric1="2: Says what a system over tensors knows that one over records does not (type, shape and size before it runs; what an operation is, so its gradient, its cost, its place) and what follows (gradients, fusing, memory plans, placement)" rubric2="1: Says what a system over records can do that tensors cannot (any record, unlike lengths, data larger than memory, failures)" rubric3="2: Uses numbers of this lab: which kind of work bounds which task, what a call or a message costs against a multiplication" rubric4="1: Places one's own example on the roofline"
# ## Discuss
#
# A **workflow system** runs a graph of operations for you. What can one do whose edges carry tensors, and not one whose edges carry records? And the other way round? Take one task of your own for each, say what bounds it, and where it lies in your roofline. Half a page, with numbers of this lab.
#
# ### BEGIN SOLUTION
# A system over tensors knows the type, the shape and so the bytes of everything that flows, often before anything has run, and it knows what each operation means: a product of matrices, not any function. So it can write the gradient itself, tell the cost beforehand (640^3 multiplications, three matrices of 1.6 MB: computing bounds it), fuse operations that memory bounds, plan the memory, and place parts on devices. It hands out few, large pieces of work: my machine does two hundred thousand multiplications while one message travels, so a message a number would be lost time; the loop over records was many times slower than the product.
#
# A system over records takes anything: texts, records of unlike lengths, more than memory holds, and a function that it need not understand. It can run a part again when a machine fails, for a record depends on few others. It cannot differentiate, and what it moves is bound by disk or memory: counting the lines of a log of mine lies far left in the roofline, at one comparison a byte, whoever computes it; a faster processor would not help. Training a network of mine on digits, a product of 64 by 1,797 by 32, lies right of the corner as long as the batch is large.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions (operational intensity; the two roofs and the ridge point; ceilings below them, and which optimisation lifts a kernel through which)" rubric4="1: Evaluation (names a figure with its conditions)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Samuel Williams, Andrew Waterman and David Patterson, [*Roofline: An Insightful Visual Performance Model for Multicore Architectures*](https://doi.org/10.1145/1498765.1498785), *Commun. ACM* 52(4), 2009. One page, in the form below.
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
# **Overview.** One picture says what a program can reach at most on a machine: the peak of its arithmetic, or its memory's bandwidth times the operations that the program does for each byte. It is meant for programmers, who read off it what to mend first. **Problem and challenges.** Multicore processors differ far more than their single-core ancestors did, and models that predict times exactly are too complex to guide anybody. **Methods and contributions.** Operational intensity, operations for each byte that goes to or comes from memory, after the caches; a slanted roof of bandwidth and a flat one of arithmetic, which meet at the ridge point; ceilings below the roofs for what a program leaves unused, such as vectors, balanced multiplications and additions, prefetching, memory near its processor. **Evaluation.** Four machines (Intel Xeon, AMD Opteron, Sun UltraSPARC T2+, IBM Cell) and four kernels (sparse matrix times vector, lattice Boltzmann, stencil, 3-D FFT): none lies above its roof, and the ceilings tell which optimisations paid. The roofs were measured by microbenchmarks; no network was trained. **Trade-offs.** A bound, not a prediction: latency, threads that wait for each other, and traffic between the caches are not in it. **Open questions.** How to draw a program whose intensity depends on the size of the caches, or one that also waits for a network or a disk.
# ### END SOLUTION

# %%
q.status()
