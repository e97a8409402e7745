# %% [markdown]
# # Lab 05: Control flow
#
# - **You build** branches and loops *inside* a dataflow graph: Switch and Merge, tokens that may be dead, tags that tell iterations apart, `cond`, `while_loop`, and the gradient of each; all run by a token executor whose rules are yours.
# - **You need** lab 04: nodes, feeds and fetches, gradients that are nodes.
# - **It takes** about 115 minutes: 5 to set out, 15, 17, 18, 11, 14, 11 and 14 for the seven sections, 10 for the discussion.
# - **Optional** is what says so: five minutes more, and nothing that is graded needs it. Cells that are said to need no reading are to be run, and their output is to be looked at. The reading note, with its paper, is for another day.
#
# In lab 04 a node refused to be true or false. So a graph could not decide anything, and every run did the same work. But sentences differ in length, and parse trees in shape. This lab is about models whose *structure* depends on the data, and about the three ways in which the world runs them.

# %% tags="setup"
import os
import platform
import time
from collections import Counter, defaultdict, deque
from importlib.metadata import version
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

import minitorch as mt
import minitorch.graph as tf
from autograder import lab
from minitorch.op import Op, Spec
from minitorch.ops.methods import Methods
from minitorch.show import follow_tokens, show

# %% tags="setup"
q = lab("control_flow")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"  # of section 7; tokens move on the CPU
print("CUDA: used in section 7" if DEVICE == "cuda" else "CUDA: none; all runs on the CPU")


def compare(what, predicted, measured):
    """Print a prediction beside what came out; a count is exact or it is not."""
    if predicted is ...:
        print(f"{what}: measured {measured:g}. Write your prediction down above, then run again.")
    else:
        said = f"ratio {measured / predicted:.3g}" if predicted else "no ratio to 0"
        if isinstance(measured, int | np.integer):
            said = "exact" if measured == predicted else f"{said}, not exact: count again"
        print(f"{what}: predicted {predicted:g}, measured {measured:g}, {said}")


# %% [markdown]
# Nodes as in lab 04, written out here. One thing is new: an operator of constants is computed at once, so that constants stay constants.


# %%
class Node(Methods):
    """A value that a run computes: its operator, its inputs, and what is known of it now."""

    def __init__(self, op, inputs, shape=(), dtype=np.float32, name=None):
        self.op, self.inputs = op, tuple(inputs)
        self.name = name or (op.name if op else "node")
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def _apply(self, op, inputs):
        return record(op, inputs)

    def __bool__(self):
        raise TypeError(f"{self.name} is a node: it is neither true nor false until it is run")

    def __iter__(self):
        raise TypeError(f"{self.name} is a node: it cannot be gone through until it is run")

    def __repr__(self):
        return f"<{self.name} {self.shape}>"


# %%
class Constant(Node):
    """A value that is fixed now."""

    def __init__(self, value):
        self.value = np.asarray(value)
        if self.value.dtype.kind in "fiu":
            self.value = self.value.astype(np.float32)
        super().__init__(None, (), self.value.shape, self.value.dtype, "const")


# %%
def as_node(value):
    """Return a node as it is, and anything else as a constant."""
    return value if isinstance(value, Node) else Constant(value)


def record(op, inputs):
    """Return a node for `op` of `inputs`."""
    nodes = [as_node(value) for value in inputs]
    if op.pure and all(isinstance(node, Constant) for node in nodes):
        return Constant(op.compute(np, *[node.value for node in nodes]))
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    return Node(op, nodes, spec.shape, spec.dtype)


def placeholder(name, shape=()):
    """Return a node that each run is given a value for."""
    return Node(None, (), shape, name=name)


# %% [markdown]
# ## 1. Two ways out of a node
#
# "Compute both sides and pick one" is what one does without branches: `where(x > 0, sqrt(x), 0)`. It costs both sides. And it does something worse:

# %%
x_eager = mt.tensor([-1.0, 0.0, 4.0], requires_grad=True)
with np.errstate(all="ignore"):
    y_eager = mt.where(x_eager > 0, mt.sqrt(x_eager), mt.zeros(3))
    (slope,) = mt.grad(y_eager.sum(), [x_eager])
print("value:", y_eager.detach().numpy(), " gradient:", slope.numpy())

# %% [markdown]
# The value is right and the gradient is not a number: the side that was *not* picked sends back zero times infinity. What is not wanted should not be computed at all.
#
# **The idea.** Values travel along the edges as **tokens**. Two new operators send them one way or the other:
#
# - **Switch**(data, predicate) hands data on to one of two sides. The other side gets a token too, a **dead** one.
# - **Merge** takes the token that is alive and hands it on. It is the only operator that does not wait for all of its inputs.
#
# Everything in between follows one rule: **an operator with a dead input computes nothing, and its output is dead.** So deadness spreads through the side that was not taken, until a Merge ends it.
#
# Why send anything to the side not taken? So that nobody waits there for ever. With dead tokens every operator hears from all of its inputs in every run, and a plain count tells when it may go.
#
# In TensorFlow a Switch has two outputs. Here it is two nodes, `Switch(False)` and `Switch(True)`, so that a node still has one value.
#
# *Sources: Dennis 1974 and Arvind & Culler 1986 (dataflow machines); Abadi et al. 2016, section 3.4; Yu et al. 2018.*


# %%
class Dead:
    """The token for a value that was not sent."""

    def __repr__(self):
        return "DEAD"


DEAD = Dead()


# %%
class Switch(Op):
    """Of (data, predicate): the data where the predicate is `side`, dead otherwise."""

    pure = False  # even of constants it is no constant

    def __init__(self, side):
        self.side = side

    @property
    def name(self):
        return f"Switch {self.side}"

    def infer(self, data, predicate):
        return data

    def gradient(self, out_grad, node):
        return switch_gradient(out_grad, node)


# %%
class Merge(Op):
    """Of its inputs: the one that is alive."""

    name, pure = "Merge", False

    def infer(self, first, *others):
        return first

    def gradient(self, out_grad, node):
        return merge_gradient(out_grad, node)


# %% [markdown]
# **Predict.** `a = x * 2`, then `Switch(True)` of `a`, then `sqrt`, then `+ 1`; and on the other side `Switch(False)` of `a`, then `neg`; then a Merge of both. With a predicate that is False: of these seven nodes, how many send a dead token?

# %%
### BEGIN STARTER
# predicted_dead = ...
### END STARTER
### BEGIN SOLUTION
predicted_dead = 3  # Switch(True), sqrt and + 1
### END SOLUTION


# %% question="fire" points="4" hint1="Three kinds of operator: Merge, Switch, and all others. Which of them may have an output that is alive though an input is dead?" hint2="Look after Merge first. Then: any dead input, dead output. What is left has inputs that are all alive." hint3="Compare tokens with `is`: `token is DEAD`. An array == DEAD is elementwise."
def fire(op, tokens):
    """Return the token that an operator sends, given one token for each input, in order.

    Args:
        op: a Switch(side), a Merge, or any other, with op.compute(np, *arrays).
        tokens: arrays, or DEAD. For a Switch: the data and the predicate.
    Returns: an array or DEAD. A Merge of several that are alive sends the first.
    """
    ### BEGIN SOLUTION
    alive = [token for token in tokens if token is not DEAD]
    if isinstance(op, Merge):
        return alive[0] if alive else DEAD
    if len(alive) < len(tokens):
        return DEAD
    if isinstance(op, Switch):
        data, predicate = tokens
        return data if bool(predicate) == op.side else DEAD
    return op.compute(np, *tokens)
    ### END SOLUTION


# %% tags="check"
q.check("fire")

# %% [markdown]
# **Try and measure** on the diagram of the prediction. `run_in_order` is enough while there are no loops: each node fires once, inputs first.


# %%
def in_order(nodes, stop=()):
    """Return all nodes behind these, inputs first; what is in `stop` has none behind it."""
    order, seen, stack = [], set(), [(node, False) for node in nodes]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in node.inputs if node not in stop]
    return order


# %%
def run_in_order(fetches, feeds):
    """Return {node: token} for all nodes behind the fetches."""
    tokens = {}
    for node in in_order(fetches, feeds):
        if node in feeds:
            tokens[node] = np.asarray(feeds[node], np.float32)
        elif isinstance(node, Constant):
            tokens[node] = node.value
        else:
            tokens[node] = fire(node.op, [tokens[source] for source in node.inputs])
    return tokens


# %%
x = placeholder("x")
a = x * 2.0
positive = x > 0.0
yes = mt.sqrt(record(Switch(True), [a, positive])) + 1.0
no = -record(Switch(False), [a, positive])
either = record(Merge(), [no, yes])
for value in (8.0, -8.0):
    tokens = run_in_order([either], {x: value})
    sent = {node.name: tokens[node] for node in tokens if node.op}
    print(f"x = {value:g}:", {name: str(token) for name, token in sent.items()})
compare("dead tokens", predicted_dead, sum(token is DEAD for token in tokens.values()))
show(either)

# %% [markdown]
# **Reflect.** At x = -8 the square root of a negative number was never taken, and no warning was printed. Now think of a GPU that works on 10,000 elements at once, each with a predicate of its own. Would you use `where` or Switch there, and why?
#
# *What the real system does.* TensorFlow's executor keeps a count of tokens that are still missing for each node, and a bit for "some input was dead"; a Merge has a count of its own ([`executor.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/executor.cc), [`propagator_state.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/propagator_state.cc)). Nobody writes Switch by hand, though.

# %% [markdown]
# ## 2. `cond`, and its gradient
#
# Written by hand, a branch is easy to get wrong. This one should be 7 where the predicate holds, and -x where it does not:

# %%
seven = Constant(7.0)  # a side that needs nothing from outside
naive = record(Merge(), [seven, -record(Switch(False), [x, positive])])
for value in (2.0, -2.0):
    print(f"x = {value:g}:", run_in_order([naive], {x: value})[naive])

# %% [markdown]
# **The idea.** `cond(predicate, if_true, if_false, *inputs)` calls *both* functions, once, while the graph is built. Each gets the inputs through Switches of its own side; their results meet in a Merge. And since a side may have a result that does not come from its inputs at all, a constant such as `seven`, which nothing can kill, each **result** passes a Switch too before it reaches the Merge. So exactly one input of the Merge is alive.
#
# **The gradient** turns the picture round. An adjoint travels against the edges, and so
#
# - where the value was **merged**, the adjoint is **switched**: it goes back to the side that the value came from, and the other side gets a dead one;
# - where the value was **switched**, the adjoints are **merged**: only the side taken has one to send. And if the side not taken is asked, its share is **zero**.
#
# For both one needs an operator that kills a token unless some other token is alive. It is almost nothing: an operator with a second input that it ignores. The rule for dead tokens does the rest.


# %%
class Beside(Op):
    """Of (value, witness): the value, if the witness is alive too."""

    name, pure = "beside", False

    def compute(self, xp, value, witness):
        return value

    def infer(self, value, witness):
        return value

    def gradient(self, out_grad, node):
        return out_grad, None


def switch(data, predicate, side):
    """Return data as one side of a branch sees it."""
    return record(Switch(side), [data, predicate])


# %%
def merge(*values):
    """Return the one of these that is alive."""
    return record(Merge(), values)


def beside(value, witness):
    """Return value, dead where the witness is dead."""
    return record(Beside(), [value, witness])


# %% [markdown]
# **Predict.** Inside the branch `if_true` of some `cond`, the graph has `heavy @ heavy`, where `heavy` is a node from outside that the function uses **without** getting it as an input. The predicate is False. Is the product computed? Write 1 for yes and 0 for no.

# %%
### BEGIN STARTER
# predicted_computed = ...
### END STARTER
### BEGIN SOLUTION
predicted_computed = 1
### END SOLUTION


# %% question="cond" points="5" hint1="Four steps: the inputs of the true side, its result; the same for the false side; merge the results." hint2="switch(value, predicate, True) is a value as the true side sees it. Do this for each of the inputs." hint3="What if if_true is `lambda x: 7.0`? Put the results through a Switch as well, each of its own side."
def cond(predicate, if_true, if_false, *inputs):
    """Return a node: if_true(*inputs) where the predicate holds, if_false(*inputs) otherwise.

    Both functions are called once, now. In a run only one side computes. A function may also
    return a number.
    """
    ### BEGIN SOLUTION
    results = []
    for side, function in [(False, if_false), (True, if_true)]:
        inside = [switch(value, predicate, side) for value in inputs]
        results.append(switch(function(*inside), predicate, side))
    return merge(*results)
    ### END SOLUTION


# %% tags="check"
q.check("cond")

# %% [markdown]
# **Try it**: the matrix used from outside, and the same passed in as an input.

# %%
heavy = placeholder("heavy", (2, 2))
from_outside = cond(positive, lambda x: (heavy @ heavy).sum() * x, lambda x: -x, x)
passed_in = cond(positive, lambda h, x: (h @ h).sum() * x, lambda h, x: -x, heavy, x)
for how, node in [("used from outside", from_outside), ("passed as an input", passed_in)]:
    tokens = run_in_order([node], {x: -2.0, heavy: np.eye(2)})
    products = [token for node, token in tokens.items() if node.name == "matmul"]
    alive = sum(token is not DEAD for token in products)
    if how == "used from outside":
        compare(f"matrix products computed, {how}", predicted_computed, alive)
    else:
        print(f"matrix products computed, {how}: {alive}")

# %% [markdown]
# That is the most famous surprise of TensorFlow's `cond`. Now the way back:


# %% question="gradient_rules" points="5" defines="switch_gradient merge_gradient" hint1="merge_gradient: for each input of the Merge one adjoint, alive exactly if that input was. Which operator makes something dead when a witness is?" hint2="switch_gradient: this side's adjoint is alive only if this side was taken. If it was not, the share is zeros. So: a Merge of out_grad with zeros that are alive on the other side." hint3="Zeros of the shape of data: data * 0.0. Alive on the other side only: switch(zeros, predicate, not node.op.side). The predicate has no gradient: None."
def merge_gradient(out_grad, node):
    """Return for each input of a Merge its adjoint: alive where, and only where, the input is."""
    ### BEGIN SOLUTION
    return tuple(beside(out_grad, source) for source in node.inputs)
    ### END SOLUTION


def switch_gradient(out_grad, node):
    """Return (adjoint of the data, None) for a Switch of (data, predicate).

    `out_grad` is alive only where this side was taken. The adjoint of the data is always alive:
    where the value went the other way, this side's share is zeros of the shape of data.
    """
    ### BEGIN SOLUTION
    data, predicate = node.inputs
    nothing = switch(data * 0.0, predicate, not node.op.side)
    return merge(out_grad, nothing), None
    ### END SOLUTION


# %% [markdown]
# `gradients` is lab 04's sweep, for several outputs, each with an adjoint that arrives there. It looks no further than `inputs`, and gives zeros where nothing depends on one.


# %%
def gradients(outputs, arriving, inputs):
    """Return nodes for the gradients by `inputs`, given the adjoints of `outputs`."""
    adjoint, ends = {}, set(inputs)

    def add(node, partial):
        adjoint[node] = adjoint[node] + partial if node in adjoint else partial

    for output, grad in zip(outputs, arriving):
        add(output, as_node(grad))
    for node in reversed(in_order(outputs, ends)):
        if node.op is None or node not in adjoint or node in ends:
            continue
        partials = node.op.gradient(adjoint[node], node)
        partials = partials if isinstance(partials, tuple) else (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is not None and not isinstance(source, Constant):
                add(source, partial)
    return [adjoint.get(node, node * 0.0) for node in inputs]


# %% tags="check"
q.check("gradient_rules")

# %% [markdown]
# **Measure.** The function that `where` broke, now with `cond`. And the running time: two sides, one of them a hundred matrix products; the predicate is true for a share of the runs.

# %%
root = cond(x > 0.0, mt.sqrt, lambda x: 0.0, x)
(slope,) = gradients([root], [1.0], [x])
for value in (-1.0, 0.0, 4.0):
    tokens = run_in_order([root, slope], {x: value})
    print(f"x = {value:g}: value {tokens[root]:g}, gradient {tokens[slope]:g}")


# %%
def chain(matrix):
    for _ in range(100):
        matrix = matrix @ matrix
    return matrix.sum()


matrix = placeholder("matrix", (64, 64))
branch = cond(x > 0.0, chain, lambda m: m.sum(), matrix)
shares, times = np.linspace(0, 1, 5), np.full(5, np.inf)
for at in [*range(5)] * 5:  # in turns, the best of five: what is more is interruption
    start = time.perf_counter()
    for turn in range(20):
        feeds = {x: 1.0 if turn < 20 * shares[at] else -1.0, matrix: np.eye(64)}
        run_in_order([branch], feeds)
    times[at] = min(times[at], time.perf_counter() - start)
predicted = times[0] + shares * (times[-1] - times[0])
for share, expected, seen in list(zip(shares, predicted, times))[1:-1]:
    compare(f"ms a run, {share:.0%} true", 1e3 * expected / 20, 1e3 * seen / 20)
fig, ax = plt.subplots(figsize=(6.8, 2.6))
ax.plot(100 * shares, 1e3 * predicted / 20, lw=1, color="C4", label="from the first and the last")
ax.plot(100 * shares, 1e3 * times / 20, "o", color="C0", label="measured")
ax.set(xlabel="runs whose predicate is true, %", ylabel="ms a run", ylim=(0, None))
ax.set_title("What a branch of a hundred products costs")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** `where` would have had one time for all shares: which one? The side that is not taken still costs something: what, for 100 operators?
#
# *What the real system does.* TensorFlow finds the nodes that a branch takes from outside and puts Switches in front of them, and it ties everything in a branch, constants too, to a **pivot** by a control edge ([`CondContext` in `control_flow_ops.py`](https://github.com/tensorflow/tensorflow/blob/v1.15.5/tensorflow/python/ops/control_flow_ops.py)); the gradients of Switch and Merge are as yours ([`control_flow_grad.py`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/ops/control_flow_grad.py)). JAX's `lax.cond` hands in operands, as here.

# %% [markdown]
# ## 3. Tags and frames
#
# A loop is a cycle in the graph, and in a cycle tokens can overtake each other. Here is what happens if nothing tells iterations apart: `s` and `i` go round, `s` is slow, and an operator that needs both takes what comes.

# %%
slow_s, fast_i = deque([("s", 0)]), deque([("i", n) for n in range(4)])
print("the adder gets", slow_s.popleft(), "and", fast_i.pop(), "- from different iterations")

# %% [markdown]
# **The idea.** Every token carries a **tag**: which loops it is in, outermost first, and which iteration of each. An operator fires when its inputs have arrived *with the same tag*. Three operators change tags and do nothing else:
#
# | operator | tag of what comes | tag of what it sends |
# |---|---|---|
# | `Enter(loop)` | `(..., )` | `(..., (loop, 0))`: into iteration 0 |
# | `NextIteration(loop)` | `(..., (loop, i))` | `(..., (loop, i + 1))` |
# | `Exit(loop)` | `(..., (loop, i))` | `(..., )`: out again |
#
# All iterations of one run of a loop are a **frame**. A loop inside a loop has a frame for each iteration of the outer one.
#
# **Dead tokens do not pass these three.** Dead tokens through NextIteration would go round for ever; and every iteration but the last sends a dead token towards the Exit. What is needed outside is one token for each Exit. So: a live one passes; and when a frame is **finished**, each Exit that has let nothing out sends one dead token. When is it finished? The obvious answer is "when there is no token left in it". Wait for it.
#
# *Source: Yu et al. 2018, "Dynamic Control Flow in Large-Scale Machine Learning", EuroSys, section 4.*


# %%
class Border(Op):
    """Base of the operators that change a token's tag."""

    pure = False

    def __init__(self, loop):
        self.loop = loop

    def compute(self, xp, value):
        return value

    def infer(self, value):
        return value


class Enter(Border):
    """Into iteration 0 of the loop."""


# %%
class NextIteration(Border):
    """Into the next iteration."""


class Exit(Border):
    """Out of the loop."""


# %% [markdown]
# **Predict.** A loop goes round five times (the condition holds five times, then no more). How often does the Merge at the top of one of its variables fire?

# %%
### BEGIN STARTER
# predicted_merges = ...
### END STARTER
### BEGIN SOLUTION
predicted_merges = 6  # once for each time that the condition is asked
### END SOLUTION


# %% question="tag_after" points="3" hint1="Read the table row by row. All other operators leave the tag alone." hint2="A tag is a tuple of pairs (loop, iteration). The innermost loop is the last pair: tag[-1]; the rest is tag[:-1]."
def tag_after(op, tag):
    """Return the tag of what `op` sends, given the tag of what it got.

    Args:
        op: an Enter, NextIteration or Exit, with op.loop; or any other operator.
        tag: a tuple of (loop, iteration), outermost loop first; () outside all loops.
    """
    ### BEGIN SOLUTION
    if isinstance(op, Enter):
        return (*tag, (op.loop, 0))
    if isinstance(op, NextIteration):
        loop, iteration = tag[-1]
        return (*tag[:-1], (loop, iteration + 1))
    if isinstance(op, Exit):
        return tag[:-1]
    return tag
    ### END SOLUTION


# %% tags="check"
q.check("tag_after")

# %% [markdown]
# Now the end of a frame. A `Frame` counts three things:


# %%
class Frame:
    """One run of a loop.

    live: firings that are under way in it, in loops inside it too;
    enters: how many Enter operators the loop has, one for each variable;
    entered: how many of them have had their token, alive or dead.
    """

    def __init__(self, loop, outside, enters):
        self.loop, self.outside, self.enters = loop, outside, enters
        self.live = self.entered = 0
        self.left = set()  # Exits that have let a live token out


# %% question="is_finished" points="3" hint1="When nothing is under way in a frame, can something still come into it?" hint2="Two conditions. One is about what is inside, one about what may still come from outside."
def is_finished(frame):
    """Return whether nothing can happen in this frame any more."""
    ### BEGIN SOLUTION
    return frame.live == 0 and frame.entered == frame.enters
    ### END SOLUTION


# %% [markdown]
# **The executor.** It is given, and every rule in it is yours. A firing is an operator with a tag whose tokens are all there. `arrive` collects tokens, `step` lets one operator fire, `pass_on` sends on what it sent. Read these three; the rest needs no reading.


# %%
class Run:
    """One run of a graph by tokens. `events`: (node, tag, token) of every firing, in order."""

    def __init__(self, fetches, feeds):
        self.users, self.arrived, self.frames = defaultdict(list), defaultdict(dict), {}
        self.ready, self.merged, self.events, self.values = deque(), set(), [], {}
        nodes = in_order(fetches, feeds)
        for node in nodes:
            for place, source in enumerate(node.inputs if node not in feeds else ()):
                self.users[source].append((node, place))
        self.exits = [node for node in nodes if isinstance(node.op, Exit)]
        self.enters = Counter(node.op.loop for node in nodes if isinstance(node.op, Enter))
        for node in nodes:
            if node in feeds:
                self.send(node, (), np.asarray(feeds[node], np.float32))
            elif node.op and all(isinstance(source, Constant) for source in node.inputs):
                self.get_ready(node, ())
        while self.ready:
            self.step(*self.ready.popleft())
            if len(self.events) > 50_000:
                raise RuntimeError("50,000 operators have fired: does the loop ever end?")


# %%
class Run(Run):
    def send(self, node, tag, token):
        """Hand a token to all users of a node."""
        if tag == ():
            self.values[node] = token
        for user, place in self.users[node]:
            self.arrive(user, tag, place, token)


# %%
class Run(Run):
    def arrive(self, node, tag, place, token):
        """Note a token. Constants are always there, and are not waited for."""
        tokens = self.arrived[node, tag]
        tokens[place] = token
        if isinstance(node.op, Merge):
            go = token is not DEAD or len(tokens) == len(node.inputs)
            if not go or (node, tag) in self.merged:
                return
            self.merged.add((node, tag))
        elif len(tokens) < sum(not isinstance(source, Constant) for source in node.inputs):
            return
        self.get_ready(node, tag)

    def get_ready(self, node, tag):
        """Put an operator into the queue, and count it in every frame that it is in."""
        self.ready.append((node, tag))
        for frame in self.frames_of(tag):
            frame.live += 1


# %%
class Run(Run):
    def frames_of(self, tag):
        """Return the frames that a tag is in, innermost first."""
        return [self.frames[tag[:depth], tag[depth][0]] for depth in reversed(range(len(tag)))]

    def step(self, node, tag):
        """Let one operator fire; then see whether that was the last thing in its frame."""
        arrived = self.arrived.pop((node, tag), {})
        tokens = [arrived.get(i, getattr(s, "value", DEAD)) for i, s in enumerate(node.inputs)]
        token = fire(node.op, tokens)
        self.events.append((node, tag, token))
        self.pass_on(node, tag, token)
        for frame in self.frames_of(tag):
            frame.live -= 1
            self.end_if_finished(frame)


# %%
class Run(Run):
    def pass_on(self, node, tag, token):
        """Send a token on; across the border of a frame, only if it is alive."""
        op, dead = node.op, token is DEAD
        if isinstance(op, Enter):
            fresh = Frame(op.loop, tag, self.enters[op.loop])
            frame = self.frames.setdefault((tag, op.loop), fresh)
            frame.entered += 1
            if not dead:
                self.send(node, tag_after(op, tag), token)
            self.end_if_finished(frame)
        elif isinstance(op, Exit):
            frame = self.frames_of(tag)[0]
            if not dead and node not in frame.left:
                frame.left.add(node)
                self.send(node, tag_after(op, tag), token)
        elif not (dead and isinstance(op, NextIteration)):
            self.send(node, tag_after(op, tag), token)


# %%
class Run(Run):
    def end_if_finished(self, frame):
        """When a frame is over, send a dead token out of each Exit that let nothing out."""
        if self.is_over(frame):
            for node in self.exits:
                if node.op.loop == frame.loop and node not in frame.left:
                    frame.left.add(node)
                    self.events.append((node, frame.outside, DEAD))
                    self.send(node, frame.outside, DEAD)

    def is_over(self, frame):
        """Return whether a frame has come to its end: your rule."""
        return is_finished(frame)


# %%
def run(fetches, feeds=()):
    """Return the tokens of the fetches, a list."""
    values = Run(fetches, dict(feeds)).values
    values |= {node: node.value for node in fetches if isinstance(node, Constant)}
    lost = [node for node in fetches if node not in values]
    if lost:
        raise ValueError(f"no token ever came to {lost}: does a body use a node from outside?")
    return [values[node] for node in fetches]


# %% [markdown]
# **Try it** on a loop by hand: `while i < n: i = i + 1`, whose variables are `i` and `n`. The cycle is closed by giving each Merge a second input.


# %%
def count_up(start, n):
    """A loop wired by hand; return the nodes of its two Exits."""
    tops = [merge(record(Enter("count"), [v])) for v in (start, n)]
    again = tops[0] < tops[1]
    i, limit = (switch(top, again, True) for top in tops)
    for top, value in zip(tops, [i + 1.0, limit]):
        top.inputs += (record(NextIteration("count"), [value]),)
    return [record(Exit("count"), [switch(top, again, False)]) for top in tops]


first, n = placeholder("first"), placeholder("n")
counted, _ = count_up(first, n)
for start in (0, 4, 7):
    print(f"from {start} to 5: {run([counted], {first: start, n: 5})[0]:g}")

# %% tags="check"
q.check("is_finished")

# %% [markdown]
# **Measure.** Record where tokens were, and draw it: a row for each node, time from left to right, one colour an iteration, and a cross where a token was dead. (The drawing needs no reading.)


# %%
def draw_tokens(done, title):
    """Draw the recorded firings of a run."""
    names, rows = Counter(), {}
    for node, _, _ in done.events:
        if node not in rows:
            names[node.name] += 1
            more = f" ({names[node.name]})" if names[node.name] > 1 else ""
            rows[node] = (len(rows), node.name + more)
    _, ax = plt.subplots(figsize=(6.8, 0.6 + 0.24 * len(rows)))
    for when, (node, tag, token) in enumerate(done.events):
        turn = tag[-1][1] if tag else 0
        color, marker = ("#57606a" if not tag else f"C{turn % 6}"), "x" if token is DEAD else "o"
        ax.plot(when, rows[node][0], marker, color=color, markersize=7)
        if isinstance(token, (np.ndarray, np.generic)) and token.ndim == 0:
            place = when, rows[node][0]
            ax.annotate(f"{token:g}", place, (4, 3), textcoords="offset points", fontsize=7)
    ax.set_yticks(range(len(rows)), [label for _, label in rows.values()])
    ax.set(xlabel="firing", title=title, ylim=(len(rows) - 0.4, -0.6))
    ax.margins(x=0.04)
    plt.show()


# %%
draw_tokens(
    Run([counted], {first: 0, n: 3}), "while i < 3: one colour an iteration, a cross is dead"
)

# %%
done = Run([counted], {first: 0, n: 5})
tops = Counter(node for node, _, _ in done.events if isinstance(node.op, Merge))
compare("firings of the Merge of i", predicted_merges, next(iter(tops.values())))

# %% [markdown]
# **Optional.** `minitorch.graph` has a token executor with the same rules. Step through its run of the same loop, by the buttons or the arrow keys: at which operators do dead tokens stop?

# %%
limit = tf.placeholder(tf.float32, ())
follow_tokens(tf.while_loop(lambda i: i < limit, lambda i: i + 1.0, [0.0]), {limit: 3.0})

# %% [markdown]
# **The trap, run on purpose.** A loop whose second variable comes late: `x` has to go through thirty operators first, and by then the counter has been round all of its iterations and is gone. For a moment nothing at all is in the frame.


# %%
def late_variable():
    """Return the Exits of a loop whose second variable comes long after the counting is over."""
    i, late = placeholder("i"), placeholder("late")
    value = late
    for _ in range(30):
        value = value + 0.0
    tops = [merge(record(Enter("wait"), [v])) for v in (i, value)]
    again = tops[0] < 3.0
    inside = [switch(top, again, True) for top in tops]
    for top, new in zip(tops, [inside[0] + 1.0, inside[1] * 2.0]):
        top.inputs += (record(NextIteration("wait"), [new]),)
    ends = [record(Exit("wait"), [switch(top, again, False)]) for top in tops]
    return ends, {i: 0.0, late: 5.0}


class Careless(Run):
    """An executor with the obvious rule: a frame is over when no token is in it."""

    def is_over(self, frame):
        return frame.live == 0


# %%
for executor in (Careless, Run):
    ends, feeds = late_variable()
    values = executor(ends, feeds).values
    print(f"{executor.__name__:8} i = {values[ends[0]]}, x = {values[ends[1]]}")

# %% [markdown]
# **Reflect.** With the obvious rule the frame sent a dead token out for a variable that had not even come in. Which of the two parts of your rule would be enough if the executor always let the *oldest* token move first, and all variables entered at the same moment?
#
# *What the real system does.* The same rule: TensorFlow's [`propagator_state.h`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/propagator_state.h) keeps for each frame a count of iterations that are outstanding and `num_pending_inputs`, the Enters that have not come; and `dead_exits`, sent out when the frame is done. It runs up to `parallel_iterations` of a frame at once, ten unless told, so a fast counter really runs ahead of slow data, on several cores or GPUs.

# %% [markdown]
# ## 4. `while_loop`
#
# `count_up` was twelve lines for a loop of one. Nobody wants to wire that again, and each time one forgets something else: a variable that goes in and is not handed on comes out dead, or not at all.
#
# **The idea.** For each variable the same five operators, and one predicate for all:
#
# $$\text{start} \to \text{Enter} \to \text{Merge} \to \text{Switch} \begin{cases} \text{true: body} \to \text{NextIteration} \to \text{back to Merge} \\ \text{false: Exit} \end{cases}$$
#
# `test` and `body` are functions from nodes to nodes; they are called **once**, to build. Everything that the body needs is a variable of the loop, weights too: a node from outside has a token without the loop's tag, and would wait there for ever.
#
# Two helpers are given. `new_loop()` is a name that no other loop has. `tied(values, witness)` makes nodes of values, and puts constants beside the witness; for a constant has no token, and could not enter a loop by itself.


# %%
loops = iter(range(10**9))


def new_loop():
    """Return a name for a loop."""
    return f"loop {next(loops)}"


def tied(values, witness=None):
    """Return nodes; a constant is alive wherever the witness is (default: the first other)."""
    nodes = [as_node(value) for value in values]
    moving = [node for node in nodes if not isinstance(node, Constant)]
    if witness is None:
        if not moving:
            return nodes
        witness = moving[0]
    return [beside(node, witness) if isinstance(node, Constant) else node for node in nodes]


# %% [markdown]
# **Predict.** A loop over *three* variables that goes round ten times. How many firings do the loop's own operators take (Enter, Merge, Switch of both sides, NextIteration, Exit), apart from test and body? Count per variable: what fires once, what ten times, what eleven times? (An operator that sends a dead token has fired.)

# %%
### BEGIN STARTER
# predicted_firings = ...
### END STARTER
### BEGIN SOLUTION
# Enter 1, Merge 11, two Switches 22, NextIteration 11 and Exit 11, dead ones included
predicted_firings = 3 * (1 + 11 + 22 + 11 + 11)
### END SOLUTION


# %% question="while_loop" points="7" hint1="Follow one variable along the diagram: Enter, Merge, then the test over all Merges, then Switch of both sides. count_up in section 3 is this loop for two variables." hint2="The Merge has to exist before the body does: make it with one input, merge(record(Enter(loop), [v])), and add the other at the end: top.inputs += (...,)." hint3="body(*inside) gives a list of new values, in order; tied(body(*inside), inside[0]) makes nodes of them. The results are Exits of the false sides."
def while_loop(test, body, *start):
    """Return a list of nodes: the variables after `body` has been run as long as `test` holds.

    Args:
        test: a function of the variables that gives one predicate.
        body: a function of the variables that gives a list of their new values.
        start: nodes or numbers, one a variable. At least one is no constant, or the loop is
            outside all others.
    """
    loop = new_loop()
    ### BEGIN SOLUTION
    tops = [merge(record(Enter(loop), [value])) for value in tied(start)]
    again = test(*tops)
    inside = [switch(top, again, True) for top in tops]
    for top, value in zip(tops, tied(body(*inside), inside[0])):
        top.inputs += (record(NextIteration(loop), [value]),)
    return [record(Exit(loop), [switch(top, again, False)]) for top in tops]
    ### END SOLUTION


# %% [markdown]
# **Try it.** Heron's square root: improve a guess until it is good enough. How often it goes round, only the number knows.


# %%
def heron(value):
    """Return (guess, rounds) as nodes: the square root of a node, by a loop."""
    _, guess, rounds = while_loop(
        lambda x, guess, rounds: abs(guess * guess - x) > 1e-4 * x,
        lambda x, guess, rounds: [x, (guess + x / guess) * 0.5, rounds + 1.0],
        *(value, value, 0.0),
    )
    return guess, rounds


number = placeholder("number")
for value in (2.0, 200.0, 20_000.0):
    guess, rounds = run(heron(number), {number: value})
    print(f"root of {value:g}: {guess:g} after {rounds:g} rounds (numpy {value**0.5:g})")

# %% tags="check"
q.check("while_loop")

# %% [markdown]
# **Measure.** Count the firings of the loop's own operators in a loop that does nothing ten times.

# %%
idle = while_loop(
    lambda i, u, v: i < 10.0, lambda i, u, v: [i + 1.0, u, v], *(number, number, number)
)
own = (Enter, Merge, Switch, NextIteration, Exit)
done = Run(idle, {number: 0.0})
compare(
    "the loop's own firings",
    predicted_firings,
    sum(isinstance(n.op, own) for n, _, _ in done.events),
)

# %% [markdown]
# **Optional: a loop in a loop.** Each iteration of the outer one has an inner frame of its own.


# %%
def triangle(n):
    """Sum of i * j for j <= i <= n: the inner loop goes round i times."""

    def outer(i, n, total):
        _, i, total = while_loop(
            lambda j, i, total: j < i + 0.5,
            lambda j, i, total: [j + 1.0, i, total + i * j],
            *(1.0, i, total),
        )
        return [i + 1.0, n, total]

    return while_loop(lambda i, n, total: i < n + 0.5, outer, 1.0, n, 0.0)[2]


# %%
total = triangle(number)
done = Run([total], {number: 4.0})
right = sum(i * j for i in range(1, 5) for j in range(1, i + 1))
print(f"got {done.values[total]:g}, expected {right}")
print(
    f"frames: {len(done.frames)}: the outer loop, 4 inner ones, and 1 that only dead tokens entered"
)

# %% [markdown]
# **Reflect.** A variable that never changes, a weight matrix, costs five firings an iteration here, for nothing. Which two of its operators would you need, if the executor knew that it is constant in the loop?
#
# *What the real system does.* TensorFlow's Enter has a flag `is_constant` for just that ([`control_flow_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/ops/control_flow_ops.cc)): the value is given to every iteration, and no Merge or NextIteration is made for it. `tf.while_loop` finds what the body takes from outside and enters it so. JAX's `lax.while_loop` and `lax.scan` ([`loops.py`](https://github.com/jax-ml/jax/blob/main/jax/_src/lax/control_flow/loops.py)) compile the body once into a loop of the machine; tokens are gone, and so is the overlap of iterations.

# %% [markdown]
# ## 5. A loop backwards
#
# The loop has no gradient yet: a sweep from its Exit would go round the cycle for ever. And there is something to remember. To go back through `guess = (guess + x / guess) / 2` one needs the guess of *each* round, and the graph has one node for all of them:

# %%
guess, rounds = heron(number)
halved = Counter()
for node, _, token in Run([guess], {number: 200.0}).events:
    if node.op.name == "mul" and token is not DEAD:
        halved[node] += 1
print("one run, and the multiplications had so many values each:", sorted(halved.values()))

# %% [markdown]
# **The idea.** The gradient of a loop is another loop, which goes backwards. The forward loop gets one more variable, a **stack**, and pushes the values of all its variables at the beginning of each round. The backward loop pops them, as long as there are any; its variables are the adjoints. One round of it:
#
# $$\bar v_i = \left(\frac{\partial\, \text{body}(v_i)}{\partial v_i}\right)^{\!\top} \bar v_{i+1}$$
#
# That is `gradients(body(*values), adjoints, values)`: an ordinary sweep through *one* body. A variable that is handed on unchanged, a weight, has its adjoint handed on too, plus what this round adds; so the sum over rounds comes by itself.
#
# The stack is a token like any other: a pair (values, the stack below), and nothing is ever overwritten.


# %%
class Push(Op):
    """Of (stack, *values): the stack with the values on top."""

    pure = False

    def compute(self, xp, stack, *values):
        return values, stack

    def infer(self, stack, *values):
        return stack


# %%
class Top(Op):
    """Value number `place` on top of a stack; it looks like the node `like`."""

    def __init__(self, place, like):
        self.place, self.spec = place, Spec(like.shape, like.dtype)

    def compute(self, xp, stack):
        return stack[0][self.place]

    def infer(self, stack):
        return self.spec


# %%
class Below(Op):
    """The stack without its top."""

    def compute(self, xp, stack):
        return stack[1]

    def infer(self, stack):
        return stack


class Filled(Op):
    """Whether a stack holds anything."""

    def compute(self, xp, stack):
        return xp.asarray(len(stack) > 0)

    def infer(self, stack):
        return Spec((), np.dtype(bool))


# %%
EMPTY = Constant(0.0)
EMPTY.value = ()  # the empty stack


def push(stack, *values):
    return record(Push(), [stack, *values])


def pop(stack, like):
    """Return (the values on top, as nodes that look like those of `like`; the stack below)."""
    return [record(Top(i, v), [stack]) for i, v in enumerate(like)], record(Below(), [stack])


def filled(stack):
    return record(Filled(), [stack])


# %% [markdown]
# **Predict.** Heron's loop for 200 has three variables and goes round seven times. How many numbers are on the stack when it ends?

# %%
### BEGIN STARTER
# predicted_kept = ...
### END STARTER
### BEGIN SOLUTION
predicted_kept = 3 * 7
### END SOLUTION


# %% question="loop_vjp" points="8" hint1="The forward loop: the same test and body, with the stack as one more variable, in front: the test ignores it, the body pushes *v on it and then does its work." hint2="The backward loop starts with (stack, *arriving). Its test is filled(stack). Its body pops the values of one round, and gives [the stack below, *adjoints of these values]." hint3="In the backward body: values, below = pop(stack, like); grads = gradients(body(*values), adjoints, values). `like` is the list of start nodes."
def loop_vjp(test, body, *start):
    """Return (ends, back): a while loop's results, and a function for its gradient.

    `back(*arriving)` gets the adjoints of the results, each of the shape of its result, and
    returns a list of nodes: the adjoints of the start values. (vjp: vector-Jacobian product.)
    """
    like = tied(start)
    ### BEGIN SOLUTION
    stack, *ends = while_loop(
        lambda stack, *v: test(*v), lambda stack, *v: [push(stack, *v), *body(*v)], EMPTY, *like
    )

    def one_back(stack, *adjoints):
        values, below = pop(stack, like)
        return [below, *gradients(body(*values), adjoints, values)]

    def back(*arriving):
        return while_loop(lambda stack, *_: filled(stack), one_back, stack, *arriving)[1:]

    return ends, back
    ### END SOLUTION


# %% [markdown]
# **Try it**: the derivative of the square root is $1 / (2 \sqrt x)$, and a loop whose length depends on its data knows it.

# %%
(_, root, _), back = loop_vjp(
    lambda x, guess, rounds: abs(guess * guess - x) > 1e-4 * x,
    lambda x, guess, rounds: [x, (guess + x / guess) * 0.5, rounds + 1.0],
    *(number, number, 0.0),
)
by_x, by_guess, _ = back(0.0, 1.0, 0.0)
slope = by_x + by_guess  # the number went in twice: as x and as the first guess
for value in (2.0, 200.0, 20_000.0):
    got, exact = run([slope], {number: value})[0], 0.5 / value**0.5
    print(f"at {value:g}: {got:.6g}, exactly {exact:.6g}, ratio {got / exact:.4f}")

# %% tags="check"
q.check("loop_vjp")

# %% [markdown]
# **Measure.** What is on the stack, and how much more the way back costs than the way there.

# %%
done = Run([slope], {number: 200.0})
kept = sum(len(t[0]) for n, _, t in done.events if isinstance(n.op, Push) and t is not DEAD)
compare("numbers on the stack", predicted_kept, kept)
there, both = (len(Run([node], {number: 200.0}).events) for node in (root, slope))
print(f"firings: {there} there, {both - there} back: {(both - there) / there:.1f} times as many")

# %% [markdown]
# **Reflect.** Your backward loop keeps only the loop's variables, and computes the inside of the body again. What would one have to push to save that second computation, and when is it worth the memory? For which bodies does it make no difference?
#
# *What the real system does.* TensorFlow pushes every intermediate value that the gradient needs, each on a stack of its own, and never computes twice; when memory runs out it moves the stacks [from GPU to CPU](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/stack.cc) while the loop goes on (Yu et al., section 5). JAX refuses: `lax.while_loop` cannot be differentiated backwards, since the memory is not known when it compiles; `lax.scan`, whose length is fixed, can. `minitorch.graph` does as you did:

# %%
t = tf.placeholder(tf.float32, ())
_, theirs = tf.while_loop(
    lambda x, guess: tf.abs(guess * guess - x) > 1e-4 * x,
    lambda x, guess: [x, (guess + x / guess) * 0.5],
    [t, t],
)
with tf.Session() as session:
    print("minitorch.graph:", session.run([theirs, tf.gradients(theirs, t)[0]], {t: 200.0}))
    print("yours          :", run([root, slope], {number: 200.0}))

# %% [markdown]
# ## 6. Sentences differ in length
#
# A recurrent network reads one symbol after the other. Here are the lengths of 48 sentences; most are short, some are long, as everywhere.

# %%
rng = np.random.default_rng(5)
lengths = np.minimum(3 + 2 * rng.geometric(0.2, size=48), 41)


def some_sentence(symbols):
    """Return an array (symbols, 1, 1) of +1 and -1, 70 % of them of one kind."""
    more = 0.7 if rng.random() < 0.5 else 0.3
    return np.where(rng.random((symbols, 1, 1)) < more, 1.0, -1.0).astype(np.float32)


sentences = [some_sentence(n) for n in lengths]
print("shortest", lengths.min(), " mean", round(lengths.mean(), 1), " longest", lengths.max())
print("of a padded table", f"{1 - lengths.sum() / (len(lengths) * lengths.max()):.0%} is padding")

# %% [markdown]
# **The idea.** Three graphs for the same network:
#
# - **Loop.** One graph; each sentence goes round as often as it is long.
# - **Unrolled.** The body is written down once for each symbol: no control flow at all, and another graph for every length.
# - **Padded.** One unrolled graph, for the longest sentence. Shorter ones are filled up, and a **mask** keeps the padding from touching the state:
#
# $$h_{t+1} = \begin{cases} \tanh(x_t w + h_t u) & t < \text{length} \\ h_t & \text{otherwise} \end{cases}$$
#
# The padded graph can do what the others cannot: many sentences at once, each with a mask of its own.


# %%
class Row(Op):
    """Of (table, i): row i of the table. The table is data: no gradient."""

    name = "row"

    def compute(self, xp, table, i):
        return table[int(i)]

    def infer(self, table, i):
        return Spec(table.shape[1:], table.dtype)

    def gradient(self, out_grad, node):
        return None, None


def row(table, i):
    return record(Row(), [table, i])


# %%
def cell(x, h, w, u):
    """One step of a recurrent network: (B, 1), (B, 8) -> (B, 8)."""
    return mt.tanh(x @ w + h @ u)


# %%
table, length = placeholder("table", (None, None, 1)), placeholder("length")
h0, w, u = placeholder("h0", (None, 8)), placeholder("w", (1, 8)), placeholder("u", (8, 8))
r = np.random.default_rng(6)
weights = {w: r.normal(size=(1, 8)) * 0.15, u: np.eye(8) * 0.7 + r.normal(size=(8, 8)) / 40}


def step_on(i, n, table, h, w, u):
    """The body of the loop: one symbol."""
    return [i + 1.0, n, table, cell(row(table, i), h, w, u), w, u]


loop_rnn = while_loop(lambda i, n, *_: i < n, step_on, 0.0, length, table, h0, w, u)[3]


def unrolled_rnn(steps):
    """The same network for sentences of this length."""
    h = h0
    for i in range(steps):
        h = cell(row(table, Constant(i)), h, w, u)
    return h


# %% [markdown]
# **Predict.** How many times as many cells does the padded graph compute as the loop, over all 48 sentences one by one? (The numbers are printed above.) And how many times as *long* does it take: more than that, less, or the same? Write down a number for the time too.

# %%
### BEGIN STARTER
# predicted_cells = ...
# predicted_time = ...
### END STARTER
### BEGIN SOLUTION
predicted_cells = len(lengths) * lengths.max() / lengths.sum()
predicted_time = 0.7  # twice the cells, and a third of the firings around each
### END SOLUTION


# %% question="padded_rnn" points="5" hint1="Like unrolled_rnn, with one more line: the new state counts only where the sentence is not over." hint2="lengths > i is a node of booleans, one a sentence, (B, 1). mt.where(condition, this, otherwise) picks row by row." hint3="Where the sentence is over, the state stays as it was: mt.where(lengths > i, new, h)."
def padded_rnn(table, lengths, h, w, u, steps):
    """Return a node: the state of each sentence after its own last symbol, (B, 8).

    Args:
        table: (steps, B, 1), the symbols, filled up with anything.
        lengths: (B, 1), how many symbols of each sentence count.
        h: (B, 8), the state before the first. steps: the length of the longest, an int.
    Use `cell`, `row(table, Constant(i))` and `mt.where`. No loop in the graph.
    """
    ### BEGIN SOLUTION
    for i in range(steps):
        h = mt.where(lengths > float(i), cell(row(table, Constant(i)), h, w, u), h)
    return h
    ### END SOLUTION


# %% tags="check"
q.check("padded_rnn")

# %% [markdown]
# **Try and measure.** All on your executor, so a firing costs the same everywhere. The padding is filled with nonsense, to see whether the mask holds. Of the next three cells only the five lines of `ways` need reading.

# %%
longest = int(lengths.max())
many = placeholder("lengths", (None, 1))
padded = padded_rnn(table, many, h0, w, u, longest)
start_state = np.zeros((1, 8), np.float32)


def filled_up(group, steps):
    """Return the table of some sentences, (steps, B, 1), padding at random, and their lengths."""
    found = rng.normal(size=(steps, len(group), 1)).astype(np.float32)
    for b, sentence in enumerate(group):
        found[: len(sentence), b] = sentence[:, 0]
    return found, np.array([[len(sentence)] for sentence in group], np.float32)


def by_loop(sentence):
    return {table: sentence, length: len(sentence), h0: start_state, **weights}


# %%
def by_padding(group, steps=longest):
    filled_table, counts = filled_up(group, steps)
    return {table: filled_table, many: counts, h0: np.zeros((len(group), 8)), **weights}


# %%
def unrolled_by_length(sentences):
    """Build a graph for each length that occurs, and run each sentence on its own."""
    graphs = {n: unrolled_rnn(n) for n in {len(s) for s in sentences}}
    return [run([graphs[len(s)]], {table: s, h0: start_state, **weights})[0] for s in sentences]


def by_buckets(sentences, size=12):
    """Pad only to the longest of a dozen sentences of like length."""
    order = np.argsort([len(s) for s in sentences])
    states = {}
    for at in range(0, len(order), size):
        group = [sentences[i] for i in order[at : at + size]]
        graph = padded_rnn(table, many, h0, w, u, len(group[-1]))
        found = run([graph], by_padding(group, len(group[-1])))[0]
        states |= {int(i): found[b : b + 1] for b, i in enumerate(order[at : at + size])}
    return [states[i] for i in range(len(sentences))]


# %%
ways = {
    "loop, one by one": lambda s: [run([loop_rnn], by_loop(one))[0] for one in s],
    "unrolled, one by one": unrolled_by_length,
    "padded, one by one": lambda s: [run([padded], by_padding([one]))[0] for one in s],
    "padded, all at once": lambda s: list(run([padded], by_padding(s))[0][:, None]),
    "padded in buckets of 12": by_buckets,
}
taken, states = defaultdict(list), {}
for _ in range(3):
    for name, way in ways.items():
        start = time.perf_counter()
        states[name] = np.concatenate(way(sentences))
        taken[name].append(time.perf_counter() - start)
taken = {name: median(times) for name, times in taken.items()}
for name, found in states.items():
    print(f"{name:24} differs by {np.abs(found - states['loop, one by one']).max():.1e}")

# %%
cells = [
    sum(n.name == "matmul" for n, _, t in Run([node], feeds).events if t is not DEAD) / 2
    for node, feeds in [(loop_rnn, by_loop(sentences[0])), (padded, by_padding(sentences[:1]))]
]
ratio = len(sentences) * cells[1] / lengths.sum()
compare("cells, padded over loop", predicted_cells, ratio)
compare(
    "time, padded over loop",
    predicted_time,
    taken["padded, one by one"] / taken["loop, one by one"],
)


# %%
fig, ax = plt.subplots()
each = [1e3 * t / len(sentences) for t in taken.values()]
ax.barh(list(taken), each)
for place, cost in enumerate(each):
    ax.text(cost, place, f"   {each[0] / cost:.1f} x", va="center")
if predicted_time is not ...:
    ax.plot(predicted_time * each[0], 2, "D", color="C1", label="your prediction")
    ax.legend(loc="lower right")
ax.set(xscale="log", xlabel="ms a sentence", title="One network, five ways; speed against the loop")
ax.grid(axis="y", visible=False)
ax.invert_yaxis()
ax.margins(x=0.15)
plt.show()

# %% [markdown]
# **Train on it.** The loop, with your gradient: read a sentence of +1 and -1, and say which of the two is in the majority. It learns on sentences as long as those above, and is then asked about longer ones too. The loss is $\log(1 + e^{-m})$, whose exponential overflows where $m$ is very negative; your `cond` takes the other form of it there, and its gradient goes through your rules. (The four cells need no reading.)

# %%
ends, back = loop_vjp(lambda i, n, *_: i < n, step_on, 0.0, length, table, h0, w, u)
v, label = placeholder("v", (8, 1)), placeholder("label")
margin = label * (ends[3] @ v).sum()
loss = cond(
    margin > 0.0,
    lambda m: mt.log(1.0 + mt.exp(-m)),
    lambda m: mt.log(1.0 + mt.exp(m)) - m,
    margin,
)
at_state, at_v = gradients([loss], [1.0], [ends[3], v])
arriving = [at_state if end is ends[3] else end * 0.0 for end in ends]
*_, at_w, at_u = back(*arriving)
fetches = [loss, at_w, at_u, at_v]
print(len(in_order(fetches)), "nodes for sentences of every length")

# %%
fig, ax = plt.subplots()
(dots,) = ax.semilogy([], [], ".", color="C4", markersize=3, label="each sentence")
(middle,) = ax.semilogy([], [], color="C0", label="median of 48")
ax.set(xlabel="sentence", ylabel="loss, nats", title="A loop trained by your loop backwards")
ax.set(xlim=(0, 320), ylim=(5e-3, 10))
ax.legend(loc="upper left")
plt.close(fig)  # shown below, where it grows while the training runs


def draw_losses(losses):
    middle.set_data(
        range(len(losses)), [median(losses[max(0, i - 24) : i + 24]) for i in range(len(losses))]
    )
    dots.set_data(range(len(losses)), losses)
    handle.update(fig)


# %%
values = {**weights, v: r.normal(size=(8, 1)) / 10}
speed = dict.fromkeys(values, 0.0)
handle, losses = display(fig, display_id=True), []
for turn in range(320):
    sentence = some_sentence(lengths[turn % len(lengths)])
    feeds = by_loop(sentence) | values | {label: np.sign(sentence.sum())}
    found, *slopes = run(fetches, feeds)
    losses.append(found)
    norm = np.sqrt(sum((slope**2).sum() for slope in slopes))
    for node, slope in zip((w, u, v), slopes):
        speed[node] = 0.5 * speed[node] + slope * min(1.0, 0.5 / norm)  # loops explode: clip
        values[node] = values[node] - 0.02 * speed[node]
    if turn % 40 == 39:
        draw_losses(losses)

# %%
score = (loop_rnn @ v).sum()
for shortest, top in [(5, 23), (25, 59)]:
    right = []
    for _ in range(100):
        sentence = some_sentence(rng.integers(shortest // 2, top // 2 + 1) * 2 + 1)
        guess = run([score], by_loop(sentence) | values)[0]
        right.append(np.sign(guess) == np.sign(sentence.sum()))
    print(f"right on {np.mean(right):.0%} of 100 new sentences of {shortest} to {top} symbols")

# %% [markdown]
# **Reflect.** Padded, one by one, computed twice as many cells as the loop: what did it do less of? From which share of padding on would the loop win here, and how would that change with a cell of a thousand units?
#
# *What the real system does.* `tf.nn.dynamic_rnn` is your loop with a mask, over a padded batch: the loop ends with the longest sentence. cuDNN's recurrent kernels take packed sequences (`torch.nn.utils.rnn.pack_padded_sequence`, [source](https://github.com/pytorch/pytorch/blob/main/torch/nn/utils/rnn.py)): sorted by length, the batch shrinks as sentences end. `tf.data` has [`bucket_by_sequence_length`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/data/experimental/ops/grouping.py).

# %% [markdown]
# ## 7. Trees, and batches of things that differ
#
# A loop will do for sequences. In a parse tree every node waits for its two children, and no two trees look alike. The imperative answer is recursion, and it takes no more than this. The task: a leaf is true or false, every other node is the NAND of its children, and the network has to find out from the truth of the *roots*.


# %%
def random_tree(depth, rng):
    """Return a tree: a bool, or a pair of trees."""
    if depth == 0 or rng.random() < 0.2:
        return bool(rng.integers(2))
    return random_tree(depth - 1, rng), random_tree(depth - 1, rng)


def truth(tree):
    return tree if isinstance(tree, bool) else not (truth(tree[0]) and truth(tree[1]))


def by_recursion(tree, embed, left, right, bias):
    """Return the state of a tree's root, (1, d)."""
    if isinstance(tree, bool):
        return embed[int(tree) : int(tree) + 1]
    a, b = (by_recursion(child, embed, left, right, bias) for child in tree)
    return mt.tanh(a @ left + b @ right + bias)


# %%
def tree_weights(d=12):
    r = np.random.default_rng(8)
    arrays = [r.normal(size=s) / 2 for s in [(2, d), (d, d), (d, d), (d,), (d, 1)]]
    return [mt.tensor(a.astype(np.float32), requires_grad=True, device=DEVICE) for a in arrays]


# %% [markdown]
# Each node is a product of one row with a matrix: for a processor that can do thousands of rows at once, hardly work at all.
#
# **The idea.** The *operators* are the same in every tree; only the wiring differs. So take a whole batch of trees, sort **all** their nodes by height, and compute each height at once: gather the children's rows, one product, append the results. This is **dynamic batching**: the structure is data (lists of indices), the graph for one height is static.
#
# $$\text{height}(n) = \begin{cases} 0 & n \text{ is a leaf} \\ 1 + \max(\text{height of its children}) & \text{otherwise} \end{cases}$$
#
# *Source: Looks et al. 2017, "Deep Learning with Dynamic Computation Graphs" (TensorFlow Fold); Neubig et al. 2017, "On-the-fly Operation Batching in Dynamic Computation Graphs" (DyNet).*


# %%
def flatten(trees):
    """Return (left, right, symbol, roots): the children's numbers, -1 at a leaf; leaves' values.

    Children have smaller numbers than their parents.
    """
    left, right, symbol = [], [], []

    def add(tree):
        pair = (-1, -1) if isinstance(tree, bool) else (add(tree[0]), add(tree[1]))
        left.append(pair[0])
        right.append(pair[1])
        symbol.append(int(tree) if isinstance(tree, bool) else 0)
        return len(left) - 1

    roots = [add(tree) for tree in trees]
    return left, right, symbol, roots


# %%
forest_rng = np.random.default_rng(9)
forest = [random_tree(6, forest_rng) for _ in range(64)]
left, right, symbol, roots = flatten(forest)
print(
    len(forest), "trees with", sum(n >= 0 for n in left), "inner nodes,", left.count(-1), "leaves"
)

# %% [markdown]
# **Predict.** One by one, the recursion computes a cell for each inner node. How many cells, each on many rows, does dynamic batching compute for the whole forest? (The trees were grown to a depth of 6.)

# %%
### BEGIN STARTER
# predicted_steps = ...
### END STARTER
### BEGIN SOLUTION
predicted_steps = 6
### END SOLUTION


# %% question="by_height" points="4" hint1="Children have smaller numbers than their parents: when you come to a node, going upwards, you know the heights of its children." hint2="First a list of heights, one a node. Then a list of groups: group k holds the numbers of all nodes of height k." hint3="The longer way down counts: 1 + max(...). There are max(heights) + 1 groups."
def by_height(left, right):
    """Return a list of lists: group k has the numbers of the nodes of height k, ascending.

    Args:
        left, right: for each node the numbers of its children, -1 at a leaf. Children have
            smaller numbers than their parents. At least one node.
    """
    ### BEGIN SOLUTION
    heights = []
    for a, b in zip(left, right):
        heights.append(0 if a < 0 else 1 + max(heights[a], heights[b]))
    groups = [[] for _ in range(max(heights) + 1)]
    for node, height in enumerate(heights):
        groups[height].append(node)
    return groups
    ### END SOLUTION


# %% tags="check"
q.check("by_height")

# %% [markdown]
# **Try it**: the whole forest by your groups, against the recursion.


# %%
def by_batching(trees, embed, w_left, w_right, bias):
    """Return the states of the trees' roots, (len(trees), d): one cell a height."""
    left, right, symbol, roots = flatten(trees)
    leaves, *groups = by_height(left, right)
    rows = embed[np.array([symbol[node] for node in leaves])]
    place = {node: i for i, node in enumerate(leaves)}
    for group in groups:
        a = rows[np.array([place[left[node]] for node in group])]
        b = rows[np.array([place[right[node]] for node in group])]
        rows = mt.cat([rows, mt.tanh(a @ w_left + b @ w_right + bias)])
        place |= {node: len(place) + i for i, node in enumerate(group)}
    return rows[np.array([place[root] for root in roots])]


*cell_weights, readout = tree_weights()
one_by_one = mt.cat([by_recursion(tree, *cell_weights) for tree in forest])
together = by_batching(forest, *cell_weights)
print("largest difference:", abs(one_by_one - together).max().item())
compare("cells", predicted_steps, len(by_height(left, right)) - 1)

# %% [markdown]
# **Measure.** Forward and backward, for more and more trees at once.


# %%
def tree_step(states, trees):
    """Return the loss of a batch of trees, after its backward pass."""
    signs = np.array([[1.0 if truth(tree) else -1.0] for tree in trees], np.float32)
    signs = mt.tensor(signs, device=DEVICE)
    loss = mt.log(1.0 + mt.exp(-signs * (states @ readout))).mean()
    loss.backward()
    return loss.item()


def seconds(trees, repeats=7):
    """Return the best seconds of a step by recursion and by batching, which take turns."""
    times = []
    for _ in range(repeats):
        for way in (by_recursions, by_batching):
            start = time.perf_counter()
            tree_step(way(trees, *cell_weights), trees)  # ends with a number: the device is done
            times.append(time.perf_counter() - start)
    return np.reshape(times, (repeats, 2)).min(axis=0)


# %%
def by_recursions(trees, *weights):
    return mt.cat([by_recursion(tree, *weights) for tree in trees])


sizes = [1, 4, 16, 64]
taken = np.array([seconds(forest[:n]) for n in sizes])
flat = [flatten(forest[:n]) for n in sizes]
cells = np.array([[sum(i >= 0 for i in f[0]), len(by_height(*f[:2])) - 1] for f in flat])
print("timed on", DEVICE)
for n, (a, b), (alone, together) in zip(sizes, taken, cells):
    compare(f"{n:2} trees: recursion over batching, by cells", alone / together, a / b)

# %%
fig, ax = plt.subplots()
price = taken[0, 0] / cells[0, 0]  # of one cell, from the first tree alone
for k, (name, marker) in enumerate([("recursion", "o"), ("batched by height", "s")]):
    ax.loglog(sizes, sizes / taken[:, k], marker, ls="", color=f"C{k}", label=f"{name}, {DEVICE}")
    label = "" if k else "if only the number of cells counted"
    ax.loglog(sizes, sizes / (price * cells[:, k]), color="C4", lw=1, ls=":", label=label)
ax.set_xticks(sizes, map(str, sizes), minor=False)
ax.xaxis.set_minor_formatter("")
ax.set(xlabel="trees at once", ylabel="trees a second, forward and backward")
ax.set_title("What differs in structure can still share its operators")
ax.legend()
plt.show()

# %% [markdown]
# **Train on it**, batched by your groups: does it find NAND? (The cell needs no reading.)

# %%
*cell_weights, readout = tree_weights()
optimizer = mt.optim.Adam([*cell_weights, readout], lr=0.02)
grow = np.random.default_rng(10)
losses = []
for _ in range(150):
    trees = [random_tree(4, grow) for _ in range(64)]
    optimizer.zero_grad()
    losses.append(tree_step(by_batching(trees, *cell_weights), trees))
    optimizer.step()
deep = [random_tree(8, grow) for _ in range(200)]
guesses = (by_batching(deep, *cell_weights) @ readout).detach().to("cpu").numpy()[:, 0] > 0
print(f"loss {losses[0]:.2f} -> {losses[-1]:.3f}; trees twice as deep as any in training:", end=" ")
print(f"{np.mean(guesses == [truth(tree) for tree in deep]):.0%} right")

# %% [markdown]
# **The same with sentences that end whenever they please.** A server that writes texts holds a batch of `slots` requests. A *static* batch is over when its longest is; a *continuous* one fills a slot as soon as it is free. Count the steps for the sentences of section 6; the discussion asks for these numbers.

# %%
slots = 8
static = sum(max(lengths[i : i + slots]) for i in range(0, len(lengths), slots))
free = np.zeros(slots, int)
for n in lengths:
    free[free.argmin()] += n  # the next request takes the slot that is free first
print(f"static: {static} steps, {lengths.sum() / static / slots:.0%} of the slots at work")
print(
    f"continuous: {free.max()} steps, {lengths.sum() / free.max() / slots:.0%} of the slots at work"
)

# %% [markdown]
# **Reflect.** Which fraction of the time of a batched step does the Python code around it take (`flatten`, the dictionaries), and why does the gain stay behind the ratio of cells? What would a server have to know about a request to fill its slots even better than this?
#
# *What the real system does.* vLLM's [scheduler](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py) decides at every step which requests are in the batch: continuous batching, from Orca (Yu et al. 2022). The kernels below are compiled for a few fixed batch sizes and captured as CUDA graphs: dynamic above, static below.

# %% [markdown]
# ## Discussion
#
# These answers are read by a person.

# %% [markdown] question="three_kinds" points="6" manual="true" rubric="1 each for the three models, with the reason (CNN: static, all shapes known, compile and plan once; GPT training: structure static once sequences are packed or padded to one length, so static graph with batching; GPT serving: lengths unknown, requests come and go, batched-dynamic). 1: for one of them, says what the wrong choice would cost, with a number measured here (padding share, control firings an iteration, slots at work, recursion over batching). 1: names what each way demands of the system: shape inference and memory planning; masks and buckets; a scheduler between steps, memory that grows (paged KV cache). 1: discusses where it would change: mixture of experts, early exit, speculative decoding, images of many sizes."
# **Static, dynamic, batched-dynamic.** Take three models: a CNN for images, a GPT in training, a GPT that serves users. For each: what of its structure depends on the data? Would you run it as a static graph, dynamically, or batched-dynamically, and what does the system need for that? Use what you measured in sections 6 and 7 to say what the wrong choice would cost.
# ### BEGIN SOLUTION
# *CNN*: nothing depends on the data but the numbers. All shapes are known, so one static graph: compile once, plan memory once, and no control flow at run time. *GPT training*: texts differ in length, but one may choose what goes into a batch: pack texts end to end into rows of 2,048 tokens with a mask between them, and every step is the same static graph. Padding instead would waste the share that we saw, half of the table; a loop would pay dozens of firings an iteration beside the cell. *GPT serving*: prompts come at any time, outputs end when the model says so, and nobody can choose. One by one uses one row of a matrix unit; a static batch left half of the slots idle here. So batched-dynamic: the step is a static graph over a batch, and a scheduler changes who is in it between steps; memory for keys and values must then grow by pages. The lines move: experts chosen per token make training dynamic inside a layer, so one fixes a capacity and pads; speculative decoding makes the number of tokens a step depend on the data.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric="Overview of dataflow control flow in the learner's own words (1); problem and challenges: data-dependent structure within a deferred, distributed graph; in-graph against out-of-graph (1); methods: Switch, Merge, Enter, Exit, NextIteration, dead tokens, frames, gradients with stacks, distribution by control loops on each device (1); evaluation read critically, with a figure and its conditions, or the remark that the OSDI paper gives none for control flow (1); trade-offs and one open question (1)."
# **Reading note.** Abadi et al. 2016, ["TensorFlow: A System for Large-Scale Machine Learning"](https://www.usenix.org/conference/osdi16/technical-sessions/presentation/abadi), OSDI, section 3.4 and what it rests on. Further reading, with the whole story: Yu et al. 2018, ["Dynamic Control Flow in Large-Scale Machine Learning"](https://arxiv.org/abs/1805.01772), EuroSys. One page: overview; problem and challenges; methods and contributions; evaluation and discussion; trade-offs; open questions.
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
# *Overview.* TensorFlow keeps branches and loops inside the graph, as five primitive operators from dynamic dataflow machines, so that models with data-dependent structure are still differentiated, distributed and scheduled as a whole.
# *Problem and challenges.* Recurrent and conditional models need iteration; control flow in the client costs a round trip for each decision and hides the structure from the system. Inside the graph, values of different iterations must not mix, parts on several devices must agree on the branch, and there must be gradients.
# *Methods.* Switch and Merge with dead values; tags and frames as in MIT's tagged-token machine, with several iterations in flight; each device has its own copy of the loop's control, and dead tokens tell receivers that nothing will come; the gradient is a second loop over values kept on stacks, which may be swapped to the host.
# *Evaluation.* The OSDI paper has none for this; Yu et al. measure parallel iterations, distributed loops, and swapping, on their own recurrent models.
# *Trade-offs.* The graph stays analysable and parallel, and every iteration pays for bookkeeping that a language runtime has for free; writing it is hard.
# *Open questions.* How to compile such loops without losing overlap; recursion; batching across instances whose structure differs.
# ### END SOLUTION

# %%
q.status()
