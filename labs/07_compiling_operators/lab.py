# %% [markdown] builds="tiles, a register block, packing; a cost model that learns from trials, and a search that asks it" needs="NumPy, 06"
# # Lab 07: Compiling operators
#
# - **You build** what makes a product of matrices fast: a register block, tiles, packing. Then you build what finds it by itself: features of a schedule, a cost model fitted to trials, and a search that asks the model what to try next.
# - **You need** NumPy, and lab 06 for why operators are fused.
# - **It takes** about 85 minutes: 2 for the introduction, 10, 7, 15, 17, 11, 6 and 7 for the seven sections, 10 for the discussion.
# - **Optional** is the last section, a schedule on a GPU that is not here. The reading note, with its paper, is for another day. Cells that are said to need no reading are to be run, and their output is to be looked at.
#
# Three nested loops multiply two matrices. A library does the same multiplications in a fiftieth of the time, and people spent years on each processor for it.
# A compiler for tensors keeps apart **what** is computed and **how**: the loops' order, their tiles, vectors, what is copied where. The how is called a **schedule**. In this lab you write schedules by hand, and see each of them as loops, as bytes, and as time. Then you build what finds good ones by itself.

# %% tags="setup"
import platform
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import lessons.deployed as deployed
import lessons.run_deployed as run_deployed
import minitorch as mt
from autograder import compare, kept_rate, lab
from lessons.machine import measured_rate
from lessons.timing import milliseconds
from minitorch import compile as code
from minitorch.graph import trace

# %% tags="setup"
q = lab("compiling_operators")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
if code.available():
    print("kernels are compiled by LLVM for", code.processor())
else:
    print("no llvmlite: NumPy computes all schedules alike, and your times will say so")

# %% [markdown]
# `compare` prints what you predicted, what was measured, and the ratio (a count is exact, or it is not). Two more functions serve the whole lab: `milliseconds` times functions in turns and gives the best of each; `kernel` gives a function that multiplies by a schedule. (They need no reading.)


# %%
SIZE = 384
TASK = ("matmul", SIZE, SIZE, SIZE)
rng = np.random.default_rng(0)
A, B = (rng.normal(size=(SIZE, SIZE)).astype(np.float32) for _ in range(2))
C = np.empty((SIZE, SIZE), np.float32)
FLOPS = 2 * SIZE**3


def kernel(schedule=None, epilogue=None):
    """Return a function that multiplies A and B by a schedule; None is three plain loops."""
    compiled = code.matmul(SIZE, SIZE, SIZE, schedule=schedule, epilogue=epilogue)
    more = (B[0],) if epilogue else ()
    return lambda: compiled(A, B, *more, out=C)


def blas():
    np.matmul(A, B, out=C)


# %% [markdown]
# ## 1. Three loops, and what they move
#
# Here are the three loops as our compiler makes them, and their time beside NumPy's, which calls the library for linear algebra (BLAS) of this machine.

# %%
print(code.Schedule(TASK))
naive_ms, blas_ms = milliseconds(kernel(), blas, repeats=3)
PEAK = FLOPS / blas_ms * 1e3
print(f"three loops {naive_ms:.1f} ms, BLAS {blas_ms:.2f} ms: {naive_ms / blas_ms:.0f} times")
by_lab_00 = SIZE**3 / kept_rate("multiplications", measured_rate)
compare("BLAS, by the rate of lab 00: ms", by_lab_00 * 1e3, blas_ms)

# %% [markdown]
# Both do the same multiplications. The loops wait for numbers: each term loads one of A and one of B.
#
# **Idea.** Compute a **block** of C at once: $r$ rows by $c$ columns, kept in registers. For each $k$ the block needs $r$ numbers of A and $c$ of B, and does $r \cdot c$ multiplications with them. So all of A is loaded once for each block of columns, and all of B once for each block of rows:
#
# $$\text{bytes} = \text{item} \cdot \left( mk \left\lceil \tfrac{n}{c} \right\rceil + kn \left\lceil \tfrac{m}{r} \right\rceil + mn \right)$$
#
# The last term is C, which is written once. Three plain loops are the block of 1 by 1.
#
# **Predict.** For m = n = k = 384 and float32: how many times fewer bytes does a block of 8 by 32 load and store than one of 1 by 1?

# %%
### BEGIN STARTER
# predicted_times_fewer = ...
### END STARTER
### BEGIN SOLUTION
predicted_times_fewer = 12.7
### END SOLUTION


# %% question="traffic" points="3" hint1="How many blocks lie side by side in n columns, the last one perhaps not whole?" hint2="-(-n // columns) rounds up. A is read once for each of these; B once for each block of rows." hint3="item_bytes * (m * k * blocks_of_columns + k * n * blocks_of_rows + m * n)"
def traffic(m, n, k, rows, columns, item_bytes=4):
    """Return the bytes that a product by blocks of rows by columns loads of A and B and stores of C."""
    ### BEGIN SOLUTION
    blocks_of_rows, blocks_of_columns = -(-m // rows), -(-n // columns)
    return item_bytes * (m * k * blocks_of_columns + k * n * blocks_of_rows + m * n)
    ### END SOLUTION


# %% tags="check"
q.check("traffic")

# %% [markdown]
# A product takes at least as long as its arithmetic at the machine's peak, and at least as long as its bytes at the speed of its memory; the two overlap, so the longer one counts. This is the **roofline**.


# %% question="roofline" points="3" hint1="How long does the arithmetic take alone? And the bytes alone?" hint2="They happen at the same time: the slower of the two decides."
def roofline(flops, n_bytes, peak, bandwidth):
    """Return the least seconds: peak in operations a second, bandwidth in bytes a second."""
    ### BEGIN SOLUTION
    return max(flops / peak, n_bytes / bandwidth)
    ### END SOLUTION


# %% tags="check"
q.check("roofline")

# %% [markdown]
# **Measure.** The three loops tell us the bandwidth of loads, one number at a time. With it the roofline says what blocks of other sizes should take. Each schedule is a dict of **knobs**; here only the size of the block varies, without any vector.

# %%
fewer = traffic(SIZE, SIZE, SIZE, 1, 1) / traffic(SIZE, SIZE, SIZE, 8, 32)
compare("bytes, 1x1 over 8x32", predicted_times_fewer, fewer)
bandwidth = traffic(SIZE, SIZE, SIZE, 1, 1) / naive_ms * 1e3
for rows, vectors in ((1, 1), (2, 1), (2, 2), (4, 2)):
    bound = roofline(FLOPS, traffic(SIZE, SIZE, SIZE, rows, vectors), PEAK, bandwidth) * 1e3
    (ms,) = milliseconds(kernel({"rows": rows, "vectors": vectors}), repeats=2)
    compare(f"ms, block of {rows} by {vectors}", bound, ms)

# %% [markdown]
# **Reflect.** Where the measured time falls faster than the bytes, something else must have been waited for. In the block of 1 by 1 each addition needs the result of the one before. How many additions are under way at once in a block of 4 by 2?
#
# *The real system.* [The roofline](https://doi.org/10.1145/1498765.1498785) is how kernels are judged everywhere: first ask which of the two roofs you are under.

# %% [markdown]
# ## 2. Tiles for the caches
#
# Registers hold a small block. Behind them are caches: small and fast, larger and slower. Long rows of B leave the small cache before they are needed again. So the same idea is used once more, a level higher: loops over **tiles**, and inside a tile everything is near.
#
# **Predict.** A cache has 32 KiB. What is the side of the largest square tiles of A, B and C, float32, that fit in it together?

# %%
### BEGIN STARTER
# predicted_side = ...
### END STARTER
### BEGIN SOLUTION
predicted_side = 52
### END SOLUTION


# %% [markdown]
# Write the product by tiles. NumPy multiplies within a tile, so that you can look at the loops alone. Sizes need not be multiples of the tile: a slice that reaches over the end is cut by itself.


# %% question="tiled" points="4" hint1="Three loops over where tiles begin: range(0, m, tile_m) and so on." hint2="C[i:i+tile_m, j:j+tile_n] gets the product of a tile of A, rows i and columns k, and a tile of B." hint3="A tile of C is added to once for each tile of k: += and not =."
def tiled(a, b, tile_m, tile_n, tile_k):
    """Return a @ b, computed tile by tile; tile_m rows of a, tile_n columns of b, tile_k terms."""
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    ### BEGIN SOLUTION
    for i, p, j in product(range(0, m, tile_m), range(0, k, tile_k), range(0, n, tile_n)):
        into = c[i : i + tile_m, j : j + tile_n]
        into += a[i : i + tile_m, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]
    ### END SOLUTION
    return c


# %% tags="check"
q.check("tiled")

# %% [markdown]
# Now the cache. `misses` walks through the same loops as the tiled product, number by number, with a cache that holds `lines` lines of 16 numbers and throws out what was used longest ago. It is exact, and the same on every machine. (It needs no reading.)


# %%
def misses(size, tile, lines=64, line=16):
    """Return how often lines of A, B and C are fetched into a small cache, by square tiles."""
    cache, count = {}, 0
    starts = range(0, size, tile)
    for i0, k0, j0 in product(starts, starts, starts):
        for i, k in product(range(i0, min(i0 + tile, size)), range(k0, min(k0 + tile, size))):
            for j in range(j0, min(j0 + tile, size), line):
                for touched in (("A", i, k // line), ("B", k, j // line), ("C", i, j // line)):
                    count += touched not in cache
                    cache.pop(touched, None)
                    cache[touched] = True
                    if len(cache) > lines:
                        del cache[next(iter(cache))]
    return count


# %%
side = int((32 * 1024 / 3 / 4) ** 0.5)
compare("side of a tile for 32 KiB", predicted_side, side)
sides = (16, 32, 48, 64, 96)
fetched = [misses(96, side) for side in sides]
fig, ax = plt.subplots()
ax.plot(sides, fetched, "o-")
ax.set(xlabel="side of a tile (numbers)", ylabel="lines fetched", title="96 x 96, a cache of 4 KiB")
ax.set_ylim(bottom=0)
plt.show()

# %% [markdown]
# **Reflect.** The cache of the picture holds 64 lines. Count the lines of three tiles of 16 by 16, and those of one tile of 32 by 32. Which of the three tiles do the inner loops go through again and again, and what is left of it each time when it does not fit?
#
# *The real system.* [ATLAS](https://doi.org/10.1016/S0167-8191(00)00087-9) measured such curves when it was installed, and chose tiles by them. [GotoBLAS](https://doi.org/10.1145/1356052.1356053) showed that the second cache matters most, and that pages of memory count like lines.

# %% [markdown]
# ## 3. Vectors, registers, packing
#
# A vector register holds several numbers, and one instruction multiplies and adds all of them. A block of C is now $r$ rows by $v$ **vectors**. While $k$ runs, $r \cdot v$ registers hold sums, $v$ hold a row of B, and one holds a number of A, spread over its lanes. If there are not enough registers, sums go to memory and back in every round.
#
# **Idea.** A round does $r v$ vector multiplications and loads $r + v$ times. Best is the block with the most work a load, $\frac{r v}{r + v}$, that fits: $r v + v + 1 \le$ registers.
#
# **Predict.** With 32 registers: how many multiplications a load does the best block do?

# %%
### BEGIN STARTER
# predicted_work_a_load = ...
### END STARTER
### BEGIN SOLUTION
predicted_work_a_load = 2.5
### END SOLUTION


# %% question="best_block" points="4" hint1="Try all rows and vectors up to the number of registers, and keep those that fit." hint2="Of those that fit take the one with the largest rows * vectors / (rows + vectors). max takes a key." hint3="For equal work a load the fewer vectors win: put -vectors second in a tuple as the key."
def best_block(registers):
    """Return (rows, vectors) with the most work a load that fits; of equals, the fewest vectors."""
    ### BEGIN SOLUTION
    every = product(range(1, registers), repeat=2)
    fits = [(r, v) for r, v in every if r * v + v + 1 <= registers]
    return max(fits, key=lambda block: (block[0] * block[1] / sum(block), -block[1]))
    ### END SOLUTION


# %% tags="check"
q.check("best_block")

# %% [markdown]
# The last thing is **packing**. A block reads $c$ columns of B row after row, and rows of B are far apart. So B is copied first, into **panels**: panel $p$ holds columns $pc$ to $pc + c$, one short row after the other, in the very order in which the loop reads them. Where $n$ is no multiple of $c$, the last panel is filled up with zeros.


# %% question="pack" points="4" hint1="How many panels are there? What is the shape of one?" hint2="Begin with zeros of shape (panels, k, columns) and b's dtype, and copy slices of b's columns into it." hint3="For the last panel: part = b[:, p * columns : (p + 1) * columns]; panels[p, :, : part.shape[1]] = part."
def pack(b, columns):
    """Return b of shape (k, n) as panels (ceil(n / columns), k, columns), zeros where b has ended.

    A new array of b's dtype, whose numbers lie in memory in this order.
    """
    k, n = b.shape
    ### BEGIN SOLUTION
    panels = np.zeros((-(-n // columns), k, columns), b.dtype)
    for p, panel in enumerate(panels):
        part = b[:, p * columns : (p + 1) * columns]
        panel[:, : part.shape[1]] = part
    return panels
    ### END SOLUTION


# %% tags="check"
q.check("pack")

# %% [markdown]
# **Try.** A small matrix, and its two panels.

# %%
print(pack(np.arange(10).reshape(2, 5), 3))

# %% [markdown]
# **Predict.** Each row of the ladder below adds one or two knobs to the row before: vectors, a register block, unrolling, tiles of k, packing. How many times as fast as the three loops will the last one be?

# %%
### BEGIN STARTER
# predicted_speedup = ...
### END STARTER
### BEGIN SOLUTION
predicted_speedup = 50
### END SOLUTION

# %%
registers, bits = code.vector_registers()
lanes = bits // 32
rows, vectors = best_block(registers)
compare("multiplications a load", predicted_work_a_load, rows * vectors / (rows + vectors))
ladder, point = {"three loops": kernel()}, {}
for name, knobs in {
    "vectors": {"lanes": lanes},
    "register block": {"rows": rows, "vectors": vectors},
    "unrolled": {"unroll": 4},
    "tiles of k": {"tile_k": 128, "order": "nkm"},
    "packed": {"pack_a": True, "pack_b": True},
}.items():
    point |= knobs
    ladder[name] = kernel(dict(point))
print(code.Schedule(TASK, point))

# %%
found = dict(zip(ladder, milliseconds(*ladder.values(), repeats=3)))
for name, ms in found.items():
    share = blas_ms / ms
    print(f"{name:<16} {ms:8.2f} ms   {share:6.1%} of BLAS")
compare("three loops over packed", predicted_speedup, naive_ms / found["packed"])

# %% [markdown]
# A schedule is made for one machine. Here is the last one again with the vectors of other machines: 4 numbers (SSE, ARM's NEON), 8 (AVX), 16 (AVX-512), as far as yours goes.

# %%
others = {n: kernel(point | {"lanes": n}) for n in (4, 8, 16) if n <= lanes}
times = dict(zip(others, milliseconds(*others.values(), repeats=9)))
for n, ms in times.items():
    print(f"made for vectors of {n:2}: {ms:5.2f} ms, {ms / times[max(times)]:.1f} times as long")

# %% [markdown]
# **Reflect.** Which steps of the ladder gain, and which do not at this size? Packing costs a copy of both matrices. Compare its bytes with those of `traffic`: when does it not pay? (Think of a matrix times three columns.)
#
# *The real system.* [BLIS](https://github.com/flame/blis) is these loops, with a block for each processor written by hand. TVM writes the same as `split`, `reorder`, `vectorize`, `unroll` and `cache_read`. On a GPU the knobs keep their sense: a tile of C goes to a block of threads, the register block to one thread, and packing copies a tile of A and B into memory that the block shares; `code.matmul(..., device="cuda")` compiles that.

# %% [markdown]
# ## 4. What a schedule looks like to a model
#
# By hand you have tried six schedules; there are thousands. `code.recorded(task)` is a table of all of them, timed once on one machine: searches on it take a second, and give everybody the same.

# %%
BIG = code.recorded(("matmul", 512, 512, 512))
POINTS = BIG.space.points()
print(f"{len(POINTS):,} schedules, for example {POINTS[1234]}")
for share in (1.1, 1.5, 3, 10):
    print(f"within {share:4} of the best: {(BIG.seconds < share * BIG.seconds.min()).mean():7.2%}")

# %% [markdown]
# A **cost model** guesses what a schedule takes before anyone has run it. It sees a schedule as a row of numbers, its **features**. A linear model can only add features up. So each should be something of which more is always better, or always worse: a logarithm, the work a load, the registers that are missing.
#
# Write features, in this order: $\log_2$ of rows, vectors, lanes, unroll and tile_k; pack_a and pack_b as 0 or 1; $\frac{rv}{r+v}$; and by how much $rv + v + 1$ is above 32 registers, 0 if it is not.


# %% question="features" points="4" hint1="A list of nine numbers for each point, and np.array of the lists." hint2="np.log2 takes a list too. True becomes 1.0 in an array of floats." hint3="The last one: max(0, r * v + v + 1 - 32)."
def features(points):
    """Return an array of floats (number of points, 9), one row for each dict of knobs."""
    ### BEGIN SOLUTION
    found = []
    for p in points:
        logs = [np.log2(p[knob]) for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")]
        r, v = p["rows"], p["vectors"]
        found.append([*logs, p["pack_a"], p["pack_b"], r * v / (r + v), max(0, r * v + v + 1 - 32)])
    return np.array(found, float)
    ### END SOLUTION


# %% tags="check"
q.check("features")

# %% [markdown]
# **Ridge regression** finds weights $w$ and a start $s$ so that $Xw + s$ is near $y$, and keeps the weights small where the trials are too few to tell:
#
# $$w = (X_c^\top X_c + \lambda I)^{-1} X_c^\top y_c, \qquad s = \bar y - \bar x \cdot w$$
#
# $X_c$ and $y_c$ are $X$ and $y$ without their means, so the start is not kept small.


# %% question="fit_ridge" points="4" hint1="Take the means off first: x - x.mean(axis=0), y - y.mean()." hint2="np.linalg.solve(M, b) gives M^-1 b. The penalty times np.eye(number of features) is added to the square." hint3="The start is y.mean() - x.mean(axis=0) @ w."
def fit_ridge(x, y, penalty=1.0):
    """Return weights w of shape (features,) and the start s of the ridge regression of y on x.

    x and y stay as they are.
    """
    ### BEGIN SOLUTION
    x_mean, y_mean = x.mean(axis=0), y.mean()
    centred = x - x_mean
    w = np.linalg.solve(
        centred.T @ centred + penalty * np.eye(x.shape[1]), centred.T @ (y - y_mean)
    )
    return w, y_mean - x_mean @ w
    ### END SOLUTION


# %% tags="check"
q.check("fit_ridge")

# %% [markdown]
# **Predict.** Fitted to 64 schedules drawn at random, how well does your model rank all the others? (The correlation of ranks: 1 is the right order, 0 is chance.)

# %%
### BEGIN STARTER
# predicted_correlation = ...
### END STARTER
### BEGIN SOLUTION
predicted_correlation = 0.8
### END SOLUTION

# %%
FEATURES = features(POINTS)
FEATURES = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
drawn = np.random.default_rng(1).permutation(len(POINTS))
some, others = drawn[:64], drawn[64:]
weights, start = fit_ridge(FEATURES[some], np.log(BIG.seconds[some]))
guessed = FEATURES @ weights + start
ranks = [np.argsort(np.argsort(v[others])) for v in (guessed, BIG.seconds)]
compare("correlation of ranks", predicted_correlation, np.corrcoef(*ranks)[0, 1])
fig, ax = plt.subplots()
ax.plot(np.exp(guessed[others]) * 1e3, BIG.seconds[others] * 1e3, ".", markersize=2, alpha=0.4)
ax.set(xscale="log", yscale="log", xlabel="guessed (ms)", ylabel="measured (ms)", title="Ridge")
plt.show()

# %% [markdown]
# **Reflect.** A band of fast schedules lies apart at the bottom. Some of them are guessed to be ten times slower than they are: which will a search that trusts the model never try?
#
# *The real system.* `code.CostModel` adds boosted trees that learn what ridge leaves over; `CostModel().fit(points, seconds).explain()` says which knobs matter. TVM's model is boosted trees too, or a network over the loops' tree, and learns which of two schedules is faster, not the seconds (a *rank loss*): the search asks for no more. `CostModel(kind="rank")` does that. After 96 schedules of this table it ranks the others no better: 0.82 against 0.88.

# %% [markdown]
# ## 5. A search that learns
#
# The search goes in batches: propose some schedules, time them, learn, propose again. Before it knows anything it draws at random. Afterwards it takes those of which the model expects most, and a few **surprises** at random, so that the model learns where it is wrong.
#
# **Predict.** After how many trials, in the median of 20 runs, is your search within 1.10 of the best of these thousands? And chance alone?

# %%
### BEGIN STARTER
# predicted_trials = {"yours": ..., "random": ...}
### END STARTER
### BEGIN SOLUTION
predicted_trials = {"yours": 32, "random": 97}
### END SOLUTION


# %% question="propose" points="8" hint1="Which points are still open? np.setdiff1d(all, tried). While there are fewer than 8 trials, rng.choice(open, count, replace=False)." hint2="Then fit_ridge(x[tried], np.log(seconds)), guess for all of x, and sort the open points by their guess." hint3="The first count - surprises of the sorted ones; then rng.choice of the open ones that are not among them."
def propose(x, tried, seconds, count, surprises, seed):
    """Return the numbers of `count` points to try next, none of which was tried; lower is better.

    x: features, (points, features). tried: numbers of points; seconds: what they took; lists or
    arrays, which stay as they are.
    With 8 trials or more, all but `surprises` are those that the model finds fastest, best first;
    the others, and all before there are 8, are drawn at random by np.random.default_rng(seed).
    The model is `fit_ridge` of x and the logarithms of seconds, with its default penalty.
    """
    rng = np.random.default_rng(seed)
    ### BEGIN SOLUTION
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        ranked = untried[np.argsort((x @ w)[untried])]
        best = ranked[: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]
    ### END SOLUTION


# %% tags="check"
q.check("propose")

# %% [markdown]
# The race. `genetic` has no model: it crosses the best so far, knob by knob, and changes some. (The cells need no reading.)


# %%
def run_search(choose, table, trials=96, seed=0):
    """Return the best seconds after each trial, over the best of the table."""
    tried, seconds = [], []
    while len(tried) < trials:
        batch = choose(tried, seconds, seed=1000 * seed + len(tried))
        tried += [int(i) for i in batch]
        seconds += [table.seconds[i] for i in batch]
    return np.minimum.accumulate(seconds[:trials]) / table.seconds.min()


def yours(tried, seconds, seed):
    return propose(FEATURES, tried, seconds, 8, 1, seed)


def by_chance(tried, seconds, seed):
    return propose(FEATURES, tried, seconds, 8, 8, seed)


def replayed(name, seed):
    found = code.tune(BIG.task, 96, name, BIG, seed, start_from=(), space=BIG.space)
    return np.array(found.curve()) / BIG.seconds.min()


# %%
SEEDS = range(20)
curves = {
    "random": [run_search(by_chance, BIG, seed=s) for s in SEEDS],
    "yours": [run_search(yours, BIG, seed=s) for s in SEEDS],
    "genetic": [replayed("genetic", s) for s in SEEDS],
    "ridge and trees": [replayed("learned", s) for s in range(5)],
}
fig, ax = plt.subplots()
for name, found in curves.items():
    ax.plot(np.arange(1, 97), np.median(found, axis=0), label=name)
ax.axhline(1.1, color="k", linestyle=":", linewidth=1)
ax.set(xlabel="trials", ylabel="best so far over the best of all", ylim=(0.95, 3), title="The race")
ax.legend()
plt.show()

# %%
for name, found in curves.items():
    reached = [int(np.argmax(c <= 1.1)) + 1 if c[-1] <= 1.1 else 97 for c in found]
    predicted = predicted_trials.get(name, ...)
    compare(f"{name}: trials until 1.10 (97: not in 96)", predicted, float(np.median(reached)))

# %% [markdown]
# **Reflect.** A trial on a machine takes a tenth of a second, a guess two millionths. What would you do with a model that is three times as good and a thousand times as slow?
#
# *The real system.* `code.tune` is this loop with a clock, a log that it goes on from, and a check of each kernel's result before it is timed. Run it on your machine: `code.tune(TASK, trials=64, log="trials.jsonl")`.

# %% [markdown]
# ## 6. What one shape knows of another
#
# Trials on a small product cost less. Do they tell anything about a large one? Registers and vectors are the same; caches meet other sizes.
#
# **Predict.** The first batch of 8 for 512, chosen by a model that has seen only 256: how far from the best is the best of them? (1.0 is the best.) And of 8 drawn by chance?

# %%
### BEGIN STARTER
# predicted_first = {"transferred": ..., "random": ...}
### END STARTER
### BEGIN SOLUTION
predicted_first = {"transferred": 1.2, "random": 3.0}
### END SOLUTION


# %% question="first_batch" points="4" hint1="What is tried on the small shape teaches the model; what is ranked are the points of the large one." hint2="fit_ridge(x_small, np.log(seconds_small)), then np.argsort of the guesses for x_large."
def first_batch(x_small, seconds_small, x_large, count):
    """Return the numbers of the `count` rows of x_large that look fastest, the fastest first.

    The model is fitted to logarithms of what the rows of x_small took, on another shape.
    """
    ### BEGIN SOLUTION
    w, _ = fit_ridge(x_small, np.log(seconds_small))
    return np.argsort(x_large @ w)[:count]
    ### END SOLUTION


# %% tags="check"
q.check("first_batch")

# %%
SMALL = code.recorded(("matmul", 256, 256, 256))
known = np.random.default_rng(2).permutation(len(POINTS))[:96]
chosen = first_batch(FEATURES[known], SMALL.seconds[known], FEATURES, 8)
least = BIG.seconds.min()
compare(
    "transferred, best of the first 8",
    predicted_first["transferred"],
    BIG.seconds[chosen].min() / least,
)
by_luck = np.median([curve[7] for curve in curves["random"]])
compare("random, best of the first 8", predicted_first["random"], by_luck)

# %% [markdown]
# **Reflect.** Seconds of the small shape are eight times smaller, and yet nothing had to be rescaled for the order. When would it have to be?
#
# *The real system.* `code.tune(..., start_from="small.jsonl")` fits one model to both, with seconds over the mean of each shape's; unless told otherwise it starts from the tables that you have raced on, and is within 1.10 after ten trials or so. Chen et al. ("Learning to Optimize Tensor Programs", NeurIPS 2018), on whose method TVM's search rests, report that transfer made it 2 to 10 times as fast.

# %% [markdown]
# ## 7. The epilogue
#
# After a product come a bias and a ReLU. Each is a walk through C: read it, write it. In a compiled kernel they happen while the block is still in registers: an **epilogue**.
#
# **Predict.** How many bytes does an epilogue save? Each step that is not fused reads and writes all of C.


# %% question="saved_bytes" points="2" hint1="One step reads m * n numbers and writes as many."
def saved_bytes(m, n, steps, item_bytes=4):
    """Return the bytes of C that need not move when `steps` elementwise steps are fused."""
    ### BEGIN SOLUTION
    return 2 * steps * m * n * item_bytes
    ### END SOLUTION


# %% tags="check"
q.check("saved_bytes")


# %%
def by_library():
    np.matmul(A, B, out=C)
    np.add(C, B[0], out=C)
    np.maximum(C, 0, out=C)


plain, fused, library, steps = milliseconds(
    kernel(point), kernel(point, "bias_relu"), by_library, lambda: np.maximum(C, 0, out=C)
)
print(f"compiled {plain:.2f} ms, with bias and relu {fused:.2f}; BLAS, then NumPy {library:.2f}")
speed = saved_bytes(SIZE, SIZE, 1) / steps * 1e3
compare("ms saved", saved_bytes(SIZE, SIZE, 2) / speed * 1e3, library - blas_ms)
for k in (16, 64, 256, 1024):
    share = saved_bytes(SIZE, SIZE, 2) / speed / (2 * SIZE**2 * k / PEAK)
    print(f"k = {k:4}: the two steps take {share:5.1%} of the product")

# %% [markdown]
# The time saved is a small difference of two times, so it varies from run to run; the bytes do not.
#
# **A module to deploy.** A compiler takes a framework's model from one end to the other: import it as a graph, tune each product, write code, schedules and weights into one file. What runs the file needs no compiler: `run_deployed??` is all of it.
#
# **Predict.** The network is 64-128-10. How many kB has the file, with its 9,610 float32 numbers?

# %%
### BEGIN STARTER
# predicted_file = ...
### END STARTER
### BEGIN SOLUTION
predicted_file = 4 * 9.61 + 12
### END SOLUTION

# %%
net = mt.nn.Sequential(mt.nn.Linear(64, 128), mt.nn.ReLU(), mt.nn.Linear(128, 10))
batch = rng.normal(size=(32, 64)).astype(np.float32)
layers = deployed.products(trace(net)(mt.tensor(batch)))
for layer in layers:
    print(layer.task, layer.epilogue)

# %%
if code.available():
    schedules = [code.tune(layer.task, trials=8).best for layer in layers]
    with TemporaryDirectory() as folder:
        file = Path(folder, "network.npz")
        compare("kB of the file", predicted_file, deployed.save(file, layers, schedules) / 1e3)
        results, report = deployed.run_elsewhere(run_deployed, file, batch)
    apart = np.abs(results - net(mt.tensor(batch)).detach().numpy()).max()
    print(f"in another process: {report}; largest difference from the network {apart:.1e}")

# %% [markdown]
# **Reflect.** For which products is an epilogue worth a compiler, and for which is it not? Somebody builds a new accelerator, without caches and with a unit that multiplies 16 by 16. Which pieces of this lab would have to be written for it, and which could stay? (This is why every accelerator came with a whole stack of its own, and why TVM was written.)

# %% [markdown] question="why_learned" points="6" manual="true" rubric1="2: Says why the learned search beats chance with numbers of this lab: good schedules are rare (share within 1.1), chance needs about 0.7 / share trials, while a model learns from bad trials too because features add up" rubric2="1: Says why it beats the genetic one or where it did not, such as a model ranks all points at no cost while children stay near their parents" rubric3="2: Says when transfer helps and when not: same processor, so registers, lanes and latency carry over; caches, edges and other operators do not" rubric4="1: Names a way in which it fails or a limit, such as a wrong feature never explored, noise, early stops, the cost of trials"
# ## Discuss
#
# Why does a search with a learned model need fewer trials than chance, and fewer than a genetic one? When does what was learned on one shape help with another, and when would it mislead? Use numbers that you have measured. Half a page.
#
# ### BEGIN SOLUTION
# About one schedule in two hundred is within 1.10 of the best. Chance needs about $\ln 2 / 0.005 \approx 140$ trials to meet one with probability one half, and learns nothing on the way: a bad trial is lost. The model learns most from bad trials. What a factor of lanes or of packing is worth shows in any two schedules that differ in it, so thirty trials fix nine weights, and the weights rank all the thousands at two millionths of a second each. The genetic search keeps only the best and looks near them; what it knows about a knob is lost when the child that had it is slow for another reason.
#
# Transfer helps where the reason of the time is the same: registers, lanes, the latency of an addition, what packing saves in loads. It misleads where the shape decides: 256 by 256 fits in the second cache without packing, and 1,024 does not; edges matter for odd sizes; another processor has other registers. So the model of the small shape is a start, and surprises are kept, since a search that believes its model never sees where it is wrong.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (operators times fusions times devices are too many for hand-written libraries; memory and accelerators expose tensors and explicit memory)" rubric3="1: Methods (graph rewriting and fusion rules, tensor expressions with schedules apart, tensorization, latency hiding, a learned cost model with simulated annealing over a distributed pool of devices)" rubric4="1: Evaluation (a figure with its conditions, such as 1.2 to 3.8 times over existing frameworks with hand-tuned libraries across server GPU, embedded GPU and CPU, or fusion 1.2 to 2 times, a prediction in 0.67 ms)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Tianqi Chen et al., [*TVM: An Automated End-to-End Optimizing Compiler for Deep Learning*](https://arxiv.org/abs/1802.04799), OSDI 2018. One page, in the form below.
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
# **Overview.** A compiler from graphs of tensor operators to fast code on processors, GPUs and accelerators. It searches schedules with a model that learns from measurements. **Problem and challenges.** Libraries are written by hand for each operator and device, so fused operators and new devices have none; memory hierarchies and tensor instructions differ; the space of schedules is huge. **Methods and contributions.** Rules of fusion on the graph; tensor expressions apart from schedules, with new primitives for shared memory, tensor instructions and hiding latency; a cost model of boosted trees over features of the loops, annealing on its guesses, measurements on a pool of devices. **Evaluation.** 1.2 to 3.8 times over frameworks with hand-tuned libraries on server and embedded GPUs and ARM processors; fusion alone 1.2 to 2; a prediction takes 0.67 ms. Training was not measured. **Trade-offs.** Hours of tuning for each model and device; templates of schedules are still written by people. **Open questions.** Shapes that are known only at run time; a space without templates; how far a model carries over to another device.
# ### END SOLUTION

# %%
q.status()

# %% [markdown]
# ## A device that is not here (optional)
#
# **Idea.** On a GPU the same knobs make **thread blocks**. A tile of C is one block; a thread keeps its part of the tile in registers; the block's threads share a small memory, into which they copy their tiles of A and B. A **multiprocessor** runs several blocks at once: as many as its registers, its shared memory and its places for threads allow. The share of these places that have a thread is the **occupancy**. While some threads wait for memory, others compute.
#
# None of this needs the device. NVIDIA's own assembler says how many registers a thread takes; the rest is arithmetic on published limits. The times are predictions, with nothing measured.
#
# **Predict.** A multiprocessor of an H100 has 65,536 registers. A block has 128 threads, and the assembler gives each thread 96 registers. How many blocks run at once?

# %%
### BEGIN STARTER
# predicted_blocks = ...
### END STARTER
### BEGIN SOLUTION
predicted_blocks = 65_536 // (128 * 96)
### END SOLUTION

# %%
knobs = {"tile_m": 64, "tile_n": 64, "tile_k": 8, "unroll": 8}
large = code.DeviceSchedule(TASK, knobs | {"rows": 8, "vectors": 1, "lanes": 4})
small = code.DeviceSchedule(TASK, knobs | {"rows": 1, "vectors": 1, "lanes": 4})
print(large)
for name, schedule in {"large block of registers": large, "small": small}.items():
    print(f"\n{name}\n{code.explain(schedule, 'H100')}")
blocks = code.explain(large, "H100").occupancy.blocks
compare("blocks at once", predicted_blocks, computed=blocks, exact=True)

# %% [markdown]
# **Reflect.** The large block of registers leaves most places empty, and the small one fills them. Which of them asks for fewer bytes from shared memory for each multiplication, and why can it still be the faster one?
#
# Registers that are said to be estimated come from the schedule alone: `pip install "mlsys-labs[ptxas]"` brings the assembler to Linux on x86-64.
