# %% [markdown] builds="rewrites that pay and rewrites that lose, a memory plan; an allocator if you like" needs="02 or 04" audience="gpu"
# # Lab 06: Graph optimization
#
# - **You build** the passes of a compiler for dataflow programs: dead code, constant folding, common subexpressions, the order of products, merged products, fusion, a memory plan, and a search that decides by measured cost.
# - **You need** NumPy, and what a gradient graph is (lab 02 or 04).
# - **It takes** about 110 minutes: introduction 2, sections 22, 14, 13, 12, 21 and 16, discussion 10.
# - **Optional** is the last section, a caching allocator: twenty minutes more. The reading note is for another day.
#
# A program written for a reader computes values that nobody uses, or the same value twice. A system that sees the **whole** computation first can do better. At the end a network learns with the training step that your passes have rewritten.
#
# Programs and figures come from `lessons`; `Program??` shows the source of a name.

# %% tags="setup"
import heapq
import inspect
import platform
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import minitorch.graph as graph
from autograder import compare, lab
from lessons.device_note import device_note
from lessons.graphs.program_device import count_bytes, device, move_to_device, run_on_device
from lessons.timing import milliseconds
from minitorch.show import compare_passes, map_memory

q = lab("graph_optimization")

# %% tags="setup"
import lessons.graphs.program_examples as examples
import lessons.graphs.program_figures as figures
import lessons.graphs.program_memory as memory
from lessons.graphs.program_orders import from_the_left, products_of_products, rebuild, reordered
from lessons.graphs.programs import (
    ELEMENTWISE,
    VIEWS,
    Program,
    attr_key,
    compute,
    flops,
    identity_of,
    random_feeds,
    ready,
    run,
    traffic,
    tree_of,
    users_of,
)

# %% tags="setup"
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
print("matrix products by", blas["name"], blas.get("version", ""))
DEVICE = device()
print(device_note("found" if DEVICE == "cuda" else "", "5 and 6 time and count there"))

# %% [markdown]
# ## 1. Work that need not be done
#
# Our programs are lists of **steps**. Step `i` computes value `i` from values with smaller numbers; some of the values are the program's **outputs**. Compilers call this *straight-line code in static single assignment form*. All values are matrices of float32.
#
# - `program.steps[i]` has `op`, `inputs` (numbers of earlier steps), `attr` (what else the operator needs) and `shape`. `program.outputs` is a list of numbers.
# - `program.emit(op, *inputs, attr=...)` adds a step and returns its number. `program.keep(step, inputs)` adds a copy of a step over other inputs.
# - Operators: the elementwise ones below, and `input`, `const`, `matmul`, `transpose`, `sum`, `concat` and `slice` (of columns), `noise`, and from section 4 on `fused`. `compute(step, arrays)` runs one step, `run(program, feeds)` runs all.

# %% [markdown]
# `milliseconds` returns the best time of each function. `ready(program, feeds)` makes a function that always runs in the same memory.


# %%
print("elementwise:", *ELEMENTWISE)

# %% [markdown]
# Our example is `tiny`. Somebody wrote $y = x \cdot (2 \cdot 0.5) + \tanh(x)\cdot\tanh(x)$, and also computed $-x$.

# %%
tiny = Program()
x = tiny.emit("input", attr=("x", (2, 3)))
two = tiny.emit("const", attr=np.full((1, 1), 2, np.float32))
half = tiny.emit("const", attr=np.full((1, 1), 0.5, np.float32))
looked_at = tiny.emit("neg", x)
scaled = tiny.emit("mul", x, tiny.emit("mul", two, half))
twice = tiny.emit("mul", tiny.emit("tanh", x), tiny.emit("tanh", x))
tiny.outputs = [tiny.emit("add", scaled, twice)]
x_array = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
print(tiny)
print(run(tiny, {"x": x_array})[0])
figures.draw(tiny=tiny)

# %% [markdown]
# **Predict.** The program has 10 steps. How many are left without dead code? How many after constants are folded, and after equal steps become one? (A constant that is no longer used is dead too.)

# %%
### BEGIN STARTER
# predicted_steps = {"dead_code": ..., "fold": ..., "cse": ...}
### END STARTER
### BEGIN SOLUTION
predicted_steps = {"dead_code": 9, "fold": 7, "cse": 6}
### END SOLUTION

# %% [markdown]
# **Idea.** A **pass** reads a program from top to bottom and writes a new one. `rebuild(program, rule)` does the copying. Before it copies step `i`, it calls `rule(new, i, place)`. `place[j]` is the number in `new` of the value that replaces the old value `j`. The rule may emit steps into `new`. It returns the number of the value that replaces value `i`, or `None`: then the step is copied.

# %%
print(inspect.getsource(rebuild))

# %% [markdown]
# The first pass does not use `rebuild`, since nothing replaces a dead step. Needed are the outputs, and the inputs of every needed step. From the end of the list, you see every user of a value before the value. (The copying is given.)


# %% question="dead_code" points="3" hint1="The outputs are needed to begin with. Which others, because of them?" hint2="Going through the steps backwards, you know of each step whether it is needed when you come to it." hint3="range(len(program.steps)), reversed. If i is needed, so are all of program.steps[i].inputs: needed.update(...) takes them in."
def dead_code(program):
    """Return the program with only those steps on which an output depends, in order."""
    needed = set(program.outputs)
    ### BEGIN SOLUTION
    for i in reversed(range(len(program.steps))):
        if i in needed:
            needed.update(program.steps[i].inputs)
    ### END SOLUTION
    new, place = Program(), {}
    for i in sorted(needed):
        step = program.steps[i]
        place[i] = new.keep(step, [place[j] for j in step.inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% tags="check"
q.check("dead_code")

# %% [markdown]
# **Constant folding**: a step whose inputs are all constants is computed now, once, and becomes a constant. Some of its inputs may have become constants in this same pass. What about a step that has no inputs at all?


# %% question="fold" points="4" hint1="Where do you see whether the inputs of step i are constants: in the old program, or in the new one?" hint2="new.steps[place[j]] is what stands for input j now. Its op is \"const\", and its attr the array." hint3="all([]) is True. An input has no inputs, and noise has none either, and neither is a constant."
def fold(program):
    """Return the program with every step whose inputs are constants computed, as a constant."""

    def rule(new, i, place):
        step = program.steps[i]
        ### BEGIN SOLUTION
        sources = [new.steps[place[j]] for j in step.inputs]
        if sources and all(source.op == "const" for source in sources):
            return new.emit("const", attr=compute(step, [source.attr for source in sources]))
        return None
        ### END SOLUTION

    return rebuild(program, rule)


# %% tags="check"
q.check("fold")

# %% [markdown]
# **Common subexpressions**: two steps with the same operator, the same attribute and the same inputs compute the same value: one is enough. Work from the top down: when two inputs have become one, their users may have become equal too. `attr_key(attr)` gives something that you can compare and use as a key of a dict, for arrays too.
#
# $a + b$ and $b + a$ are the same number to the last bit, and so are products: see `COMMUTATIVE`. And two steps of `noise`, as dropout makes them, look equal but are not: each draws its own numbers.

# %%
COMMUTATIVE = ("add", "mul")


# %% question="cse" points="5" hint1="What makes two steps equal? Put all of that into one key, and keep a dict of what you have seen." hint2="Two steps whose inputs became one only now: compare the inputs' numbers in the new program, place[j], not the old ones." hint3="For COMMUTATIVE operators sort the two numbers in the key. For noise make no key at all."
def cse(program):
    """Return the program with every value computed in one place; noise is left alone."""
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        ### BEGIN SOLUTION
        if step.op == "noise":
            return None
        inputs = [place[j] for j in step.inputs]
        order = sorted(inputs) if step.op in COMMUTATIVE else inputs
        key = (step.op, tuple(order), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]
        ### END SOLUTION

    return rebuild(program, rule)


# %% tags="check"
q.check("cse")

# %% [markdown]
# **Try and measure.** After each pass, `dead_code` removes what is no longer used.

# %%
swept = dead_code(tiny)
folded = dead_code(fold(swept))
shared = dead_code(cse(folded))
for name, program in {"dead_code": swept, "fold": folded, "cse": shared}.items():
    compare(f"steps after {name}", predicted_steps[name], len(program.steps))
same = np.array_equal(run(tiny, {"x": x_array})[0], run(shared, {"x": x_array})[0])
print("the same result, to the last bit:", same)
figures.draw(as_written=tiny, after_three_passes=shared)

# %% [markdown]
# **Reflect.** The folded factor is 1. $x \cdot 1 \to x$ is right for every number. Is $x \cdot 0 \to 0$ right? Is $(a + b) - b \to a$?
#
# *The real system.* TensorFlow's [grappler](https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/grappler/optimizers) has these passes under these names and repeats them until nothing changes. XLA has them in [`xla/service`](https://github.com/openxla/xla/tree/main/xla/service).

# %% [markdown]
# ## 2. The order of products
#
# $(AB)C = A(BC)$. The matrix is the same, the work is not. Here $A$ and $B$ are 512 by 512, and $C$ has one column. In `chain(sizes, tree=...)` the tree gives the order: `((0, 1), 2)` multiplies factors 0 and 1 first. `flops` counts the multiplications.

# %%
left = examples.chain(512, 512, 512, 1, tree=((0, 1), 2))
right = examples.chain(512, 512, 512, 1, tree=(0, (1, 2)))
print(left, right, sep="\n\n")

# %% [markdown]
# **Predict.** The product of an $n \times k$ and a $k \times m$ matrix takes $nkm$ multiplications. How many times more multiplications does $(AB)C$ take than $A(BC)$? And how many times more *time*?

# %%
### BEGIN STARTER
# predicted_work = ...
# predicted_speedup = ...
### END STARTER
### BEGIN SOLUTION
predicted_work = (512**3 + 512**2) / (2 * 512**2)
predicted_speedup = 100  # a product with one column waits for memory: less than the work says
### END SOLUTION

# %%
compare("multiplications, left over right", predicted_work, flops(left) / flops(right))
feeds = random_feeds(left)
times = milliseconds(ready(left, feeds), ready(right, feeds), repeats=21)
speedup = times[0] / times[1]
compare("time, left over right", predicted_speedup, speedup)

# %% [markdown]
# **Idea.** A chain of $n$ matrices has exponentially many orders, but only few different *pieces*. In every order one product is the last. It joins the best product of the factors $i..k$ with the best product of $k+1..j$. Let $c_{ij}$ be the least number of multiplications for the factors $i..j$, where factor $i$ is $s_i \times s_{i+1}$:
#
# $$c_{ii} = 0, \qquad c_{ij} = \min_{i \le k < j} \; c_{ik} + c_{k+1,j} + s_i\, s_{k+1}\, s_{j+1}.$$
#
# This is **dynamic programming**: short pieces first, $O(n^3)$ in all. (Cormen et al., *Introduction to Algorithms*, 4th edition, section 14.2.)


# %% question="chain_order" points="6" hint1="best[i, j] = (multiplications, tree) is the table, and its pieces of one factor are there. What is needed for those of two, and for those of three?" hint2="Longer pieces need shorter ones: loop over the length, then over i, then over the last cut k." hint3="A candidate for (i, j) cut at k: best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], with the tree (best[i, k][1], best[k + 1, j][1]). min() of tuples compares the numbers first; give it key= so that trees need not be compared."
def chain_order(sizes):
    """Return (multiplications, tree) of the cheapest order of a chain of matrices.

    Factor i is sizes[i] x sizes[i+1]. A tree is the number of a factor, or a pair of trees:
    ((0, 1), 2) multiplies factors 0 and 1 first.
    """
    n = len(sizes) - 1
    best = {(i, i): (0, i) for i in range(n)}
    ### BEGIN SOLUTION
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            found = []
            for k in range(i, j):
                (a, left), (b, right) = best[i, k], best[k + 1, j]
                found.append((a + b + sizes[i] * sizes[k + 1] * sizes[j + 1], (left, right)))
            best[i, j] = min(found, key=lambda item: item[0])
    ### END SOLUTION
    return best[0, n - 1]


# %% tags="check"
q.check("chain_order")

# %% [markdown]
# The pass around it is given, as `reordered`. It collects the factors of each chain, calls your function, and emits the products in the new order where that saves at least a tenth of the work. A product with another user ends a chain; with `shared=True` it is computed again instead.


# %%
def reassociate(program, shared=False):
    """Return the program with each chain of products in its cheapest order."""
    return dead_code(reordered(program, chain_order, shared))


# %% [markdown]
# **Try it** on the chain from above.

# %%
print(chain_order([512, 512, 512, 1]))
print(reassociate(left))

# %% [markdown]
# **Predict.** A network of two layers has the loss `MSE(w2 ReLU(w1 x), y)`. `two_layers` makes this program with the gradients of `w1` and `w2`, from one rule for each operator. In how many places of both can the pass fire? And without the ReLU?

# %%
### BEGIN STARTER
# chains_with_relu, chains_without = ..., ...
### END STARTER
### BEGIN SOLUTION
chains_with_relu, chains_without = 0, 3
### END SOLUTION

# %% [markdown]
# **Measure.** Count the products that have a product as an input. (The count looks through transposes, since $(AB)^\top = B^\top A^\top$.) Then compare time and work for some chains.

# %%
with_relu, without = (dead_code(examples.two_layers(between)) for between in (True, False))
compare("products of products, with ReLU", chains_with_relu, products_of_products(with_relu))
compare("products of products, without", chains_without, products_of_products(without))
print("with ReLU, products:", sum(step.op == "matmul" for step in with_relu.steps))
chains = (64, 8, 512, 256), (512, 64, 512, 8), (256, 8, 256, 8, 256), (32, 512, 16, 512, 32)
by_work, by_clock = [flops(left) / flops(right)], [speedup]
for sizes in chains:
    as_read = examples.chain(*sizes, tree=from_the_left(sizes))
    best = reassociate(as_read)
    feeds = random_feeds(as_read)
    times = milliseconds(ready(as_read, feeds), ready(best, feeds), repeats=15)
    by_work.append(flops(as_read) / flops(best))
    by_clock.append(times[0] / times[1])
    compare(f"speed-up by work: {sizes}", by_work[-1], by_clock[-1])

# %%
figures.plot_orders(by_work, by_clock, [(512, 512, 512, 1), *chains])

# %% [markdown]
# **Reflect.** With the ReLU, no product is an input of another: why? And why is the speed-up so rarely the ratio of the multiplications?
#
# *The real system.* JAX and NumPy leave the order of `a @ b @ c` to you, but `np.linalg.multi_dot` and [`opt_einsum`](https://github.com/dgasmith/opt_einsum) search for it. TASO finds associativity by itself. It compares all graphs of up to four operators on random inputs, and a theorem prover confirms 743 substitutions (Jia et al., SOSP 2019).

# %% [markdown]
# ## 3. Rewrites that lose
#
# Two products have the same left factor: $xA$ and $xB$, as the queries and keys of attention. With the weights side by side they are one larger product, which uses a processor better:
#
# $$xA,\; xB \;\to\; y = x\,[A\;B],\quad y_{:,\,:m},\; y_{:,\,m:}$$
#
# **Idea.** Whether a rewrite is *faster* depends on the shapes and the machine. Merging saves a call and makes the product larger, but it copies the weights.
#
# **Predict.** Let $x$ have 64 rows, and let $A$ and $B$ be 512 by 64. What is the ratio of the times, before over after, (a) when the weights are inputs, so that the concat runs each time, (b) when they are constants, so that your `fold` runs it once?

# %%
### BEGIN STARTER
# predicted_gain_at_run_time, predicted_gain_folded = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_gain_at_run_time, predicted_gain_folded = 0.8, 1.1
### END SOLUTION

# %% [markdown]
# **Write it.** Take each left factor that several products share. At the *first* of these products emit the concat, the product and a slice; at the others emit only a slice. A later product cannot join if its right factor is computed *after* the first product.


# %% question="merge_matmuls" points="6" hint1="The first product opens its group. Which later ones may join it, and which may not? Put those that do into group, and note group_of[i] = group." hint2="The right factor of a product that joins must have a smaller number than the group's first product." hint3="In the rule: is i the first of its group? Then emit concat of all place[right], and matmul, and remember its number. For every member: a slice from the sum of the widths of those before it in the group."
def merge_matmuls(program):
    """Return the program with products of one left factor merged: concat, matmul, slices."""
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])  # the products of one left factor
            ### BEGIN SOLUTION
            if not group or step.inputs[1] < group[0]:
                group.append(i)
                group_of[i] = group
            ### END SOLUTION

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        ### BEGIN SOLUTION
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))
        ### END SOLUTION

    return dead_code(rebuild(program, rule))


# %% tags="check"
q.check("merge_matmuls")

# %% [markdown]
# **Try it** on the program $\tanh(xA) + \tanh(xB)$.

# %%
heads = examples.two_heads(2, 3, 2)
figures.draw(before=heads, after=merge_matmuls(heads))

# %% [markdown]
# **Measure** the two cases, and a few other shapes. A bar above 1: the merged program is faster.


# %%
def gain(rows, middle, columns, weights):
    """Return how many times faster two heads are after the merge (and folding)."""
    program = examples.two_heads(rows, middle, columns, weights)
    after = dead_code(fold(merge_matmuls(program)))
    feeds = random_feeds(program)
    times = milliseconds(ready(program, feeds), ready(after, feeds), repeats=31)
    return times[0] / times[1]


compare("weights fed", predicted_gain_at_run_time, gain(64, 512, 64, "input"))
compare("weights constant", predicted_gain_folded, gain(64, 512, 64, "const"))
shapes = [(8, 512, 512), (64, 512, 64), (256, 256, 64), (512, 64, 16), (512, 512, 256)]
gains = {kind: [gain(*shape, kind) for shape in shapes] for kind in ("input", "const")}
predicted = predicted_gain_at_run_time, predicted_gain_folded
figures.plot_merges(gains, shapes, predicted, at=1)

# %% [markdown]
# **Reflect.** For which shapes is the merged program slower, and what do they have in common?
#
# *The real system.* On a GPU one small product leaves most of the chip idle: there the rewrite is faster more often. TASO *measures* each operator of each shape once, on the device at hand, and adds the times ([`src/cudnn`](https://github.com/jiazhihao/TASO/tree/master/src/cudnn)).

# %% [markdown]
# ## 4. One walk through memory
#
# `relu(x * w + b) * s + y` on a large array does little arithmetic: mostly it waits for memory.

# %%
print(examples.five_elementwise(4))

# %% [markdown]
# **Predict.** How many arrays of x's size does this program read and write in all, not counting the vectors w, b and s? How many are necessary?

# %%
### BEGIN STARTER
# arrays_unfused, arrays_fused = ..., ...
### END STARTER
### BEGIN SOLUTION
arrays_unfused, arrays_fused = 5 * 2 + 1, 3
### END SOLUTION

# %% [markdown]
# **Idea.** **Fusion**: a tree of elementwise operators becomes one step, which goes through memory once. It works in blocks so small that its temporaries stay in the cache. The kernel is given. The `attr` of a `fused` step is a tuple of parts `(op, operands)`: an operand of 0 or more is an input of the step, and $-1-k$ is the result of part $k$. `tree_of(program, i, joins)` returns `(parts, leaves)` of step `i`: all of its inputs in `joins` become parts, and so do their inputs in `joins`; the leaves are the inputs of the fused step.

# %% [markdown]
# You decide **which step joins its user**. A step joins if it is elementwise, its user is elementwise and has the same shape, and nothing else uses it. (`users_of(program)[i]` lists the users of step `i`; an output has the user `None` too. A step that reads a value twice is listed twice; treat that as one user or as two.)


# %% question="fuse" points="6" hint1="Step i joins its user when four things hold. Write them down as conditions on step i, users[i] and the user's step." hint2="users[i] == [u] with u not None: one user, and not an output. A step that its user reads twice has two entries; it may join, and is then computed twice." hint3="In the rule: a step that has an input in joins, and does not join itself, is the root of a tree: emit \"fused\" with the leaves' places as inputs and the parts as attr. What joined is dead afterwards."
def fuse(program):
    """Return the program with trees of elementwise steps fused; dead steps are removed.

    A step joins its user when both are elementwise, of the same shape, and it has no other use.
    """
    users, steps = users_of(program), program.steps
    joins = set()
    ### BEGIN SOLUTION
    for i, step in enumerate(steps):
        if step.op in ELEMENTWISE and len(users[i]) == 1 and users[i][0] is not None:
            user = steps[users[i][0]]
            if user.op in ELEMENTWISE and user.shape == step.shape:
                joins.add(i)
    ### END SOLUTION

    def rule(new, i, place):
        ### BEGIN SOLUTION
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)
        ### END SOLUTION

    return dead_code(rebuild(program, rule))


# %% tags="check"
q.check("fuse")

# %% [markdown]
# **Try and measure** the same program on arrays that fit the caches and on arrays that do not.

# %%
print(fuse(examples.five_elementwise(4)))
unfused, fused = (
    traffic(p) for p in (examples.five_elementwise(4), fuse(examples.five_elementwise(4)))
)
compare("arrays moved, as written", arrays_unfused, unfused)
compare("arrays moved, fused", arrays_fused, fused)
speedups, counts = [], [16, 64, 256, 1024, 4096]
for rows in counts:
    plain = examples.five_elementwise(rows)
    feeds = random_feeds(plain)
    times = milliseconds(ready(plain, feeds), ready(fuse(plain), feeds))
    speedups.append(times[0] / times[1])
    compare(f"{rows * 4:,} KiB: speed-up / arrays saved", unfused / fused, speedups[-1])
figures.plot_fusion([rows * 4096 for rows in counts], speedups, 11 / 3)

# %% [markdown]
# **Reflect.** For small arrays, which are in the cache already, fusion gains nothing or loses. What could still be gained there, and why can NumPy not do it? And why must a value with two users not join both?
#
# *The real system.* XLA, TVM and torch's [inductor](https://github.com/pytorch/pytorch/tree/main/torch/_inductor) *generate* the loop. Then temporaries stay in registers. TVM's authors report 1.2 to 2 times from fusion (Chen et al., OSDI 2018).

# %% [markdown]
# ## 5. Where values live
#
# `run` keeps every value to the end, but most are needed only for a short time.
#
# **Idea.** When the whole program is known, its memory can be **planned**: one block, the **arena**, and for each value a place in it. Two values may share bytes if they never live at the same time.
#
# A value lives from the step that computes it to the last step that reads it, both included. (A step's result must not lie on its own inputs: a matrix product would read what it has overwritten.) Outputs live to the end, `len(program.steps)`. Inputs and constants bring their own memory. A **view**, a transpose or a slice (`VIEWS`), has no memory of its own: it shows another value's memory, and that memory has to live as long as the view.


# %% question="lifetimes" points="5" hint1="Whose memory does a step's result lie in? Its own, or for a view that of its source, which may be a view too." hint2="Keep home[i]: the step in whose memory value i lies; home[i] = home[source] for a view. Each read of value j at step i keeps home[j] alive to i." hint3="A value that nobody reads lives at its own step. Outputs: home[i] lives to len(program.steps). At the end leave out the homes that are inputs or constants."
def lifetimes(program):
    """Return {i: (first, last)} for every step that needs memory of its own.

    Not among them: inputs, constants and views. A view keeps alive what it looks at.
    """
    ### BEGIN SOLUTION
    home, lives = [], {}
    for i, step in enumerate(program.steps):
        home.append(home[step.inputs[0]] if step.op in VIEWS else i)
        for j in (i, *step.inputs):
            first, _ = lives.get(home[j], (home[j], i))
            lives[home[j]] = (first, i)
    for i in program.outputs:
        lives[home[i]] = (home[i], len(program.steps))
    return {i: life for i, life in lives.items() if program.steps[i].op not in ("input", "const")}
    ### END SOLUTION


# %% tags="check"
q.check("lifetimes")

# %% [markdown]
# To find the smallest arena is NP-hard, but **greedy by size** comes close. Take the values from the largest to the smallest; of equal ones, first the one that lives first. Put each at the lowest offset where it overlaps nothing that lives at the same time. (Pisarchyk & Lee, *Efficient memory management for deep neural net inference*, 2020.)


# %% question="place" points="6" hint1="Which of the values that are placed already matter for the next one? Those whose lives touch its own, ends included." hint2="Go through these in the order of their offsets, with a candidate offset that starts at 0. When does the value fit in front of the next one, and what becomes of the candidate if not?" hint3="If offset + size <= start of the next: it fits, stop. Otherwise offset = max(offset, end of that one): an earlier one may reach further."
def place(lives, sizes):
    """Return {i: offset}, greedy by size: values that live at the same time do not overlap.

    Args:
        lives: {i: (first, last)}, both included.
        sizes: {i: bytes}.
    """
    offsets = {}
    ### BEGIN SOLUTION
    for i in sorted(lives, key=lambda i: (-sizes[i], lives[i][0])):
        beside = [j for j in offsets if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]]
        offset = 0
        for j in sorted(beside, key=lambda j: offsets[j]):
            if offset + sizes[i] <= offsets[j]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
    ### END SOLUTION
    return offsets


# %% tags="check"
q.check("place")

# %% [markdown]
# **Predict.** A network has ten layers: ten products of 64 by 256 and ten ReLUs, 64 KiB each. Without a plan, a forward run takes 20 buffers. How many does the planned arena take? And does it stay as small with the gradients?

# %%
### BEGIN STARTER
# predicted_buffers = ...
### END STARTER
### BEGIN SOLUTION
predicted_buffers = 2
### END SOLUTION


# %%
def memory_plan(program):
    """Return the plan of a program, by your two functions."""
    return memory.memory_plan(program, lifetimes, place)


def layers(depth, backward, **sizes):
    """Return a deep network of relu layers, or its gradients with respect to all weights."""
    return dead_code(fold(examples.deep_network(depth, backward, **sizes)))


forward, both = layers(10, False), layers(10, True)

# %% [markdown]
# **Try it.** The arena as a map: time to the right, bytes upwards, one box for each value.

# %%
figures.map_arenas(ten_layers=memory_plan(forward), with_gradients=memory_plan(both))

# %% [markdown]
# **Measure.** `bind` makes a function that runs a program in its arena. `poisoned` also overwrites every value with NaN when its life has ended, so that no later read goes unnoticed.


# %%
def bind(program):
    """Return a function of feeds that runs the program in its arena."""
    return memory.in_arena(program, memory_plan(program))


# %%
buffer = 64 * 1024
compare("buffers in the arena, forward", predicted_buffers, memory_plan(forward).peak / buffer)
print(f"with gradients: {memory_plan(both).peak / buffer:.0f} buffers")
for title, program in {"forward": forward, "with gradients": both}.items():
    feeds, planned, plan = random_feeds(program), bind(program), memory_plan(program)
    expected = run(program, feeds)
    for how, found in (
        ("planned", planned(feeds)),
        ("poisoned", memory.poisoned(program, plan, feeds)),
    ):
        print(f"{title}, {how}, right:", all(map(np.array_equal, expected, found)))
    times = milliseconds(partial(run, program, feeds), partial(planned, feeds))
    print(f"{title}: time fresh / planned {times[0] / times[1]:.2f}")

# %% [markdown]
# **On the device**, the GPU where there is one, memory comes from an allocator: torch's on CUDA, minitorch's own on the CPU. Each tensor is dropped after its last use. Your `lifetimes` predict the bytes alive at every step; the allocator counts them.

# %%
wide = layers(4, True, size=512, batch=2048)
feeds, plan = random_feeds(wide), memory_plan(wide)
given = move_to_device(wide, feeds)
pairs = zip(run_on_device(wide, given), run(wide, feeds))
right = [np.allclose(t.to("cpu").numpy(), a, rtol=1e-2, atol=1e-2) for t, a in pairs]
del pairs
expected = memory.alive_bytes(wide, plan)
alive, requests = count_bytes(wide, given)
print("on", DEVICE, "- right:", all(right))
compare("MiB alive at the peak", max(expected) / 2**20, max(alive) / 2**20)
compare("times to the system, second run", 0, requests)
figures.plot_alive(expected, alive, plan.total, DEVICE)

# %% [markdown]
# The library's plan for four layers with gradients. Which results share a buffer?

# %%
h = graph.placeholder(graph.float32, (64, 256), name="x")
ws = [graph.Variable(graph.zeros((256, 256)), name=f"w{k}") for k in range(4)]
for w in ws:
    h = graph.nn.relu(graph.matmul(h, w))
map_memory(graph.gradients(graph.reduce_sum(h), ws), title="Four layers, with gradients")

# %% [markdown]
# **Reflect.** Forward alone, the arena does not grow with the depth. With gradients it does: which values live so long, and why? What could you do if they did not fit?
#
# *The real system.* [XLA's buffer assignment](https://github.com/openxla/xla/blob/main/xla/service/buffer_assignment.cc) and TensorFlow Lite's planner do this before the program runs. To compute activations again instead of keeping them is called [checkpointing](https://github.com/pytorch/pytorch/blob/main/torch/utils/checkpoint.py).

# %% [markdown]
# ## 6. Search, and a network that learns
#
# Some rewrites make the program slower, and lead to another that makes it much faster.
#
# **Idea.** TASO uses a search with a **measured cost**. It keeps a queue of programs, takes the cheapest, and tries every rewrite on it. It keeps what costs less than $\alpha$ times the best so far, and so also what is a *little* worse. With $\alpha = 1$ the search is greedy and stops where no single rewrite helps. TASO takes $\alpha = 1.05$.
#
# **Predict.** One rewrite leads from A to B, another from B to C. The costs are 100, 104, 60. What does the search find with $\alpha = 1$, and what with 1.05? And with 1.05 if B costs 106?

# %%
### BEGIN STARTER
# found_greedy, found_taso, found_behind_a_hill = ..., ..., ...
### END STARTER
### BEGIN SOLUTION
found_greedy, found_taso, found_behind_a_hill = 100, 60, 100
### END SOLUTION


# %% question="search" points="6" hint1="The cheapest program has been taken from the queue. What is tried on it, and when is what comes of it not worth a measurement?" hint2="Never look at a program twice: keep the fingerprints of those that were seen, the start's are there. heapq.heappush(queue, (price, number, found)): two programs cannot be compared, so the number must never repeat, such as how many were seen." hint3="For each rewrite of the program: seen before? skip. Otherwise measure it, once; less than alpha times the best: into the queue; less than the best: it is the best from now on."
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    """Return (cost, program) of the cheapest program found from `start`.

    Takes the cheapest program of the queue and tries every rewrite on it, at most `budget` times.
    What costs less than alpha times the best that was found before it goes into the queue. `cost`
    is asked once for each different program; programs with the same fingerprint are the same.
    """
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        ### BEGIN SOLUTION
        for rewrite in rewrites:
            found = rewrite(program)
            if fingerprint(found) in seen:
                continue
            seen.add(fingerprint(found))
            price = cost(found)
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, len(seen), found))
            if price < best[0]:
                best = (price, found)
        ### END SOLUTION
    return best


# %% tags="check"
q.check("search")

# %% [markdown]
# **Try it** on the three costs.

# %%
step_to = {"A": "B", "B": "C", "C": "C"}
for title, predicted, b, alpha in (
    ("alpha 1", found_greedy, 104, 1.0),
    ("alpha 1.05", found_taso, 104, 1.05),
    ("alpha 1.05, B costs 106", found_behind_a_hill, 106, 1.05),
):
    costs = {"A": 100, "B": b, "C": 60}
    compare(title, predicted, search("A", [step_to.get], costs.get, alpha=alpha)[0])

# %% [markdown]
# Now one training step on handwritten digits. The first layer is two thin factors, $W = UV$. On one hidden layer there are two heads: which digit it is, and whether it is even. The losses are mean squared errors. The program computes all gradients and the new weights.

# %%
BATCH = 512
written = examples.training_step(BATCH)
print(len(written.steps), "steps, of which products:", sum(s.op == "matmul" for s in written.steps))

# %% [markdown]
# Apply the passes in the order of the lab. Columns: steps, millions of multiplications, MiB of all values and of the planned arena, and the time as a share of the program as written: by NumPy in planned memory, and over tensors on the device. **Does the same pass help on both?**

# %%
stages = {"as written": written}
stages["dead code"] = dead_code(written)
stages["folded"] = dead_code(fold(stages["dead code"]))
stages["common"] = dead_code(cse(stages["folded"]))
stages["products"] = reassociate(stages["common"])
stages["fused"] = fuse(stages["products"])
stages["+ merged"] = fuse(merge_matmuls(stages["products"]))
feeds = random_feeds(written)
times = milliseconds(*[partial(bind(p), feeds) for p in stages.values()], repeats=21)
there = [partial(run_on_device, p, move_to_device(p, feeds)) for p in stages.values()]
times_there = milliseconds(*there, repeats=21)

# %%
print(f"{'':<12}{'steps':>6}{'Mmult':>8}{'MiB':>7}{'arena':>7}{'NumPy':>7}{DEVICE:>7}")
for (title, p), ms, ms_there in zip(stages.items(), times, times_there):
    mib, arena = (n / 2**20 for n in (memory_plan(p).total, memory_plan(p).peak))
    print(f"{title:<12}{len(p.steps):>6}{flops(p) / 1e6:>8.1f}{mib:>7.1f}{arena:>7.1f}", end="")
    print(f"{ms / times[0]:>7.2f}{ms_there / times_there[0]:>7.2f}")
for title in ("dead code", "products", "fused"):
    k = list(stages).index(title)
    here, on_device = times[0] / times[k], times_there[0] / times_there[k]
    compare(f"{title}: gain on {DEVICE}, NumPy predicts", here, on_device)

# %%
measures = {
    "multiplications": [flops(p) for p in stages.values()],
    "bytes of all values": [memory_plan(p).total for p in stages.values()],
    "time, NumPy": times,
    f"time, {DEVICE}": times_there,
}
figures.plot_shares(list(stages), measures)

# %% [markdown]
# **Measure.** The cost is the clock: the time of a program over that of the one as written, in turns. `reassociate` with `shared=True` computes again what others use too: sometimes less work, sometimes more.


# %%
def clocked(program):
    """Return a program's time over that of the one as written, measured in turns."""
    tried.append(program)
    runs = [partial(bind(p), feeds) for p in (program, written)]
    mine, reference = milliseconds(*runs, repeats=15)
    return mine / reference


# %%
rewrites = [
    lambda p: dead_code(cse(fold(dead_code(p)))),
    reassociate,
    partial(reassociate, shared=True),
    merge_matmuls,
    fuse,
]
tried = []
best_cost, best = search(written, rewrites, clocked, identity_of, budget=8)
final = written, stages["fused"], best
again = milliseconds(*[partial(bind(p), feeds) for p in final], repeats=15)
print(f"programs tried: {len(tried)}")
compare("as written / passes in order, once more", times[0] / times[5], again[0] / again[1])
compare("as written / found by the search", 1 / best_cost, again[0] / again[2])
print("merged products in it:", sum(step.op == "concat" for step in best.steps))

# %% [markdown]
# Now the network learns, with the program found and with the one as written.

# %%
pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 8 - 1).astype(np.float32)
targets = {"digit": np.eye(10)[digits], "even": np.eye(2)[digits % 2]}
targets = {name: array.astype(np.float32) for name, array in targets.items()}


# %%
def train(step, steps=200):
    """Return (losses, weights, seconds) of training with a step: a function of feeds."""
    rng, losses = np.random.default_rng(0), []
    sizes = examples.LAYERS
    weights = {n: rng.normal(size=s).astype(np.float32) / s[0] ** 0.5 for n, s in sizes.items()}
    weights["b"][:] = 0
    began = time.perf_counter()
    for _ in range(steps):
        rows = rng.integers(0, 1536, BATCH)
        now = {"x": pixels[rows]} | {name: array[rows] for name, array in targets.items()}
        loss, *new = step(now | weights)
        weights = {name: array.copy() for name, array in zip(sizes, new)}
        losses.append(float(loss[0, 0]))
    return losses, weights, time.perf_counter() - began


# %%
slow_losses, _, slow_s = train(partial(run, written))
losses, weights, fast_s = train(bind(best))
figures.plot_losses(as_written=slow_losses, found_by_your_search=losses)
hidden = np.maximum(pixels[1536:] @ weights["u"] @ weights["v"] + weights["b"], 0)
right = np.mean((hidden @ weights["p"]).argmax(axis=1) == digits[1536:])
print(f"right on {right:.1%} of {len(hidden)} images never seen")
print(f"largest difference of the losses: {np.abs(np.subtract(losses, slow_losses)).max():.1e}")
share = memory_plan(best).peak / memory_plan(written).total
print(f"memory of a step, planned / as written: {share:.3f}")
compare("time of training, as written / yours", again[0] / again[2], slow_s / fast_s)
print("(as written it ran in fresh memory, as `run` does; making batches takes time in both)")

# %% [markdown]
# **Reflect.** Which pass gained most? When the winner is measured once more, it is mostly slower than the search believed. Why must that be so?
#
# *The real system.* `minitorch.graph.optimize` runs such passes on a real graph, and [TASO's search](https://github.com/jiazhihao/TASO/blob/master/src/core/substitution.cc) is the loop that you wrote. Below, the library optimizes a graph with a chain and a common subexpression.

# %%
a, b = (graph.placeholder(graph.float32, [256, 256], name=n) for n in "ab")
c = graph.placeholder(graph.float32, [256, 1], name="c")
first, second = (graph.tanh(graph.matmul(graph.matmul(a, b), c)) for _ in range(2))
library = first * 2.0 + second
before, after = library, graph.optimize(library)
print(graph.count_nodes(before), "nodes before,", graph.count_nodes(after), "after")
plans = [graph.memory_plan(nodes) for nodes in (before, after)]
print(f"bytes of all results, after / before: {plans[1].total_bytes / plans[0].total_bytes:.3f}")

# %% [markdown]
# Which of the passes are yours, and which gains most?

# %%
compare_passes(library, title="What the library's passes do to it")

# %% [markdown] question="where_it_fires" points="6" manual="true" rubric1="2: For MSE(w2 ReLU(w1 x), y) names all the products, forward (w1 x, w2 h) and backward (g h', w2' g, (w2' g * mask) x') and says that an elementwise operator stands between any two of them, so associativity fires nowhere" rubric2="1: Says what changes without the ReLU, with the chains by name, such as w2 w1 x and w2' g x'" rubric3="1: Gives a case in real networks where it does fire (low-rank factors, linear attention, gradients of a product)" rubric4="1: Says that rewrites are not free, with a measured ratio of this lab below 1 and its reason" rubric5="1: Says why a cost must be measured (shape, cache, device) or what a count of multiplications misses, with a number"
# ## Discuss
#
# `MSE(w2 ReLU(w1 x), y)`: where can associativity fire, forward and backward, for which gradients? What changes when the ReLU is left out, and where are chains of products in networks that people really train? Name a rewrite that lost in your measurements: why did it, and what does a system need so as not to apply it? Half a page.
#
# ### BEGIN SOLUTION
# Nowhere. Forward there are $z = w_1 x$ and $w_2 h$ with $h = \mathrm{ReLU}(z)$ between them. Backward: $g = 2(w_2 h - y)$ is elementwise of a product, $\partial w_2 = g h^\top$ has the ReLU in $h$ and the subtraction in $g$; $w_2^\top g$; then the mask of the ReLU is multiplied in, elementwise, before $(\cdot)\,x^\top$ gives $\partial w_1$. In every joint stands an elementwise operator, and $(A \odot M)B \ne A \odot (MB)$. Without the ReLU: $w_2 w_1 x$ forward, $g\,(w_1 x)^\top$ for $w_2$, and $w_2^\top g\, x^\top$ for $w_1$: three products of products, and for a small batch the order matters.
#
# Chains occur where a matrix has been factored (low-rank layers and adapters: $x U V$), in attention without softmax ($Q (K^\top V)$ instead of $(QK^\top)V$: linear in the length), and in gradients of such products, as in the training step of section 6, where it gave most of the gain.
#
# Merging $xA$ and $xB$ at run time lost for weights of 512 by 64 and 64 rows (0.8 to 0.9 here): the concat copies 256 KiB of weights to save one call. With constant weights the copy is folded away and it was about even. Fusion lost for arrays that fit the cache. Multiplications do not tell: in section 2 the work fell by 257 times and the time by another factor, because a product with one column waits for memory. So a system has to measure, on the shapes and the device at hand, and to keep the measurements: operators of one shape cost the same wherever they stand.
# ### END SOLUTION

# %% [markdown]
# **Try.** A machine finds such rules too. `discover` enumerates small terms over matrices and compares their values on random integers; TASO finds its 743 rules in this way. Which two of these rules did you write in this lab?

# %%
for rule in graph.discover():
    print(rule)

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (hand-written rules: many, incomplete, wrong at times, never for all new operators)" rubric3="1: Methods (enumerates graphs of up to 4 operators, fingerprints on random inputs, 743 substitutions, verified from operator axioms by a theorem prover; cost-based backtracking with alpha 1.05; joint layout)" rubric4="1: Evaluation (a figure with its conditions, such as up to 2.8 times over existing frameworks on one GPU, inference)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Zhihao Jia et al., [*TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions*](https://doi.org/10.1145/3341301.3359630), SOSP 2019. One page, in this form.
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
# **Overview.** Graph rewrites for deep learning found by a machine instead of written by people, and a search that applies them by measured cost. **Problem and challenges.** Frameworks hold hundreds of hand-written rules; each new operator needs more of them, they miss combinations, and some were wrong. **Methods and contributions.** All graphs of up to four operators are enumerated; pairs that agree on random inputs are candidates, pruned of trivial variants to 743 substitutions; each is proved from a few dozen axioms about operators by a theorem prover. The optimizer explores rewritten graphs with a queue and tolerates graphs up to 5 % worse than the best ($\alpha = 1.05$); cost is the sum of measured operators; data layout is searched together with the rewrites. **Evaluation.** Inference of five networks on one GPU, up to 2.8 times faster than the best of the frameworks; on ResNet-50, which people had tuned by hand, about even. **Trade-offs.** Four operators are few, axioms are still written by people, costs that add up ignore what neighbours do to caches, and minutes of search must be worth it. **Open questions.** Training, where a rewrite must pay forward and backward; dynamic shapes; larger substitutions.
# ### END SOLUTION

# %%
q.status()

# %% [markdown]
# ## 7. Memory that comes back (optional)
#
# An imperative program has no plan: nobody knows what it will ask for next. But new memory is expensive: the system fills each page of 4 KiB with zeros at its first use.

# %%
big = np.ones((4096, 4096), np.float32)
kept = np.empty_like(big)
fresh_ms, kept_ms = milliseconds(lambda: big + big, lambda: np.add(big, big, out=kept), repeats=5)
print(f"64 MiB: into fresh memory / into memory that was used before: {fresh_ms / kept_ms:.2f}")

# %% [markdown]
# **Idea.** A **caching allocator** keeps the blocks that come back and hands them out again:
#
# - `malloc` takes the *smallest* free block that is large enough (**best fit**), **splits** off what is not needed and keeps the rest free. Only if there is none, it asks the system to `reserve` a new block, of exactly that size.
# - `free` puts the block back, and **merges** it with its free neighbours, so that small pieces become large ones again.
#
# A block is a pair (address, size). Addresses are plain numbers: two blocks are neighbours when one ends where the other begins.
#
# **Predict.** A program asks for 4 blocks of 100 bytes and frees them all. Then it asks for one of 400 and one of 100 and frees both. Then it asks for 250 twice. How many times does the allocator call `reserve`?

# %%
### BEGIN STARTER
# predicted_reserves = ...
### END STARTER
### BEGIN SOLUTION
predicted_reserves = 5  # 4 blocks, which merge into 400; 100 more, and the five are 500
### END SOLUTION


# %% question="Caching" points="0" hint1="self.free_blocks is a list of (address, size). Which of them fit, and which of those is the smallest?" hint2="After taking a block of size s for n bytes: what is left is (address + n, s - n), if anything is. Remember the size of what you hand out in self.used." hint3="free: look for a free block that ends at the address, and for one that begins at its end. Take them out of the list and put one larger block in."
class Caching:
    """An allocator over `reserve(n)`, which returns the address of `n` new bytes."""

    def __init__(self, reserve):
        self.reserve = reserve
        self.free_blocks = []  # (address, size) of what is free
        self.used = {}  # {address: size} of what is handed out

    def malloc(self, n):
        """Return the address of `n` bytes that nobody else has: best fit, the rest split off."""
        ### BEGIN SOLUTION
        fitting = [(size, address) for address, size in self.free_blocks if size >= n]
        if fitting:
            size, address = min(fitting)
            self.free_blocks.remove((address, size))
        else:
            size, address = n, self.reserve(n)
        if size > n:
            self.free_blocks.append((address + n, size - n))
        self.used[address] = n
        return address
        ### END SOLUTION

    def free(self, address):
        """Take a block back and merge it with free neighbours on both sides."""
        ### BEGIN SOLUTION
        size = self.used.pop(address)
        for other in list(self.free_blocks):
            start, length = other
            if start + length == address or address + size == start:
                self.free_blocks.remove(other)
                address, size = min(address, start), size + length
        self.free_blocks.append((address, size))
        ### END SOLUTION


# %% tags="check"
q.check("Caching")


# %%
system = memory.Counter()
cache = Caching(system)
for sizes in [100] * 4, [400, 100]:
    for address in [cache.malloc(size) for size in sizes]:
        cache.free(address)
last = [cache.malloc(250), cache.malloc(250)]
compare("calls of reserve", predicted_reserves, system.calls)
print("addresses of the last two:", last, "- four small blocks had become one large one")

# %% [markdown]
# **Try and measure.** `Heap` holds one large piece of real memory, and your allocator divides it. `run_in_heap` frees each value after its last use.

# %%
feeds, plan = random_feeds(wide), memory_plan(wide)
heap = memory.Heap(2 * plan.total, Caching)
once = memory.run_in_heap(wide, feeds, heap, plan.lives)
first_run = heap.system.calls
again = memory.run_in_heap(wide, feeds, heap, plan.lives)
second_run = heap.system.calls - first_run
print("right:", all(map(np.array_equal, run(wide, feeds), again)))
print(f"calls of reserve: {first_run} in the first run, {second_run} in the second")
shares = heap.system.bytes / plan.total, plan.peak / plan.total
print(f"bytes, fresh : cached : planned = 1 : {shares[0]:.2f} : {shares[1]:.2f}")

# %% [markdown]
# **Threads.** Two threads that ask one allocator need a **lock**, or both get the same block. A lock that is free costs little. One that the other holds costs a wait, and its line of memory moves from core to core. A **thread-caching** allocator gives each thread a small cache of its own, and goes to the common one only for many blocks at once.

# %%
shared_us, own_us = (min(memory.pair_us(locks) for _ in range(2)) for locks in (1, 2))
print(f"two at once, a malloc and a free: one lock {shared_us:.2f} µs, a lock each {own_us:.2f} µs")

# %% [markdown]
# **Reflect.** In the second run the allocator never asks the system. What happens when the length of a text changes from step to step? Which blocks are then free but too small? (**Fragmentation**.)
#
# *The real system.* [PyTorch's CUDA allocator](https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp) works like yours. It also rounds sizes to 512 bytes and keeps small and large blocks apart (Paszke et al., NeurIPS 2019, section 5.3). Beside it on the CPU are [TCMalloc](https://google.github.io/tcmalloc/design.html), with a cache for each thread or core, and jemalloc.
