# %% [markdown]
# # Lab 06: Graph optimization
#
# - **You build** the passes of a compiler for dataflow programs: dead code, constant folding, common subexpressions, the order of products, merged products, fusion, a memory plan, and a search that decides by measured cost; if you like, a caching allocator too.
# - **You need** NumPy, and what a gradient graph is (lab 02 or 04).
# - **It takes** about 115 minutes: 3 to set out, 22, 15, 13, 13, 23 and 16 for the six sections that everybody does, 10 for the discussion.
# - **Optional** is the last section, the caching allocator: twenty minutes more, and no points. The reading note, with its paper, is for another day. Cells that are said to need no reading are to be run, and their output is to be looked at.
#
# A program that is written for a reader does more work than it has to: it computes what nobody asks for, computes the same thing twice, multiplies matrices in the order in which a formula names them, and walks through memory once for every operator.
# A system that is handed the **whole** computation before it runs can do better. In this lab you write the passes of such a system.
# You measure each of them, meet rewrites that lose, and let a search with a measured cost decide. At the end a network learns with the training step that your passes have rewritten, in the memory that you have planned.
#
# Each section asks for a prediction before it measures. Write the number down first: a prediction that fails teaches more than one that was never made.

# %% tags="setup"
import heapq
import platform
import time
from functools import partial, reduce
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import minitorch as mt
import minitorch.graph as graph
from autograder import lab
from minitorch.show import compare_passes, map_memory

# %% tags="setup"
q = lab("graph_optimization")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
print("matrix products by", blas["name"], blas.get("version", ""))
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"
print("CUDA: used in 5 and 6" if DEVICE == "cuda" else "CUDA: none; all runs on the CPU")

# %% [markdown]
# ## 1. Work that need not be done
#
# Our programs are lists of **steps**. Step `i` computes value `i` from values with smaller numbers; some of the values are the program's **outputs**. That is what compilers call *straight-line code in static single assignment form*, and it is a graph: the numbers are its edges. All values are matrices of float32.
#
# `program.emit(op, *inputs, attr=...)` adds a step and returns its number. The operators are those of the two tables, and `input`, `const`, `matmul`, `transpose`, `sum`, `concat` and `slice` (of columns), `noise` and, from section 4 on, `fused`. (Of the cells that follow read `Step` and `Program`; the others, which compute, need no reading.)

# %%
ELEMENTWISE = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "square": np.square,
    "tanh": np.tanh,
    "relu": lambda a, out: np.maximum(a, 0, out=out),
    "positive": lambda a, out: np.greater(a, 0, out=out),
}
NOISE = np.random.default_rng(0)
KERNELS = {
    "matmul": lambda attr, out, a, b: np.matmul(a, b, out=out),
    "sum": lambda attr, out, a: np.sum(a, axis=attr, keepdims=True, out=out),
    "concat": lambda attr, out, *arrays: np.concatenate(arrays, axis=1, out=out),
    "noise": lambda attr, out: np.greater(NOISE.random(attr[1]), attr[0], out=out),
}
VIEWS = {  # no arithmetic and no memory: another look at the same numbers
    "transpose": lambda attr, a: a.T,
    "slice": lambda attr, a: a[:, attr[0] : attr[1]],
}


# %%
class Step(NamedTuple):
    """One step: `inputs` are numbers of earlier steps, `attr` whatever else the operator needs."""

    op: str
    inputs: tuple
    attr: object
    shape: tuple


# %%
def infer(op, attr, shapes):
    """Return the shape of a step's result."""
    if op in ("input", "noise"):
        return tuple(attr[1])
    if op == "const":
        return attr.shape
    if op in ELEMENTWISE or op == "fused":
        return np.broadcast_shapes(*shapes)
    rows, columns = shapes[0]
    if op == "sum":
        return {None: (1, 1), 0: (1, columns), 1: (rows, 1)}[attr]
    if op == "slice":
        return rows, attr[1] - attr[0]
    if op == "concat":
        return rows, sum(shape[1] for shape in shapes)
    return {"transpose": (columns, rows), "matmul": (rows, shapes[-1][1])}[op]


# %%
class Program:
    """Steps in order, and the numbers of those that are its outputs."""

    def __init__(self):
        self.steps, self.outputs = [], []

    def emit(self, op, *inputs, attr=None):
        """Add a step and return its number."""
        shape = infer(op, attr, [self.steps[i].shape for i in inputs])
        return self.keep(Step(op, inputs, attr, shape), inputs)

    def keep(self, step, inputs):
        """Add a step of another program, over these inputs, and return its number."""
        self.steps.append(step._replace(inputs=tuple(inputs)))
        return len(self.steps) - 1

    def __str__(self):
        lines = []
        for i, step in enumerate(self.steps):
            of = " ".join(f"%{j}" for j in step.inputs)
            note = "" if step.attr is None or step.op == "const" else f" {step.attr}"
            mark = "   <- output" if i in self.outputs else ""
            lines.append(f"%{i} = {step.op} {of}{note}  {step.shape}{mark}")
        return "\n".join(lines)


# %%
def compute(step, arrays, out=None):
    """Return the result of one step of arrays; `out` is the memory for it, if there is any."""
    if step.op == "const":
        return step.attr
    if step.op in VIEWS:
        return VIEWS[step.op](step.attr, *arrays)
    if out is None:
        out = np.empty(step.shape, np.float32)
    if step.op in ELEMENTWISE:
        ELEMENTWISE[step.op](*arrays, out=out)
    else:
        KERNELS[step.op](step.attr, out, *arrays)
    return out


# %%
def run(program, feeds, memory=None):
    """Return the outputs, given {name: array} for the inputs; memory[i], if any, is for step i."""
    values, memory = [], memory or {}
    for i, step in enumerate(program.steps):
        sources = [values[j] for j in step.inputs]
        fed = step.op == "input"
        values.append(feeds[step.attr[0]] if fed else compute(step, sources, memory.get(i)))
    return [values[i] for i in program.outputs]


def ready(program, feeds):
    """Return a function that runs the program again and again into the same memory."""
    own = [i for i, step in enumerate(program.steps) if step.op not in ("input", "const", *VIEWS)]
    memory = {i: np.empty(program.steps[i].shape, np.float32) for i in own}
    return partial(run, program, feeds, memory)


# %% [markdown]
# Three functions serve the whole lab: `compare` prints what you predicted, what was measured, and the ratio; `milliseconds` times some functions in turns and returns the best of each (of programs made `ready`, so that the system's handing out of memory is not timed too; that is section 7); `draw` shows small programs. (They need no reading.)


# %%
def compare(what, predicted, measured):
    """Print a prediction beside what came out; a count is exact or it is not."""
    if predicted is ...:
        print(f"{what:<44} measured {measured:>10,.4g}   (no prediction yet)")
    else:
        said = f"ratio {measured / predicted:.3f}" if predicted else "no ratio to 0"
        if isinstance(measured, int | np.integer):
            said = "exact" if measured == predicted else f"{said}, not exact: count again"
        print(f"{what:<44} predicted {predicted:>10,.4g}  measured {measured:>10,.4g}  {said}")


def milliseconds(*functions, repeats=9):
    """Return the least milliseconds of each function, all taking turns; more is interruption."""
    times = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, kept in zip(functions, times):
            began = time.perf_counter()
            function()
            if turn:  # the first turn warms up
                kept.append((time.perf_counter() - began) * 1e3)
    return [min(kept) for kept in times]


# %%
def draw(**programs):
    """Draw programs side by side, inputs at the top, outputs with a thick border."""
    _, axes = plt.subplots(1, len(programs), squeeze=False)
    for ax, (title, program) in zip(axes[0], programs.items()):
        depth, place, taken = [], [], {}
        for step in program.steps:
            depth.append(max((depth[j] + 1 for j in step.inputs), default=0))
            taken[depth[-1]] = taken.get(depth[-1], -1) + 1
            place.append(taken[depth[-1]])
        at = [(p - taken[d] / 2, -d) for p, d in zip(place, depth)]
        for i, step in enumerate(program.steps):
            for j in step.inputs:
                ax.plot(*zip(at[i], at[j]), color="C4", linewidth=1, linestyle="-", zorder=1)
            box = {"boxstyle": "round", "facecolor": "white"}
            box |= {"edgecolor": "C0", "linewidth": 2.5 if i in program.outputs else 0.8}
            label = step.attr[0] if step.op == "input" else step.op
            ax.text(*at[i], label, ha="center", va="center", bbox=box, zorder=2, fontsize=8)
        ax.set(title=f"{title.replace('_', ' ')}: {len(program.steps)} steps", xticks=[], yticks=[])
        ax.margins(0.25, 0.12)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    plt.show()


# %% [markdown]
# The running example, `tiny`: a person wrote $y = x \cdot (2 \cdot 0.5) + \tanh(x)\cdot\tanh(x)$, and once looked at $-x$.

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
draw(tiny=tiny)

# %% [markdown]
# **Predict.** How many of the 10 steps are left when dead code is gone; when then constants are folded; when then equal steps are one? (Constants that nobody uses any more are dead too.)

# %%
### BEGIN STARTER
# predicted_steps = {"dead_code": ..., "fold": ..., "cse": ...}
### END STARTER
### BEGIN SOLUTION
predicted_steps = {"dead_code": 9, "fold": 7, "cse": 6}
### END SOLUTION

# %% [markdown]
# **Idea.** A **pass** reads a program from top to bottom and writes a new one. `rebuild(program, rule)` does the copying: before it copies step `i` it asks `rule(new, i, place)`, where `place[j]` is the number in `new` of what stands for the old value `j`. The rule returns the number of the value in `new` that stands for value `i`, emitting what it likes, or `None` to have the step copied.


# %%
def rebuild(program, rule):
    """Return the program as `rule` rewrites it."""
    new, place = Program(), {}
    for i, step in enumerate(program.steps):
        found = rule(new, i, place)
        if found is None:
            found = new.keep(step, [place[j] for j in step.inputs])
        place[i] = found
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% [markdown]
# The first pass does without it, since some steps have nothing that stands for them. What is needed? The outputs, and the inputs of what is needed. Read the list from the end, and every user comes before what it uses. (The second half, the copying, is written.)


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
# **Constant folding**: a step whose inputs are all constants is computed now, once, and becomes a constant. Its inputs may be constants only since a moment ago. And what of a step that has no inputs at all?


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
# **Common subexpressions**: two steps with the same operator, the same attribute and the same inputs compute the same value; the second stands for nothing new. That holds from the top down: once the inputs have become one, their users may have. `attr_key(attr)` makes an attribute comparable, arrays included.
#
# Two cautions. $a + b$ and $b + a$ are the same number to the last bit, and so are products: `COMMUTATIVE`. And two steps of `noise`, as dropout makes them, look alike and are not: each draws its own numbers.

# %%
COMMUTATIVE = ("add", "mul")


def attr_key(attr):
    """Return something that is equal and hashable exactly where attributes are equal."""
    return (attr.shape, attr.tobytes()) if isinstance(attr, np.ndarray) else attr


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
# **Try and measure.** The passes one after another; after each, `dead_code` sweeps up what it has orphaned.

# %%
swept = dead_code(tiny)
folded = dead_code(fold(swept))
shared = dead_code(cse(folded))
for name, program in {"dead_code": swept, "fold": folded, "cse": shared}.items():
    compare(f"steps after {name}", predicted_steps[name], len(program.steps))
same = np.array_equal(run(tiny, {"x": x_array})[0], run(shared, {"x": x_array})[0])
print("the same result, to the last bit:", same)
draw(as_written=tiny, after_three_passes=shared)

# %% [markdown]
# After folding, the factor is the constant 1, and $x \cdot 1$ is $x$: the next pass in line would be a table of algebra.
#
# **Reflect.** $x \cdot 1 \to x$ is right for every number. Is $x \cdot 0 \to 0$? And $(a + b) - b \to a$? What would you have to know to allow them?
#
# *The real system.* TensorFlow's [grappler](https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/grappler/optimizers) has these passes under these names and runs them until nothing changes; XLA's are in [`xla/service`](https://github.com/openxla/xla/tree/main/xla/service). Both keep stateful and random operators apart, as you did.

# %% [markdown]
# ## 2. The order of products
#
# $(AB)C = A(BC)$. The result is the same matrix, the work is not. Here $A$ and $B$ are 512 by 512, and $C$ is one column.


# %%
def chain(*sizes, tree):
    """Return a program that multiplies matrices sizes[i] x sizes[i+1] in the order of `tree`."""
    program = Program()
    factors = [program.emit("input", attr=(f"m{i}", s)) for i, s in enumerate(pairwise(sizes))]

    def product(tree):
        return (
            factors[tree] if isinstance(tree, int) else program.emit("matmul", *map(product, tree))
        )

    program.outputs = [product(tree)]
    return program


def random_feeds(program, seed=0):
    """Return random arrays for all inputs of a program."""
    rng = np.random.default_rng(seed)
    names = [step.attr for step in program.steps if step.op == "input"]
    return {name: rng.normal(size=shape).astype(np.float32) / 8 for name, shape in names}


# %%
def flops(program):
    """Return the multiplications in all products of a program."""
    shapes = [step.shape for step in program.steps]
    products = [step for step in program.steps if step.op == "matmul"]
    return sum(shapes[s.inputs[0]][0] * shapes[s.inputs[0]][1] * s.shape[1] for s in products)


left = chain(512, 512, 512, 1, tree=((0, 1), 2))
right = chain(512, 512, 512, 1, tree=(0, (1, 2)))

# %% [markdown]
# **Predict.** An $n \times k$ matrix times a $k \times m$ one takes $nkm$ multiplications. How many times more does $(AB)C$ take than $A(BC)$? And how many times longer will it *take*?

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
# **Idea.** For a chain of $n$ matrices there are exponentially many orders, but few different *pieces*. Whatever the best order is, some product is the last: it joins the best product of the factors $i..k$ with the best of $k+1..j$. Let $c_{ij}$ be the least number of multiplications for the factors $i..j$, where factor $i$ is $s_i \times s_{i+1}$:
#
# $$c_{ii} = 0, \qquad c_{ij} = \min_{i \le k < j} \; c_{ik} + c_{k+1,j} + s_i\, s_{k+1}\, s_{j+1}.$$
#
# That is **dynamic programming**: short pieces first, each once, $O(n^3)$ in all. (Cormen et al., *Introduction to Algorithms*, 4th edition, section 14.2.)


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
# The pass around it is written: it collects the factors of each chain, asks your function, and emits the products in the new order where that saves at least a tenth (the rounding changes, so it must be worth it). A product that somebody else uses too ends a chain; with `shared=True` it is multiplied anew.


# %%
def users_of(program):
    """Return for each step the list of its users; an output has the user None too."""
    users = [[] for _ in program.steps]
    for i, step in enumerate(program.steps):
        for j in step.inputs:
            users[j].append(i)
    for i in program.outputs:
        users[i].append(None)
    return users


# %%
def reassociate(program, shared=False):
    """Return the program with each chain of products in its cheapest order."""
    users = users_of(program)
    products = {i for i, step in enumerate(program.steps) if step.op == "matmul"}
    inner = {i for i in products if set(users[i]) <= products and (shared or len(users[i]) == 1)}

    def factors(i):
        return [f for j in program.steps[i].inputs for f in (factors(j) if j in inner else [j])]

    def work(i):
        (rows, middle), (_, columns) = (program.steps[j].shape for j in program.steps[i].inputs)
        return rows * middle * columns + sum(work(j) for j in program.steps[i].inputs if j in inner)

    def rule(new, i, place):
        if i not in products or (i in inner and not shared) or len(found := factors(i)) < 3:
            return None
        shapes = [program.steps[j].shape for j in found]
        least, tree = chain_order([s[0] for s in shapes] + [shapes[-1][1]])
        return emit_tree(new, [place[j] for j in found], tree) if least < 0.9 * work(i) else None

    return dead_code(rebuild(program, rule))


# %%
def emit_tree(new, factors, tree):
    """Emit the products of `tree`; return the number of the last."""
    if isinstance(tree, int):
        return factors[tree]
    return new.emit("matmul", *(emit_tree(new, factors, side) for side in tree))


# %% [markdown]
# **Try it.** The chain of the beginning, and the program that the pass makes of it.

# %%
print(chain_order([512, 512, 512, 1]))
print(reassociate(left))

# %% [markdown]
# Now a question. A network has two layers, and its loss is `MSE(w2 ReLU(w1 x), y)`. `gradients` below appends the steps of its gradients to a program, each operator's by its rule, as labs 02 and 04 do (and needs no reading). In how many places can the pass fire, in the loss and the gradients of `w1` and `w2` together? And without the ReLU? Write both numbers down.

# %%
### BEGIN STARTER
# chains_with_relu, chains_without = ..., ...
### END STARTER
### BEGIN SOLUTION
chains_with_relu, chains_without = 0, 3
### END SOLUTION

RULES = {
    "add": lambda p, g, i, a, b: (g, g),
    "sub": lambda p, g, i, a, b: (g, p.emit("neg", g)),
    "mul": lambda p, g, i, a, b: (p.emit("mul", g, b), p.emit("mul", g, a)),
    "div": lambda p, g, i, a, b: (
        p.emit("div", g, b),
        p.emit("neg", p.emit("div", p.emit("mul", g, i), b)),
    ),
    "matmul": lambda p, g, i, a, b: (
        p.emit("matmul", g, p.emit("transpose", b)),
        p.emit("matmul", p.emit("transpose", a), g),
    ),
    "relu": lambda p, g, i, a: (p.emit("mul", g, p.emit("positive", a)),),
    "square": lambda p, g, i, a: (p.emit("mul", g, p.emit("mul", number(p, 2), a)),),
    "sum": lambda p, g, i, a: (p.emit("mul", g, ones(p, p.steps[a].shape)),),
}


def number(p, value):
    return p.emit("const", attr=np.full((1, 1), value, np.float32))


def ones(p, shape):
    return p.emit("const", attr=np.ones(shape, np.float32))


# %%
def gradients(p, loss, wrt):
    """Append the gradients of value `loss` to program `p`; return their numbers, one for each."""
    adjoint = {loss: ones(p, p.steps[loss].shape)}
    for i in range(loss, -1, -1):
        step = p.steps[i]
        if i not in adjoint or not step.inputs:
            continue
        for j, partial_ in zip(step.inputs, RULES[step.op](p, adjoint[i], i, *step.inputs)):
            for axis in (0, 1):  # a broadcast input is a copy, and copies add up
                if p.steps[j].shape[axis] == 1 < p.steps[partial_].shape[axis]:
                    partial_ = p.emit("sum", partial_, attr=axis)
            adjoint[j] = p.emit("add", adjoint[j], partial_) if j in adjoint else partial_
    return [adjoint[j] for j in wrt]


# %%
def two_layers(between, width=96, batch=8):
    """Return the program of MSE(w2 f(w1 x), y) and of its gradients for w1 and w2."""
    p = Program()
    names = {"w1": (64, 64), "w2": (width, 64), "x": (64, batch), "y": (width, batch)}
    w1, w2, x, y = (p.emit("input", attr=item) for item in names.items())
    hidden = p.emit("matmul", w1, x)
    hidden = p.emit("relu", hidden) if between else hidden
    difference = p.emit("sub", p.emit("matmul", w2, hidden), y)
    loss = p.emit("sum", p.emit("square", difference))
    p.outputs = [loss, *gradients(p, loss, [w1, w2])]
    return dead_code(p)


# %%
def longest_chains(program):
    """Return how many products have a product among their inputs, transposes looked through."""

    def source(i):
        return source(program.steps[i].inputs[0]) if program.steps[i].op == "transpose" else i

    products = [step for step in program.steps if step.op == "matmul"]
    return sum(any(program.steps[source(j)].op == "matmul" for j in s.inputs) for s in products)


# %% [markdown]
# **Measure.** Count the products of products. (`longest_chains` looks through transposes, since $(AB)^\top = B^\top A^\top$.)

# %%
with_relu, without = two_layers(True), two_layers(False)
compare("products of products, with ReLU", chains_with_relu, longest_chains(with_relu))
compare("products of products, without", chains_without, longest_chains(without))
print("with ReLU, products:", sum(step.op == "matmul" for step in with_relu.steps))
chains = (64, 8, 512, 256), (512, 64, 512, 8), (256, 8, 256, 8, 256), (32, 512, 16, 512, 32)
by_work, by_clock = [flops(left) / flops(right)], [speedup]
for sizes in chains:
    as_read = chain(*sizes, tree=reduce(lambda tree, k: (tree, k), range(len(sizes) - 1)))
    best = reassociate(as_read)
    feeds = random_feeds(as_read)
    times = milliseconds(ready(as_read, feeds), ready(best, feeds), repeats=15)
    by_work.append(flops(as_read) / flops(best))
    by_clock.append(times[0] / times[1])
    compare(f"speed-up by work: {sizes}", by_work[-1], by_clock[-1])

# %%
fig, ax = plt.subplots()
ax.loglog(by_work, by_clock, "o", label="measured")
ax.loglog([1, 300], [1, 300], color="C4", linewidth=1, label="if only the work counted")
for work, time_ratio, sizes in zip(by_work, by_clock, [(512, 512, 512, 1), *chains]):
    where = (work, time_ratio), (8, -10)
    ax.annotate(" x ".join(map(str, sizes)), *where, textcoords="offset points", fontsize=8)
ax.set(xlabel="multiplications, as read / best order", ylabel="time, as read / best order")
ax.set(title="What a better order of products gains", xlim=(1, 1500))
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** With the ReLU no product meets a product, neither forward nor backward: an elementwise operator stands in every joint. Where do chains occur in real networks, then? (Think of a layer that was made of two factors to save parameters, of attention without its softmax, and of the gradient of a product.) And why is the speed-up so rarely the ratio of the multiplications?
#
# *The real system.* JAX and NumPy leave the order of `a @ b @ c` to you, but `np.linalg.multi_dot` and [`opt_einsum`](https://github.com/dgasmith/opt_einsum) search it, as torch's `linalg.multi_dot` does. TASO finds associativity by itself: it enumerates all graphs of up to four operators, tests which pairs agree on random inputs, has a theorem prover confirm them, and so obtains 743 substitutions (Jia et al., SOSP 2019).

# %% [markdown]
# ## 3. Rewrites that lose
#
# Two products share their left factor: $xA$ and $xB$, as the heads of a network or the queries and keys of attention do. Side by side the weights make one larger product, and larger products use a processor better:
#
# $$xA,\; xB \;\to\; y = x\,[A\;B],\quad y_{:,\,:m},\; y_{:,\,m:}$$
#
# It is one of the two rewrites of Figure 2 in the TASO paper. There it pays.
#
# **Idea.** A rewrite is right for *every* input or it is a bug; whether it *pays* depends on shapes and machine. Merging saves a call and makes the product larger; it costs a copy of the weights.
#
# **Predict.** The `concat` copies both weights. With $x$ of 64 rows, and $A$, $B$ of 512 by 64 each: will the merged program be faster, as a ratio before over after, (a) when the weights are inputs and the concat runs each time, (b) when they are constants, and your `fold` runs it once?

# %%
### BEGIN STARTER
# predicted_gain_at_run_time, predicted_gain_folded = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_gain_at_run_time, predicted_gain_folded = 0.8, 1.1
### END SOLUTION

# %% [markdown]
# **Write it.** For each left factor that several products share: at the *first* of these products emit the concat, the product and a slice; at the others only a slice. But take care: at the place of the first product all right factors must exist already. A later product whose right factor is computed *after* the first, perhaps from its result, cannot join.


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
# **Try it** on two heads.


# %%
def two_heads(rows, middle, columns, weights="input"):
    """Return tanh(x A) + tanh(x B), with A and B fed or constant."""
    p = Program()
    x = p.emit("input", attr=("x", (rows, middle)))
    rng = np.random.default_rng(1)
    w = [rng.normal(size=(middle, columns)).astype(np.float32) / 8 for _ in range(2)]
    a, b = (
        p.emit("const", attr=w[i]) if weights == "const" else p.emit("input", attr=(n, w[i].shape))
        for i, n in enumerate("ab")
    )
    heads = [p.emit("tanh", p.emit("matmul", x, weight)) for weight in (a, b)]
    p.outputs = [p.emit("add", *heads)]
    return p


draw(before=two_heads(2, 3, 2), after=merge_matmuls(two_heads(2, 3, 2)))


# %% [markdown]
# **Measure** the two, and a few other shapes: one bar each, above 1 where the rewrite wins.


# %%
def gain(program):
    """Return how many times faster the program is after the merge (and folding)."""
    after = dead_code(fold(merge_matmuls(program)))
    feeds = random_feeds(program)
    times = milliseconds(ready(program, feeds), ready(after, feeds), repeats=31)
    return times[0] / times[1]


compare("weights fed", predicted_gain_at_run_time, gain(two_heads(64, 512, 64)))
compare("weights constant", predicted_gain_folded, gain(two_heads(64, 512, 64, "const")))
shapes = [(8, 512, 512), (64, 512, 64), (256, 256, 64), (512, 64, 16), (512, 512, 256)]
gains = {kind: [gain(two_heads(*shape, kind)) for shape in shapes] for kind in ("input", "const")}


# %%
fig, ax = plt.subplots()
for k, (kind, values) in enumerate(gains.items()):
    ax.bar(np.arange(len(shapes)) + 0.4 * k, values, 0.38, label=f"weights: {kind}")
for k, guess in enumerate((predicted_gain_at_run_time, predicted_gain_folded)):
    if guess is not ...:
        ax.plot(1 + 0.4 * k, guess, "kD", label="" if k else "your predictions")
ax.axhline(1, color="C4", linewidth=1)
ax.set_xticks(np.arange(len(shapes)) + 0.2, [" x ".join(map(str, s)) for s in shapes])
ax.set(ylabel="time before / after", title="Two products merged: rows x middle x columns")
ax.set_ylim(0, 1.35 * max(1, *gains["input"], *gains["const"]))
ax.legend(ncols=3)
plt.show()

# %% [markdown]
# **Reflect.** For which of the shapes does the rewrite lose, and what do they have in common? A rule that always fires would be wrong half of the time, and a rule with a threshold would hold on one machine. What does a system have to know to decide?
#
# *The real system.* On a GPU, where one small product leaves most of the chip idle, the same rewrite wins more often: that is why people write one `qkv` projection by hand ([nanoGPT's `c_attn`](https://github.com/karpathy/nanoGPT/blob/master/model.py)). TASO *measures* each operator of each shape once, on the device at hand, and adds the times up ([`src/cudnn`](https://github.com/jiazhihao/TASO/tree/master/src/cudnn)). In section 6 you do so.

# %% [markdown]
# ## 4. One walk through memory
#
# `relu(x * w + b) * s + y` on a large array does hardly any arithmetic. Five operators read and write the array five times, and what they wait for is memory.


# %%
def five(rows, columns=1024):
    """Return relu(x * w + b) * s + y, with vectors w, b, s."""
    p = Program()
    x, y = (p.emit("input", attr=(n, (rows, columns))) for n in "xy")
    w, b, s = (p.emit("input", attr=(n, (1, columns))) for n in "wbs")
    inside = p.emit("relu", p.emit("add", p.emit("mul", x, w), b))
    p.outputs = [p.emit("add", p.emit("mul", inside, s), y)]
    return p


# %% [markdown]
# **Predict.** How many arrays of x's size does the program as it stands read and write, in all? (The vectors do not count.) And how many does it have to?

# %%
### BEGIN STARTER
# arrays_unfused, arrays_fused = ..., ...
### END STARTER
### BEGIN SOLUTION
arrays_unfused, arrays_fused = 5 * 2 + 1, 3
### END SOLUTION

# %% [markdown]
# **Idea.** **Fusion**: a tree of elementwise operators becomes one step that goes through memory once, in blocks small enough for its temporaries to stay in the cache. The kernel is written, and needs no reading; `attr` of a `fused` step is a tuple of parts `(op, operands)`, where an operand of 0 or more is an input of the step, and $-1-k$ is the result of part $k$.

# %%
BLOCK = 65_536  # elements: 256 KiB a temporary, so that it stays in a level-2 cache


# %%
def fused_kernel(parts, out, *arrays):
    """Compute all parts block by block, by rows; a part's result is overwritten by its user."""
    n, columns = out.shape
    rows = max(1, min(n, BLOCK // columns))
    fresh = [k for k, (_, operands) in enumerate(parts[:-1]) if min(operands) >= 0]
    scratch = {k: np.empty((rows, columns), np.float32) for k in fresh}
    for lo in range(0, n, rows):
        hi = min(lo + rows, n)
        pieces = [a[lo:hi] if len(a) == n else a for a in arrays]
        results = []
        for k, (op, operands) in enumerate(parts):
            sources = [pieces[j] if j >= 0 else results[-1 - j] for j in operands]
            if k == len(parts) - 1:
                target = out[lo:hi]
            else:
                target = scratch[k][: hi - lo] if k in scratch else results[-1 - min(operands)]
            results.append(ELEMENTWISE[op](*sources, out=target))
    return out


# %%
KERNELS["fused"] = fused_kernel


def tree_of(program, i, joins):
    """Return (parts, leaves) of step i with all of its inputs in `joins`, and theirs, inside."""
    parts, leaves = [], []

    def visit(k):
        operands = []
        for j in program.steps[k].inputs:
            if j in joins:
                operands.append(visit(j))
            else:
                leaves.append(j) if j not in leaves else None
                operands.append(leaves.index(j))
        parts.append((program.steps[k].op, tuple(operands)))
        return -len(parts)

    visit(i)
    return tuple(parts), leaves


# %% [markdown]
# Yours is the decision: **who joins its user?** A step that is elementwise, as its user is, and has the same shape as it; and that nobody else uses. (`users_of` gives the users; an output has the user `None`.)


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
# **Try and measure.** The same program, from arrays that fit the caches to arrays that do not.


# %%
def traffic(program):
    """Return how many arrays of the largest size the steps read and write."""
    largest = max(step.shape for step in program.steps)
    arithmetic = [s for s in program.steps if s.inputs and s.op not in VIEWS]
    reads = [program.steps[j].shape == largest for s in arithmetic for j in set(s.inputs)]
    return sum(reads) + sum(s.shape == largest for s in arithmetic)


print(fuse(five(4)))
compare("arrays moved, as written", arrays_unfused, traffic(five(4)))
compare("arrays moved, fused", arrays_fused, traffic(fuse(five(4))))
speedups, counts = [], [16, 64, 256, 1024, 4096]
for rows in counts:
    plain, once = five(rows), fuse(five(rows))
    feeds = random_feeds(plain)
    times = milliseconds(ready(plain, feeds), ready(once, feeds))
    speedups.append(times[0] / times[1])
for rows, speedup in zip(counts, speedups):
    compare(f"{rows * 4:,} KiB: speed-up / arrays saved", arrays_unfused / arrays_fused if arrays_fused is not ... else ..., speedup)  # fmt: skip

# %%
fig, ax = plt.subplots()
ax.semilogx([rows * 4096 for rows in counts], speedups, "o-", label="measured")
ax.set_ylim(0, 1.3 * max(11 / 3, *speedups))
ax.axhline(11 / 3, color="C1", linestyle="--", label="if only memory counted: 11 / 3")
ax.axhline(1, color="C4", linewidth=1)
ax.set(xlabel="bytes of one array", ylabel="time before / after", title="Five operators fused")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Where the arrays are small, fusion gains nothing or even loses: everything is in the cache already. What is left to gain there, and why can NumPy not have it? And why must a value that is used twice not simply join both of its users?
#
# *The real system.* XLA, TVM and torch's [inductor](https://github.com/pytorch/pytorch/tree/main/torch/_inductor) *generate* the loop, so that temporaries stay in registers and there is one call and not one for each part and block; TVM's authors report 1.2 to 2 times from fusion (Chen et al., OSDI 2018). minitorch's own pass stays with NumPy and blocks, as yours does; read it with `inspect.getsource(minitorch.graph.passes.fuse)`.

# %% [markdown]
# ## 5. Where values live
#
# Fresh memory for every value, and all of it kept to the end of the run: that is what `run` does. But most values are needed only for a moment, and their memory could be another's.
#
# **Idea.** When the whole program is known, its memory can be **planned**: one block, the **arena**, and for each value a place in it. Two values may share bytes if they never live at the same time.
#
# A value lives from the step that computes it to the last step that reads it, both included: a step's result must not lie on its own inputs (a matrix product would read what it has overwritten). Outputs live to the end, `len(program.steps)`. Inputs and constants bring their memory along. And a **view**, a transpose or a slice, has none: it is a look at another value's memory, which has to live as long as the view does.


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
# Now the places. To find the smallest arena is NP-hard; **greedy by size** comes close: take the values from the largest to the smallest (of equal ones the one that lives first), and put each at the lowest offset at which it overlaps nothing that lives at the same time. (Pisarchyk & Lee, *Efficient memory management for deep neural net inference*, 2020.)


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
# **Predict.** The program below is a network of ten layers, forward only: ten products of 64 by 256 and ten times tanh, 64 KiB each. Without a plan that is 20 buffers. How many does the planned arena hold? And if its gradients are asked for as well, ten more layers backwards: does the arena stay as small?

# %%
### BEGIN STARTER
# predicted_buffers = ...
### END STARTER
### BEGIN SOLUTION
predicted_buffers = 2
### END SOLUTION


# %%
class Plan(NamedTuple):
    """Offsets in an arena, its size, and what all values would need without one."""

    lives: dict
    sizes: dict
    offsets: dict
    peak: int
    total: int


def memory_plan(program):
    """Return the plan of a program, by your two functions."""
    lives = lifetimes(program)
    sizes = {i: 4 * int(np.prod(program.steps[i].shape)) for i in lives}
    sizes = {i: -(-size // 64) * 64 for i, size in sizes.items()}  # whole cache lines
    offsets = place(lives, sizes)
    peak = max((offsets[i] + sizes[i] for i in lives), default=0)
    return Plan(lives, sizes, offsets, peak, sum(sizes.values()))


# %%
def layers(depth, backward, size=256, batch=64):
    """Return a deep network of relu layers, or its gradients with respect to all weights."""
    p = Program()
    h = p.emit("input", attr=("x", (batch, size)))
    weights = [p.emit("input", attr=(f"w{k}", (size, size))) for k in range(depth)]
    for w in weights:
        h = p.emit("relu", p.emit("matmul", h, w))
    p.outputs = gradients(p, p.emit("sum", h), weights) if backward else [h]
    return dead_code(fold(p))


# %% [markdown]
# **Try it.** A map of the arena: time to the right, bytes upwards, one box a value. (The drawing needs no reading.)


# %%
def memory_map(**programs):
    """Draw the arenas of some programs side by side."""
    _, axes = plt.subplots(1, len(programs), squeeze=False)
    for ax, (title, program) in zip(axes[0], programs.items()):
        plan = memory_plan(program)
        for i, (first, last) in plan.lives.items():
            box = (plan.offsets[i] / 1024, plan.sizes[i] / 1024)
            colour = f"C{i % 6}"
            ax.broken_barh([(first, last - first + 1)], box, facecolor=colour, edgecolor="white")
        ax.axhline(plan.peak / 1024, color="C4", linewidth=1)
        share = f"{plan.peak / plan.total:.0%} of {plan.total / 1024:,.0f} KiB"
        ax.set(
            title=f"{title.replace('_', ' ')}: {share}",
            xlabel="step",
            ylabel="place in the arena, KiB",
        )
    plt.show()


memory_map(ten_layers=layers(10, False), with_gradients=layers(10, True))


# %% [markdown]
# **Measure.** `bind` makes a function that runs a program in its arena. If two values overlapped that live together, the results would be wrong; and in `poisoned` every value whose life has ended is overwritten with NaN, so that a read after the end cannot go unnoticed.


# %%
def bind(program):
    """Return (a function of feeds that runs the program in an arena, its plan)."""
    plan = memory_plan(program)
    arena, memory = np.empty(plan.peak, np.uint8), {}
    for i, offset in plan.offsets.items():
        shape = program.steps[i].shape
        n_bytes = 4 * int(np.prod(shape))
        memory[i] = arena[offset : offset + n_bytes].view(np.float32).reshape(shape)
    return partial(run, program, memory=memory), plan


# %%
def poisoned(program, feeds):
    """Return the outputs of a run in an arena in which whatever has ended is made NaN."""
    planned, plan = bind(program)
    memory = planned.keywords["memory"]

    class Spoiling(list):
        def __iter__(self):
            for now, step in enumerate(list.__iter__(self)):
                for i, (_, last) in plan.lives.items():
                    if last == now - 1:
                        memory[i].fill(np.nan)
                yield step

    spoiling = Program()
    spoiling.steps, spoiling.outputs = Spoiling(program.steps), program.outputs
    return run(spoiling, feeds, memory)


# %%
forward, both = layers(10, False), layers(10, True)
compare("buffers in the arena, forward", predicted_buffers, memory_plan(forward).peak / 65536)
print(f"with gradients: {memory_plan(both).peak / 65536:.0f} buffers' worth")
for title, program in {"forward": forward, "with gradients": both}.items():
    feeds = random_feeds(program)
    planned, plan = bind(program)
    results = zip(run(program, feeds), planned(feeds), poisoned(program, feeds))
    right = all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in results)
    times = milliseconds(partial(run, program, feeds), partial(planned, feeds))
    print(
        f"{title}: right, with poison too: {right}; time fresh / planned {times[0] / times[1]:.2f}"
    )

# %% [markdown]
# **And on the device**, the GPU where there is one. There memory comes from an allocator that other people wrote, torch's on CUDA and minitorch's own on the CPU. The program runs over tensors, and each is dropped after its last use. Your `lifetimes` predict how many bytes are alive at every step; the allocator counts them. (The cells need no reading but `run_there`.)


# %%
def plain(op):
    return lambda _, *tensors: getattr(mt, op)(*tensors)


THERE = {  # the operators over tensors of minitorch, on whatever device; first comes the attribute
    **{op: plain(op) for op in ELEMENTWISE},
    "positive": lambda _, a: (a > 0) * 1.0,
    "matmul": lambda _, a, b: a @ b,
    "sum": lambda axis, a: a.sum(dim=(0, 1) if axis is None else axis, keepdim=True),
    "concat": lambda _, *tensors: mt.cat(tensors, dim=1),
    "transpose": lambda _, a: a.T,
    "slice": lambda columns, a: a[:, columns[0] : columns[1]],
}


# %%
def fused_there(parts, *tensors):
    """The parts one after the other: one kernel for all of them would have to be generated."""
    results = []
    for op, operands in parts:
        sources = (tensors[j] if j >= 0 else results[-1 - j] for j in operands)
        results.append(THERE[op](None, *sources))
    return results[-1]


THERE["fused"] = fused_there


# %%
def given_there(program, feeds):
    """Return {step: tensor on the device} for a program's inputs and constants."""
    steps = [(i, s) for i, s in enumerate(program.steps) if s.op in ("input", "const")]
    arrays = {i: feeds[s.attr[0]] if s.op == "input" else s.attr for i, s in steps}
    return {i: mt.tensor(array, device=DEVICE) for i, array in arrays.items()}


def run_there(program, given, watch=lambda: None):
    """Run a program on the device and wait for its end; a tensor is dropped after its last use."""
    values, last = dict(given), {j: i for i, s in enumerate(program.steps) for j in s.inputs}
    for i, step in enumerate(program.steps):
        if i not in given:
            values[i] = THERE[step.op](step.attr, *(values[j] for j in step.inputs))
        watch()
        for j in set(step.inputs) - set(program.outputs):
            if last[j] == i:
                del values[j]
    if DEVICE == "cuda":
        mt.cuda.synchronize()  # a GPU works on while Python goes ahead
    return [values[i] for i in program.outputs]


# %%
wide = layers(4, True, size=512, batch=2048)
feeds, lives = random_feeds(wide), lifetimes(wide)
counters = mt.cuda.memory_stats if DEVICE == "cuda" else mt.cpu.memory_stats
given = given_there(wide, feeds)
first = run_there(wide, given)
close_enough = [
    np.allclose(t.to("cpu").numpy(), a, rtol=1e-2, atol=1e-2)
    for t, a in zip(first, run(wide, feeds))
]
del first
before, alive = counters(), []
run_there(wide, given, lambda: alive.append(counters()["allocated"] - before["allocated"]))
plan = memory_plan(wide)
expected = [
    sum(plan.sizes[i] for i, (first, last) in lives.items() if first <= now <= last)
    for now in range(len(wide.steps))
]
print("on", DEVICE, "- right:", all(close_enough))
compare("MiB alive at the peak", max(expected) / 2**20, max(alive) / 2**20)
compare("times to the system, second run", 0, counters()["misses"] - before["misses"])

# %%
fig, ax = plt.subplots()
ax.step(range(len(alive)), np.array(expected) / 2**20, where="mid", label="by your lifetimes")
ax.plot(np.array(alive) / 2**20, "C1o", label=f"counted by the allocator on {DEVICE}")
ax.axhline(plan.total / 2**20, color="C4", linewidth=1, linestyle=":", label="nothing ever freed")
ax.set(xlabel="step", ylabel="MiB alive", title="Four layers and their gradients", ylim=(0, None))
ax.legend()
plt.show()

# %% [markdown]
# The library plans in this way too. Its plan for four layers with gradients, step by step: a block is a buffer, as long as it is needed. There are fewer blocks than results: which results share one?


# %%
def library_layers(depth, size=256, batch=64):
    """Return the gradients of `layers(depth, True)` as nodes of the library."""
    h = graph.placeholder(graph.float32, (batch, size), name="x")
    weights = [graph.Variable(graph.zeros((size, size)), name=f"w{k}") for k in range(depth)]
    for w in weights:
        h = graph.nn.relu(graph.matmul(h, w))
    return graph.gradients(graph.reduce_sum(h), weights)


map_memory(library_layers(4), title="Four layers, with gradients")

# %% [markdown]
# **Reflect.** Forward alone, the arena does not grow with the depth. With gradients it does: which values live so long, and why? What could you do if they did not fit, and what would it cost? (You would compute something twice.)
#
# *The real system.* [XLA's buffer assignment](https://github.com/openxla/xla/blob/main/xla/service/buffer_assignment.cc) and TensorFlow Lite's planner do this ahead of time, and also let an elementwise result take over the memory of an input that dies there; so does `minitorch.graph.memory_plan`. Computing the activations again is called checkpointing: [`torch.utils.checkpoint`](https://github.com/pytorch/pytorch/blob/main/torch/utils/checkpoint.py).

# %% [markdown]
# ## 6. Search, and a network that learns
#
# Which rewrites, in which order? Some lose by themselves and open the way for one that wins.
#
# **Idea.** TASO's answer is a search with a **measured cost**: keep a queue of programs, take the cheapest, try every rewrite on it; keep what is better than the best so far, and also what is a *little* worse, less than $\alpha$ times the best. With $\alpha = 1$ it is greedy and stops at the first hill; TASO takes $\alpha = 1.05$.
#
# **Predict.** From A one rewrite leads to B, from B one leads to C. The costs are 100, 104, 60. What does the search find with $\alpha = 1$, and what with 1.05? And if B cost 106?

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
    What costs less than alpha times the best so far goes into the queue. `cost` is asked once
    for each different program, and programs with the same fingerprint are the same.
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
# Now the real thing: one training step on handwritten digits. A first layer made of two thin factors, $W = UV$; two heads on one hidden layer, which digit it is and whether it is even; mean squared errors; gradients of all weights, and the new weights. It is written as a person would write it, with the gradients by the rules.

# %%
SIZES = {"u": (64, 8), "v": (8, 768), "b": (1, 768), "p": (768, 10), "r": (768, 2)}
BATCH = 512


# %%
def training_step(batch=BATCH):
    """Return the program of one step: the loss, then the new weights in the order of SIZES."""
    p = Program()
    x, digit, even = (
        p.emit("input", attr=(name, (batch, n)))
        for name, n in (("x", 64), ("digit", 10), ("even", 2))
    )
    w = {name: p.emit("input", attr=(name, shape)) for name, shape in SIZES.items()}
    layer = p.emit("matmul", x, p.emit("matmul", w["u"], w["v"]))
    hidden = p.emit("relu", p.emit("add", layer, w["b"]))
    losses = []
    for head, target in (("p", digit), ("r", even)):
        wrong = p.emit("sub", p.emit("matmul", hidden, w[head]), target)
        mean = p.emit("div", number(p, 1), number(p, batch))
        losses.append(p.emit("mul", p.emit("sum", p.emit("square", wrong)), mean))
    loss = p.emit("add", *losses)
    grads = gradients(p, loss, list(w.values()))
    rate = p.emit("mul", number(p, 0.5), number(p, 0.02))
    new = [p.emit("sub", old, p.emit("mul", rate, g)) for old, g in zip(w.values(), grads)]
    p.outputs = [loss, *new]
    return p


# %%
written = training_step()
print(len(written.steps), "steps, of which products:", sum(s.op == "matmul" for s in written.steps))

# %% [markdown]
# Each pass in the order of the lab: steps, multiplications, bytes of all values and of the planned arena, and the time as a share of the program as written: by NumPy in planned memory, and over tensors on the device. **Does a pass that pays here pay there too?** (The cells need no reading.)

# %%
stages = {"as written": written}
stages["dead code"] = dead_code(written)
stages["folded"] = dead_code(fold(stages["dead code"]))
stages["common"] = dead_code(cse(stages["folded"]))
stages["products"] = reassociate(stages["common"])
stages["fused"] = fuse(stages["products"])
stages["+ merged"] = fuse(merge_matmuls(stages["products"]))
feeds = random_feeds(written)
times = milliseconds(*[partial(bind(p)[0], feeds) for p in stages.values()], repeats=21)
there = [partial(run_there, p, given_there(p, feeds)) for p in stages.values()]
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
fig, axes = plt.subplots(1, 4, sharey=True, figsize=(8.6, 3.6))
rows = np.arange(len(stages))[::-1]
measures = {
    "multiplications": [flops(p) for p in stages.values()],
    "bytes of all values": [memory_plan(p).total for p in stages.values()],
    "time, NumPy": times,
    f"time, {DEVICE}": times_there,
}
for ax, (title, values) in zip(axes, measures.items()):
    shares = np.array(values) / values[0]
    ax.barh(rows, shares, color="C0")
    ax.bar_label(ax.containers[0], [f"{share:.0%}" for share in shares], padding=3, fontsize=8)
    ax.set(title=title, xticks=[0, 0.5, 1], xlim=(0, 1.5))
    ax.set_yticks(rows, stages)
    ax.grid(axis="y", visible=False)
fig.supxlabel("share of the program as written", fontsize="medium")
plt.show()

# %% [markdown]
# **Measure.** The search, with the clock as its cost: the time of a program over that of the one as written, both in turns, so that a busy machine is unfair to both. `reassociate` with `shared=True` multiplies anew what others use too: sometimes less work, sometimes more. It decides that as well.


# %%
def identity_of(program):
    """Return a program's text with its constants: equal for equal programs."""
    constants = [attr_key(s.attr) for s in program.steps if s.op == "const"]
    return hash((str(program), tuple(constants)))


def clocked(program):
    """Return a program's time over that of the one as written, measured in turns."""
    runs = [partial(bind(p)[0], feeds) for p in (program, written)]
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
best_cost, best = search(written, rewrites, lambda p: tried.append(p) or clocked(p), identity_of, budget=8)  # fmt: skip
final = written, stages["fused"], best
again = milliseconds(*[partial(bind(p)[0], feeds) for p in final], repeats=15)
print(f"programs tried: {len(tried)}")
compare("as written / passes in order, once more", times[0] / times[5], again[0] / again[1])
compare("as written / found by the search", 1 / best_cost, again[0] / again[2])
print("merged products in it:", sum(step.op == "concat" for step in best.steps))

# %% [markdown]
# And now it learns: in an arena planned by you, step by step, beside the program as written. (The cells need no reading.)

# %%
from sklearn.datasets import load_digits

pixels, digits = load_digits(return_X_y=True)
pixels = (pixels / 8 - 1).astype(np.float32)
targets = {"digit": np.eye(10)[digits], "even": np.eye(2)[digits % 2]}
targets = {name: array.astype(np.float32) for name, array in targets.items()}


# %%
def train(step, steps=200):
    """Return (losses, weights, seconds) of training with a step: a function of feeds."""
    rng, losses = np.random.default_rng(0), []
    weights = {n: rng.normal(size=s).astype(np.float32) / s[0] ** 0.5 for n, s in SIZES.items()}
    weights["b"][:] = 0
    began = time.perf_counter()
    for _ in range(steps):
        rows = rng.integers(0, 1536, BATCH)
        now = {"x": pixels[rows]} | {name: array[rows] for name, array in targets.items()}
        loss, *new = step(now | weights)
        weights = {name: array.copy() for name, array in zip(SIZES, new)}
        losses.append(float(loss[0, 0]))
    return losses, weights, time.perf_counter() - began


planned, plan = bind(best)
slow_losses, _, slow_s = train(partial(run, written))
losses, weights, fast_s = train(planned)

# %%
fig, ax = plt.subplots()
ax.plot(slow_losses, linewidth=5, alpha=0.35, linestyle="-", label="as written")
ax.plot(losses, color="C1", linestyle="-", label="found by your search, in your arena")
ax.set(xlabel="training step", ylabel="loss (squared error)", title="Digits")
ax.set(yscale="log", yticks=[0.3, 1, 3, 10], yticklabels=["0.3", "1", "3", "10"])
ax.minorticks_off()
ax.legend()
plt.show()
hidden = np.maximum(pixels[1536:] @ weights["u"] @ weights["v"] + weights["b"], 0)
right = np.mean((hidden @ weights["p"]).argmax(axis=1) == digits[1536:])
print(f"right on {right:.1%} of {len(hidden)} images never seen")
print(f"largest difference of the losses: {np.abs(np.subtract(losses, slow_losses)).max():.1e}")
print(f"memory of a step, planned / as written: {plan.peak / memory_plan(written).total:.3f}")
compare("time of training, as written / yours", again[0] / again[2], slow_s / fast_s)
print("(as written it ran in fresh memory, as `run` does; making batches takes time in both)")

# %% [markdown]
# **Reflect.** Which pass gave most, and would it have been the same for a network without the two thin factors? Measured once more, the winner is mostly not as good as the search believed when it chose it: why must that be so, and what would you do about it? The search measured whole programs; TASO measures operators and adds them up. What can each of the two see that the other cannot?
#
# *The real system.* `minitorch.graph.optimize` runs such passes on a real graph, and [TASO's search](https://github.com/jiazhihao/TASO/blob/master/src/core/substitution.cc) is the loop that you wrote. The cell below hands the library a graph with a chain and a shared subexpression.

# %%
a, b = (graph.placeholder(graph.float32, [256, 256], name=n) for n in "ab")
c = graph.placeholder(graph.float32, [256, 1], name="c")
library = graph.tanh(graph.matmul(graph.matmul(a, b), c)) * 2.0 + graph.tanh(graph.matmul(graph.matmul(a, b), c))  # fmt: skip
print(
    graph.count_nodes(library), "nodes before,", graph.count_nodes(graph.optimize(library)), "after"
)
plans = [graph.memory_plan(nodes) for nodes in (library, graph.optimize(library))]
print(f"bytes of all results, after / before: {plans[1].total_bytes / plans[0].total_bytes:.3f}")

# %% [markdown]
# Pass by pass, the graph before and after: which of them are passes of yours, and which step saves most?

# %%
compare_passes(library, title="What the library's passes do to it")

# %% [markdown] question="where_it_fires" points="6" manual="true" rubric="2: for MSE(w2 ReLU(w1 x), y) names all the products, forward (w1 x, w2 h) and backward (g h', w2' g, (w2' g * mask) x') and says that an elementwise operator stands between any two of them, so associativity fires nowhere; 1: says what changes without the ReLU, with the chains by name, such as w2 w1 x and w2' g x'; 1: gives a case in real networks where it does fire (low-rank factors, linear attention, gradients of a product); 1: says that rewrites are not free, with a measured ratio of this lab below 1 and its reason; 1: says why a cost must be measured (shape, cache, device) or what a count of multiplications misses, with a number"
# ## Discuss
#
# `MSE(w2 ReLU(w1 x), y)`: where can associativity fire, forward and backward, for which gradients? What changes when the ReLU is left out, and where do you expect chains of products in networks that people really train? Then: rewrites are not free. Name one that lost in your measurements, say why, and what a system needs so that it would not have applied it. Half a page.
#
# ### BEGIN SOLUTION
# Nowhere. Forward there are $z = w_1 x$ and $w_2 h$ with $h = \mathrm{ReLU}(z)$ between them. Backward: $g = 2(w_2 h - y)$ is elementwise of a product, $\partial w_2 = g h^\top$ has the ReLU in $h$ and the subtraction in $g$; $w_2^\top g$; then the mask of the ReLU is multiplied in, elementwise, before $(\cdot)\,x^\top$ gives $\partial w_1$. In every joint stands an elementwise operator, and $(A \odot M)B \ne A \odot (MB)$. Without the ReLU: $w_2 w_1 x$ forward, $g\,(w_1 x)^\top$ for $w_2$, and $w_2^\top g\, x^\top$ for $w_1$: three products of products, and for a small batch the order matters.
#
# Chains occur where a matrix has been factored (low-rank layers and adapters: $x U V$), in attention without softmax ($Q (K^\top V)$ instead of $(QK^\top)V$: linear in the length), and in gradients of such products, as in the training step of section 6, where it gave most of the gain.
#
# Merging $xA$ and $xB$ at run time lost for weights of 512 by 64 and 64 rows (0.8 to 0.9 here): the concat copies 256 KiB of weights to save one call. With constant weights the copy is folded away and it was about even. Fusion lost for arrays that fit the cache. Multiplications do not tell: in section 2 the work fell by 257 times and the time by another factor, because a product with one column waits for memory. So a system has to measure, on the shapes and the device at hand, and to keep the measurements: operators of one shape cost the same wherever they stand.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric="1 point for each heading answered in the writer's own words and correctly: overview; problem and challenges (hand-written rules: many, incomplete, wrong at times, never for all new operators); methods (enumerates graphs of up to 4 operators, fingerprints on random inputs, 743 substitutions, verified from operator axioms by a theorem prover; cost-based backtracking with alpha 1.05; joint layout); evaluation (a figure with its conditions, such as up to 2.8 times over existing frameworks on one GPU, inference); trade-offs; an open question that the paper does not answer"
# ## Reading note
#
# Zhihao Jia et al., [*TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions*](https://doi.org/10.1145/3341301.3359630), SOSP 2019. One page:
# overview · problem and challenges · methods and contributions · evaluation and discussion · trade-offs · open questions.
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
# This section may be left out: it has no points. It is for those who want to know what happens where there is no plan.
#
# An imperative program has no plan: nobody knows what it will ask for next. Yet fresh memory is expensive: the system hands it out in pages of 4 KiB, and fills each with zeros when it is first touched. A large result can cost more for being new than for being computed.

# %%
big = np.ones((4096, 4096), np.float32)
kept = np.empty_like(big)
fresh_ms, kept_ms = milliseconds(lambda: np.add(big, big), lambda: np.add(big, big, out=kept), repeats=5)  # fmt: skip
print(f"64 MiB: into fresh memory / into memory that was used before: {fresh_ms / kept_ms:.2f}")

# %% [markdown]
# **Idea.** A **caching allocator** keeps what comes back and hands it out again:
#
# - `malloc` takes the *smallest* free block that is large enough (**best fit**), **splits** off what is not needed and keeps the rest free; only where there is none, it asks the system to `reserve` a new block, of just that size;
# - `free` puts the block back, and **merges** it with its free neighbours, so that small pieces become large ones again.
#
# A block is a pair (address, size). Addresses are plain numbers: two blocks are neighbours when one ends where the other begins.
#
# **Predict.** A program asks for 4 blocks of 100 bytes, frees all, asks for one of 400 and one of 100, frees both, and asks for 250 twice. How many times does the allocator go to the system?

# %%
### BEGIN STARTER
# predicted_reserves = ...
### END STARTER
### BEGIN SOLUTION
predicted_reserves = 5  # 4 blocks, which merge into 400; 100 more, and the five are 500
### END SOLUTION


# %% question="Caching" points="0" hint1="self.free is a list of (address, size). Which of them fit, and which of those is the smallest?" hint2="After taking a block of size s for n bytes: what is left is (address + n, s - n), if anything is. Remember the size of what you hand out in self.used." hint3="free: look for a free block that ends at the address, and for one that begins at its end. Take them out of the list and put one larger block in."
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
class Counter:
    """A system that reserves numbers: how often, and how many bytes."""

    def __init__(self):
        self.calls, self.bytes = 0, 0

    def __call__(self, n):
        self.calls, self.bytes = self.calls + 1, self.bytes + n
        return self.bytes - n


# %%
system = Counter()
cache = Caching(system)
hundreds = [cache.malloc(100) for _ in range(4)]
for address in hundreds:
    cache.free(address)
for address in [cache.malloc(400), cache.malloc(100)]:
    cache.free(address)
last = [cache.malloc(250), cache.malloc(250)]
compare("times to the system", predicted_reserves, system.calls)
print("addresses of the last two:", last, "- four small blocks had become one large one")

# %% [markdown]
# **Try and measure.** `Heap` hands out real memory, one large piece of it, and your allocator divides it. `run_cached` frees each value after its last use, as reference counting would, with nothing known in advance but the next step.


# %%
class Heap:
    """Arrays in one piece of memory, divided by your allocator."""

    def __init__(self, n_bytes):
        self.memory = np.empty(n_bytes, np.uint8)
        self.system = Counter()
        self.cache = Caching(self.system)

    def array(self, shape):
        n_bytes = -(-4 * int(np.prod(shape)) // 512) * 512
        at = self.cache.malloc(n_bytes)
        return at, self.memory[at : at + n_bytes].view(np.float32)[: int(np.prod(shape))].reshape(
            shape
        )


# %%
def run_cached(program, feeds, heap, lives):
    """Return copies of the outputs; values lie in the heap and are freed after their last use."""
    values, address = [], {}
    for i, step in enumerate(program.steps):
        out = None
        if i in lives:
            address[i], out = heap.array(step.shape)
        fed = step.op == "input"
        values.append(
            feeds[step.attr[0]] if fed else compute(step, [values[j] for j in step.inputs], out)
        )
        for j in [j for j in address if lives[j][1] <= i]:
            heap.cache.free(address.pop(j))
    outputs = [values[i].copy() for i in program.outputs]
    for at in address.values():
        heap.cache.free(at)
    return outputs


# %%
feeds, lives = random_feeds(wide), lifetimes(wide)
heap = Heap(2 * memory_plan(wide).total)
planned, plan = bind(wide)
once = run_cached(wide, feeds, heap, lives)
first_run = heap.system.calls
again = run_cached(wide, feeds, heap, lives)
print("right:", all(np.array_equal(a, b) for a, b in zip(run(wide, feeds), again)))
print(
    f"to the system: {first_run} times in the first run, {heap.system.calls - first_run} in the second"
)
print(
    f"bytes, fresh : cached : planned = 1 : {heap.system.bytes / plan.total:.2f} : {plan.peak / plan.total:.2f}"
)

# %% [markdown]
# **Reflect.** In the second run the allocator never goes to the system: a training step asks for the same sizes each time. What happens when the batch size varies from step to step, or the length of a text does? Which blocks then lie about, and for whom do they not fit? (**Fragmentation**.)
#
# *The real system.* [PyTorch's CUDA allocator](https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp) is yours, with sizes rounded to 512 bytes, small and large blocks apart, and a pool a stream; `cudaMalloc` would wait for the whole device. (Paszke et al., NeurIPS 2019, section 5.3.) minitorch has one for the CPU, `minitorch.allocator`, where large results live.
