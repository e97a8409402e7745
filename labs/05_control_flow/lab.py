# %% [markdown] builds="Switch, Merge and dead tokens; `cond`, `while_loop` and their gradients" needs="04" audience="gpu"
# # Lab 05: Control flow
#
# - **You build** branches and loops *inside* a dataflow graph: Switch and Merge, tokens that may be dead, tags that tell iterations apart, `cond`, `while_loop`, and the gradient of each.
# - **You need** lab 04: nodes, feeds and fetches, gradients that are nodes.
# - **It takes** about 100 minutes: introduction 1, sections 12, 15, 16, 10, 13, 11 and 12, discussion 10.
# - **Optional** is what says so. The reading note is for another day.
#
# In lab 04 every run did the same work. But sentences differ in length, and parse trees in shape: their *structure* depends on the data.
#
# Nodes, trees and figures come from `lessons`; `Node??` shows the source of a name.

# %% tags="setup"
import inspect
import platform
import time
from collections import Counter, defaultdict, deque
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np

import minitorch as mt
import minitorch.graph as tf
from autograder import compare, lab
from lessons.figures import GrowingCurve
from lessons.graphs.sentences import fill_up, some_sentence
from lessons.timing import milliseconds
from minitorch.show import follow_tokens, show

q = lab("control_flow")

# %% tags="setup"
import lessons.graphs.token_figures as figures
import lessons.graphs.tokens as tokens
import lessons.graphs.trees as trees
from lessons.graphs.token_stacks import EMPTY, Push, filled, pop, push, row
from lessons.graphs.tokens import (
    DEAD,
    Constant,
    Enter,
    Exit,
    NextIteration,
    TokenRun,
    beside,
    gradients,
    in_order,
    new_loop,
    placeholder,
    record,
    tied,
)

# %% tags="setup"
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"  # of section 7; tokens move on the CPU
from lessons.device_note import device_note

print(device_note("found" if DEVICE == "cuda" else "", "section 7 times its trees there"))


# %% [markdown]
# Nodes are those of lab 04: `placeholder(name, shape)` is fed, `record(op, inputs)` is a node for an operator, and `Constant(value)` is fixed. New: an operator of constants is computed at once and gives a constant.

# %% [markdown]
# ## 1. Two ways out of a node
#
# Without branches, one computes both sides and picks one: `where(x > 0, sqrt(x), 0)`. It costs the time of both sides, and worse:

# %%
x_eager = mt.tensor([-1.0, 0.0, 4.0], requires_grad=True)
with np.errstate(all="ignore"):
    y_eager = mt.where(x_eager > 0, mt.sqrt(x_eager), mt.zeros(3))
    (slope,) = mt.grad(y_eager.sum(), [x_eager])
print("value:", y_eager.detach().numpy(), " gradient:", slope.numpy())

# %% [markdown]
# The value is right, but the gradient is not a number: the side that was *not* picked sends back zero times infinity.
#
# **The idea.** Values travel along the edges as **tokens**. Two new operators choose the way:
#
# - **Switch**(data, predicate) sends the data to one of two sides. The other side gets a token too, a **dead** one.
# - **Merge** takes the token that is alive and sends it on. It is the only operator that does not wait for all of its inputs.
#
# All other operators follow one rule: **an operator with a dead input computes nothing, and its output is dead.** So dead tokens spread through the side not taken, until a Merge ends them. In every run every operator gets a token from each of its inputs, and a count tells when it may compute.
#
# Here a Switch is two nodes, `Switch(False)` and `Switch(True)`, so that a node still has one value.
#
# *Sources: Dennis 1974 and Arvind & Culler 1986 (dataflow machines); Abadi et al. 2016, section 3.4; Yu et al. 2018.*


# %%
class Switch(tokens.Switch):
    """Of (data, predicate): the data where the predicate is `side`, dead otherwise."""

    def gradient(self, out_grad, node):
        return switch_gradient(out_grad, node)


class Merge(tokens.Merge):
    """Of its inputs: the one that is alive."""

    def gradient(self, out_grad, node):
        return merge_gradient(out_grad, node)


# %% [markdown]
# **Predict.** `a = x * 2`. On one side: `Switch(True)` of `a`, then `sqrt`, then `+ 1`. On the other side: `Switch(False)` of `a`, then `neg`. Then a Merge of both. The predicate is False. How many of these seven nodes send a dead token?

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
# **Try and measure** on the diagram of the prediction.


# %%
def run_in_order(fetches, feeds):
    """Return {node: token} for all nodes behind the fetches; each fires once, inputs first."""
    return tokens.fire_in_order(fetches, feeds, fire)


# %%
x = placeholder("x")
a = x * 2.0
positive = x > 0.0
yes = mt.sqrt(record(Switch(True), [a, positive])) + 1.0
no = -record(Switch(False), [a, positive])
either = record(Merge(), [no, yes])
for value in (8.0, -8.0):
    found = run_in_order([either], {x: value})
    sent = {node.name: found[node] for node in found if node.op}
    print(f"x = {value:g}:", {name: str(token) for name, token in sent.items()})
compare("dead tokens", predicted_dead, sum(token is DEAD for token in found.values()))
show(either)

# %% [markdown]
# **Reflect.** At x = -8 no square root of a negative number was computed. On a GPU that works on 10,000 elements at once, each with its own predicate, would you use `where` or Switch, and why?
#
# *What the real system does.* For each node TensorFlow's executor counts the tokens that are still missing ([`executor.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/executor.cc)).

# %% [markdown]
# ## 2. `cond`, and its gradient
#
# A branch written by hand. It should be 7 where the predicate is true, and -x where it is false:

# %%
seven = Constant(7.0)  # a side that needs nothing from outside
naive = record(Merge(), [seven, -record(Switch(False), [x, positive])])
for value in (2.0, -2.0):
    print(f"x = {value:g}:", run_in_order([naive], {x: value})[naive])

# %% [markdown]
# **The idea.** `cond(predicate, if_true, if_false, *inputs)` calls *both* functions, once, while the graph is built. Each function gets the inputs through Switches of its own side, and a Merge joins the two results. A result need not come from the inputs: nothing makes the constant `seven` dead. So each **result** passes a Switch too before the Merge, and exactly one input of the Merge is alive.
#
# **The gradient** goes against the edges:
#
# - Where the value was **merged**, the adjoint is **switched**: it goes back to the side that the value came from, and the other side gets a dead one.
# - Where the value was **switched**, the adjoints are **merged**: only the side taken sends one. The share of the side not taken is **zero**.
#
# Both need `beside(value, witness)`: it returns the value, and is dead unless the witness is alive.


# %%
def switch(data, predicate, side):
    """Return data as one side of a branch sees it."""
    return record(Switch(side), [data, predicate])


def merge(*values):
    """Return the one of these that is alive."""
    return record(Merge(), values)


# %% [markdown]
# **Predict.** The branch `if_true` of some `cond` computes `heavy @ heavy`, where `heavy` is a node from outside, **not** passed as an input. The predicate is False. Is the product computed (1: yes, 0: no)?

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
# **Try it**: the matrix used from outside, and the same matrix passed as an input.

# %%
heavy = placeholder("heavy", (2, 2))
from_outside = cond(positive, lambda x: (heavy @ heavy).sum() * x, lambda x: -x, x)
passed_in = cond(positive, lambda h, x: (h @ h).sum() * x, lambda h, x: -x, heavy, x)
alive = []
for node in (from_outside, passed_in):
    found = run_in_order([node], {x: -2.0, heavy: np.eye(2)})
    products = [token for node, token in found.items() if node.name == "matmul"]
    alive.append(sum(token is not DEAD for token in products))
compare("matrix products computed, used from outside", predicted_computed, alive[0])
print("matrix products computed, passed as an input:", alive[1])

# %% [markdown]
# Now the way back:


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
# `gradients(outputs, arriving, inputs)` is lab 04's sweep, for several outputs, each with an adjoint that arrives there. It goes back as far as `inputs`, and gives zeros where nothing depends on one.

# %% tags="check"
q.check("gradient_rules")

# %% [markdown]
# **Measure.** First the function whose gradient `where` made NaN, now with `cond`. Then the time of a branch with a hundred matrix products on one side; the predicate is true for a share of the runs.

# %%
root = cond(x > 0.0, mt.sqrt, lambda x: 0.0, x)
(slope,) = gradients([root], [1.0], [x])
for value in (-1.0, 0.0, 4.0):
    found = run_in_order([root, slope], {x: value})
    print(f"x = {value:g}: value {found[root]:g}, gradient {found[slope]:g}")


# %%
def chain(matrix):
    """Return the sum of a hundred products, one after the other."""
    for _ in range(100):
        matrix = matrix @ matrix
    return matrix.sum()


matrix = placeholder("matrix", (64, 64))
branching = cond(x > 0.0, chain, lambda m: m.sum(), matrix)
shares, times = np.linspace(0, 1, 5), np.full(5, np.inf)
for at in [*range(5)] * 5:  # in turns, the best of five: what is more is interruption
    start = time.perf_counter()
    for turn in range(20):
        feeds = {x: 1.0 if turn < 20 * shares[at] else -1.0, matrix: np.eye(64)}
        run_in_order([branching], feeds)
    times[at] = min(times[at], time.perf_counter() - start)

# %%
measured_ms = 1e3 * times / 20
predicted_ms = measured_ms[0] + shares * (measured_ms[-1] - measured_ms[0])
for share, expected, seen in list(zip(shares, predicted_ms, measured_ms))[1:-1]:
    compare(f"ms a run, {share:.0%} true", expected, seen)
figures.plot_branch(shares, predicted_ms, measured_ms)

# %% [markdown]
# **Reflect.** `where` would take the same time for all shares: which time? The side that is not taken still costs something: what, for 100 operators?
#
# *What the real system does.* TensorFlow finds the nodes that a branch takes from outside and puts Switches in front of them ([`CondContext`](https://github.com/tensorflow/tensorflow/blob/v1.15.5/tensorflow/python/ops/control_flow_ops.py)). Its gradients of Switch and Merge are like yours ([`control_flow_grad.py`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/ops/control_flow_grad.py)).

# %% [markdown]
# ## 3. Tags and frames
#
# A loop is a cycle in the graph, where tokens can overtake each other. `s` and `i` go round, `s` is slow, and an operator that needs both takes the tokens that come:

# %%
slow_s, fast_i = deque([("s", 0)]), deque([("i", n) for n in range(4)])
print("the adder gets", slow_s.popleft(), "and", fast_i.pop(), "- from different iterations")

# %% [markdown]
# **The idea.** Every token carries a **tag**: which loops it is in, outermost first, and in which iteration of each. An operator fires when its inputs have arrived *with the same tag*. Three operators change tags and do nothing else:
#
# | operator | tag of what comes | tag of what it sends |
# |---|---|---|
# | `Enter(loop)` | `(..., )` | `(..., (loop, 0))`: into iteration 0 |
# | `NextIteration(loop)` | `(..., (loop, i))` | `(..., (loop, i + 1))` |
# | `Exit(loop)` | `(..., (loop, i))` | `(..., )`: out again |
#
# All iterations of one run of a loop are a **frame**. A loop inside a loop has a frame for each iteration of the outer one.
#
# **Dead tokens do not pass these three.** Through NextIteration they would go round for ever, and every iteration but the last sends a dead token towards the Exit. Outside, one token is needed for each Exit. So a live token passes, and when the frame is **finished**, each Exit that has let nothing out sends one dead token. When is a frame finished? Not "when there is no token left in it", as you will see.
#
# *Source: Yu et al. 2018, "Dynamic Control Flow in Large-Scale Machine Learning", EuroSys, section 4.*

# %% [markdown]
# **Predict.** The condition of a loop is true five times and then false. How often does the Merge at the top of one of its variables fire?

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
# Now the end of a frame. A `Frame` counts `live`, the firings under way in it and in loops inside it; `enters`, the loop's Enter operators, one for each variable; and `entered`, those that have had their token, alive or dead.


# %% question="is_finished" points="3" hint1="When nothing is under way in a frame, can something still come into it?" hint2="Two conditions. One is about what is inside, one about what may still come from outside."
def is_finished(frame):
    """Return whether nothing can happen in this frame any more."""
    ### BEGIN SOLUTION
    return frame.live == 0 and frame.entered == frame.enters
    ### END SOLUTION


# %% [markdown]
# **The executor** is given; its rules are yours. A firing is an operator with a tag whose tokens are all there. `arrive` collects tokens, `step` lets one operator fire, and `pass_on` sends its token on. Read `pass_on`: where do dead tokens stop?


# %%
class Run(TokenRun):
    """One run of a graph by your rules. `events`: (node, tag, token) of every firing, in order."""

    def fire(self, op, arrived):
        return fire(op, arrived)

    def tag_after(self, op, tag):
        return tag_after(op, tag)

    def is_over(self, frame):
        return is_finished(frame)


def run(fetches, feeds=()):
    """Return the tokens of the fetches, a list."""
    return tokens.fetch_tokens(Run, fetches, feeds)


print(inspect.getsource(TokenRun.pass_on))

# %% [markdown]
# **Try it** on a loop wired by hand: `while i < n: i = i + 1`, whose variables are `i` and `n`. Each Merge gets a second input, which closes the cycle.


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
# **Measure.** Where tokens were: a row for each node, time to the right, a colour for each iteration, a cross for a dead token.

# %%
title = "while i < 3: one colour an iteration, a cross is dead"
figures.draw_tokens(Run([counted], {first: 0, n: 3}), title)
done = Run([counted], {first: 0, n: 5})
tops = Counter(node for node, _, _ in done.events if isinstance(node.op, Merge))
compare("firings of the Merge of i", predicted_merges, next(iter(tops.values())))

# %% [markdown]
# **Optional.** `minitorch.graph` has a token executor with the same rules. Step through the same loop.

# %%
limit = tf.placeholder(tf.float32, ())
follow_tokens(tf.while_loop(lambda i: i < limit, lambda i: i + 1.0, [0.0]), {limit: 3.0})

# %% [markdown]
# **The wrong rule.** In this loop the second variable comes late, through thirty operators. By then the counter has finished, and for a moment no token is in the frame.


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


# %%
class Careless(Run):
    """An executor with the simple rule: a frame is over when no token is in it."""

    def is_over(self, frame):
        return frame.live == 0


for executor in (Careless, Run):
    ends, feeds = late_variable()
    values = executor(ends, feeds).values
    print(f"{executor.__name__:8} i = {values[ends[0]]}, x = {values[ends[1]]}")

# %% [markdown]
# **Reflect.** With the simple rule the frame sent a dead token for a variable that had not entered. If the executor always moved the *oldest* token first, and all variables entered at once, which of the two parts of your rule would be enough?
#
# *What the real system does.* TensorFlow has the same rule: [`propagator_state.h`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/propagator_state.h) counts for each frame the outstanding iterations and the Enters that have not come (`num_pending_inputs`), and sends `dead_exits` when the frame is done.

# %% [markdown]
# ## 4. `while_loop`
#
# **The idea.** For each variable the same five operators, and one predicate for all:
#
# $$\text{start} \to \text{Enter} \to \text{Merge} \to \text{Switch} \begin{cases} \text{true: body} \to \text{NextIteration} \to \text{back to Merge} \\ \text{false: Exit} \end{cases}$$
#
# `test` and `body` are functions from nodes to nodes; they are called **once**, to build. Everything that the body needs is a variable of the loop, weights too: the token of a node from outside does not have the loop's tag, so the body would wait for ever.
#
# `new_loop()` returns a name that no other loop has. `tied(values, witness)` makes nodes of values, and puts constants beside the witness; a constant has no token, so it could not enter a loop by itself.

# %% [markdown]
# **Predict.** A loop with *three* variables goes round ten times. How often do the loop's own operators fire (Enter, Merge, Switch of both sides, NextIteration, Exit), without test and body? Count for one variable first. (An operator that sends a dead token has fired.)

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
# **Try it.** Heron's square root improves a guess until it is good enough.


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
def count_to_ten(i, u, v):
    """The body: only the counter changes."""
    return [i + 1.0, u, v]


idle = while_loop(lambda i, u, v: i < 10.0, count_to_ten, number, number, number)
own = (Enter, Merge, Switch, NextIteration, Exit)
fired = sum(isinstance(n.op, own) for n, _, _ in Run(idle, {number: 0.0}).events)
compare("the loop's own firings", predicted_firings, fired)

# %% [markdown]
# **Reflect.** A variable that never changes, such as a weight matrix, costs five firings an iteration here. If the executor knew that, which two of its operators would be enough?
#
# *What the real system does.* TensorFlow's Enter has a flag `is_constant` for this ([`control_flow_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/ops/control_flow_ops.cc)): every iteration gets the value, without a Merge or NextIteration. JAX's `lax.while_loop` and `lax.scan` ([`loops.py`](https://github.com/jax-ml/jax/blob/main/jax/_src/lax/control_flow/loops.py)) compile the body once into a loop of the machine.

# %% [markdown]
# ## 5. A loop backwards
#
# The loop has no gradient yet: a sweep from its Exit would go round for ever. To go back through `guess = (guess + x / guess) / 2` one also needs the guess of *each* round, but the graph has one node for all:

# %%
guess, rounds = heron(number)
halved = Counter()
for node, _, token in Run([guess], {number: 200.0}).events:
    if node.op.name == "mul" and token is not DEAD:
        halved[node] += 1
print("one run, and the multiplications had so many values each:", sorted(halved.values()))

# %% [markdown]
# **The idea.** The gradient of a loop is another loop, which goes backwards. The forward loop gets one more variable, a **stack**. At the beginning of each round it pushes the values of all its variables. The backward loop pops them until the stack is empty; its variables are the adjoints. One round of it:
#
# $$\bar v_i = \left(\frac{\partial\, \text{body}(v_i)}{\partial v_i}\right)^{\!\top} \bar v_{i+1}$$
#
# That is `gradients(body(*values), adjoints, values)`, an ordinary sweep through *one* body. For a variable that does not change, such as a weight, the adjoint is passed on too, plus what this round adds.
#
# `push(stack, *values)` returns a new stack, `pop(stack, like)` returns (the values on top, the stack below), `filled(stack)` is true while there is something in it, and `EMPTY` is the empty stack.

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
# **Try it.** The derivative of the square root is $1 / (2 \sqrt x)$.

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
# **Measure.** How many numbers are on the stack, and how much more does the way back cost than the way forward?

# %%
done = Run([slope], {number: 200.0})
kept = sum(len(t[0]) for n, _, t in done.events if isinstance(n.op, Push) and t is not DEAD)
compare("numbers on the stack", predicted_kept, kept)
there, both = (len(Run([node], {number: 200.0}).events) for node in (root, slope))
print(f"firings: {there} forward, {both - there} back: {(both - there) / there:.1f} times as many")

# %% [markdown]
# **Reflect.** Your backward loop keeps only the loop's variables, and computes the inside of the body again. What would one push to save this, and when is it worth the memory? For which bodies does it make no difference?
#
# *What the real system does.* TensorFlow pushes every intermediate value that the gradient needs, each on its own stack, and computes nothing twice ([`stack.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/stack.cc)). JAX's `lax.while_loop` cannot be differentiated backwards, since the memory is not known when it compiles; `lax.scan`, whose length is fixed, can. `minitorch.graph` does as you did, and its passes look into the body: a constant is computed beforehand, what is the same in every round is computed once before the loop, and what stands there twice, once. Here is a body with four products. How many are left?

# %%
h, w = tf.placeholder(tf.float32, (8, 64)), tf.placeholder(tf.float32, (64, 64))


def wasteful(i, h):
    twice = [tf.tanh(tf.matmul(h, tf.matmul(w, w))) for _ in range(2)]
    return [i + 1, (twice[0] + twice[1]) * tf.exp(tf.constant(-1.0))]


_, end = tf.while_loop(lambda i, h: i < 50, wasteful, [tf.constant(0), h])
feeds = {h: np.ones((8, 64), np.float32), w: np.eye(64, dtype=np.float32)}
for name, node in {"as written": end, "optimized": tf.optimize(end)}.items():
    inside = node.inputs[0].op.nodes()
    print(name, "in each round:", sum(n.name.startswith("matmul") for n in inside), "products")
plain_session, session = tf.Session(optimize=False), tf.Session()
slow, fast = milliseconds(lambda: plain_session.run(end, feeds), lambda: session.run(end, feeds))
print(f"as written over optimized: {slow / fast:.1f} times as long")

# %% [markdown]
# ## 6. Sentences differ in length
#
# A recurrent network reads one symbol after the other. Here are the lengths of 48 sentences.

# %%
rng = np.random.default_rng(5)
lengths = np.minimum(3 + 2 * rng.geometric(0.2, size=48), 41)
sentences = [some_sentence(n, rng) for n in lengths]
print("shortest", lengths.min(), " mean", round(lengths.mean(), 1), " longest", lengths.max())
print("of a padded table", f"{1 - lengths.sum() / (len(lengths) * lengths.max()):.0%} is padding")

# %% [markdown]
# **The idea.** Three graphs for the same network:
#
# - **Loop.** One graph; each sentence goes round as often as it is long.
# - **Unrolled.** The body is written down once for each symbol: no control flow, but another graph for every length.
# - **Padded.** One unrolled graph, for the longest sentence. Shorter ones are filled up (padding), and a **mask** keeps the padding from changing the state:
#
# $$h_{t+1} = \begin{cases} \tanh(x_t w + h_t u) & t < \text{length} \\ h_t & \text{otherwise} \end{cases}$$
#
# Only the padded graph can compute many sentences at once. `row(table, i)` is row i of a table, as a node.


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
# **Predict.** Run all 48 sentences one by one. How many times as many cells does the padded graph compute as the loop? And how many times as much *time* does it take?

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
# **Try and measure.** The padding is filled with random numbers: if the mask is wrong, the results differ.

# %%
longest = int(lengths.max())
many = placeholder("lengths", (None, 1))
padded = padded_rnn(table, many, h0, w, u, longest)
start_state = np.zeros((1, 8), np.float32)


def by_loop(sentence):
    return {table: sentence, length: len(sentence), h0: start_state, **weights}


# %%
def by_padding(group, steps=longest):
    filled_table, counts = fill_up(group, steps, rng)
    return {table: filled_table, many: counts, h0: np.zeros((len(group), 8)), **weights}


# %%
def unrolled_by_length(sentences):
    # a graph for each length that occurs; each sentence runs on its own
    graphs = {n: unrolled_rnn(n) for n in {len(s) for s in sentences}}
    return [run([graphs[len(s)]], {table: s, h0: start_state, **weights})[0] for s in sentences]


def by_buckets(sentences, size=12):
    # padded only to the longest of a dozen sentences of similar length
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
fed = [(loop_rnn, by_loop(sentences[0])), (padded, by_padding(sentences[:1]))]
cells = [
    sum(n.name == "matmul" for n, _, t in Run([node], feeds).events if t is not DEAD) / 2
    for node, feeds in fed
]
compare("cells, padded over loop", predicted_cells, len(sentences) * cells[1] / lengths.sum())
ratio = taken["padded, one by one"] / taken["loop, one by one"]
compare("time, padded over loop", predicted_time, ratio)
each_ms = {name: 1e3 * t / len(sentences) for name, t in taken.items()}
figures.plot_ways(each_ms, predicted_time, at=2)

# %% [markdown]
# **Train on it**, with the loop and your gradient. The network says which occurs more often in a sentence, +1 or -1, and is tested on longer sentences too. The loss is $\log(1 + e^{-m})$, whose exponential overflows where $m$ is very negative. There your `cond` takes another form of it.

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
values = {**weights, v: r.normal(size=(8, 1)) / 10}
speed = dict.fromkeys(values, 0.0)
axes = {"xlabel": "sentence", "ylabel": "loss, nats"}
title, losses = "A loop trained by your loop backwards", []
curve = GrowingCurve(320, ylim=(5e-3, 10), middle=48, **axes, title=title)
for turn in range(320):
    sentence = some_sentence(lengths[turn % len(lengths)], rng)
    feeds = by_loop(sentence) | values | {label: np.sign(sentence.sum())}
    found, *slopes = run(fetches, feeds)
    losses.append(found)
    norm = np.sqrt(sum((slope**2).sum() for slope in slopes))
    for node, slope in zip((w, u, v), slopes):
        speed[node] = 0.5 * speed[node] + slope * min(1.0, 0.5 / norm)  # loops explode: clip
        values[node] = values[node] - 0.02 * speed[node]
    if turn % 40 == 39:
        curve.show(losses)

# %%
score = (loop_rnn @ v).sum()
new = [some_sentence(n, rng) for n in (*range(5, 24, 2), *range(25, 60, 2)) for _ in range(5)]
right = [np.sign(run([score], by_loop(s) | values)[0]) == np.sign(s.sum()) for s in new]
shorter, longer = np.mean(right[:50]), np.mean(right[50:])
print(
    f"right on {shorter:.0%} of new sentences of up to 23 symbols, on {longer:.0%} of longer ones"
)

# %% [markdown]
# **Reflect.** One by one, the padded graph computed twice as many cells as the loop: what did it do less of? From which share of padding on would the loop be faster here?
#
# *What the real system does.* `tf.nn.dynamic_rnn` is your loop with a mask, over a padded batch: the loop ends with the longest sentence. cuDNN takes [packed sequences](https://github.com/pytorch/pytorch/blob/main/torch/nn/utils/rnn.py), sorted by length.

# %% [markdown]
# ## 7. Trees, and batches of things that differ
#
# In a parse tree every node waits for its two children, and no two trees have the same shape. The imperative answer is recursion. The task: a leaf is true or false, every other node is the NAND of its children, and the network sees only the truth of the *roots*.


# %%
def by_recursion(tree, vertex, embed):
    """Return the state of a tree's root, (1, d). A tree is a bool or a pair of trees."""
    if isinstance(tree, bool):
        return embed[int(tree) : int(tree) + 1]
    return vertex(*(by_recursion(child, vertex, embed) for child in tree))


def by_recursions(forest, vertex, embed):
    # the states of all roots, one tree after the other
    return mt.cat([by_recursion(tree, vertex, embed) for tree in forest])


def plain(left, right, bias):
    # a function for one inner node: the states of its children to its own
    return lambda a, b: mt.tanh(a @ left + b @ right + bias)


# %% [markdown]
# **The idea.** The *operators* are the same in every tree; only the structure differs. So take a whole batch of trees, sort **all** their nodes by height, and compute each height at once: gather the children's rows, one product, append the results. This is **dynamic batching**: the structure is data (lists of indices), and the graph for one height is static. Frameworks that are **vertex-centric** ask for just these two: a small static function of a vertex, written once, and a graph for each input, by which they schedule it. The function may be any: an LSTM in a chain, a tree-LSTM with a forget gate for each child.
#
# $$\text{height}(n) = \begin{cases} 0 & n \text{ is a leaf} \\ 1 + \max(\text{height of its children}) & \text{otherwise} \end{cases}$$
#
# *Source: Looks et al. 2017 (TensorFlow Fold); Neubig et al. 2017 (DyNet); Xu et al. 2018 (Cavs); Tai et al. 2015 (tree-LSTM).*

# %%
forest_rng = np.random.default_rng(9)
forest = [trees.random_tree(6, forest_rng) for _ in range(64)]
left, right, symbol, roots = trees.flatten(forest)  # the children's numbers, -1 at a leaf
inner = sum(n >= 0 for n in left)
print(len(forest), "trees with", inner, "inner nodes,", left.count(-1), "leaves")

# %% [markdown]
# **Predict.** One by one, the recursion computes a cell for each inner node. How many cells, each on many rows, does dynamic batching compute for all trees together? (No tree is deeper than 6.)

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
# **Try it**: all trees by your groups, and by recursion.


# %%
def by_batching(forest, vertex, embed):
    """Return the states of the trees' roots, (len(forest), d): one cell for each height."""
    return trees.by_batching(forest, by_height, vertex, embed)


embed, *cell_weights, readout = trees.tree_weights(DEVICE)
lstm_embed, lstm = trees.tree_lstm(DEVICE)
for name, *network in (("plain", plain(*cell_weights), embed), ("tree-LSTM", lstm, lstm_embed)):
    alone, together = (way(forest, *network) for way in (by_recursions, by_batching))
    apart = abs(alone - together).max().item()
    print(f"{name}: {trees.kernels(alone)} kernels one by one, ", end="")
    print(f"{trees.kernels(together)} batched; largest difference {apart:.1e}")
compare("cells", predicted_steps, len(by_height(left, right)) - 1)

# %% [markdown]
# **Measure.** Forward and backward, for more and more trees at once.


# %%
def seconds(forest):
    """Return the best seconds of a step by recursion and by batching, which take turns."""

    def step(way):
        states = way(forest, plain(*cell_weights), embed)
        return trees.tree_step(states, readout, forest)  # ends with a number

    ms = milliseconds(partial(step, by_recursions), partial(step, by_batching), repeats=7)
    return np.array(ms) / 1e3


# %%
sizes = [1, 4, 16, 64]
taken = np.array([seconds(forest[:n]) for n in sizes])
flat = [trees.flatten(forest[:n]) for n in sizes]
cells = np.array([[sum(i >= 0 for i in f[0]), len(by_height(*f[:2])) - 1] for f in flat])
for n, (a, b), (alone, together) in zip(sizes, taken, cells):
    compare(f"{n:2} trees: recursion over batching, by cells", alone / together, a / b)
figures.plot_trees(sizes, taken, cells, DEVICE)

# %% [markdown]
# **Train on it**, batched by your groups: does it find NAND?

# %%
embed, *cell_weights, readout = trees.tree_weights(DEVICE)
optimizer = mt.optim.Adam([embed, *cell_weights, readout], lr=0.02)
grow = np.random.default_rng(10)
losses = []
for _ in range(150):
    batch = [trees.random_tree(4, grow) for _ in range(64)]
    optimizer.zero_grad()
    losses.append(trees.tree_step(by_batching(batch, plain(*cell_weights), embed), readout, batch))
    optimizer.step()
deep = [trees.random_tree(8, grow) for _ in range(200)]
guesses = (by_batching(deep, plain(*cell_weights), embed) @ readout).detach().to("cpu").numpy()[
    :, 0
] > 0
right = np.mean(guesses == [trees.truth(tree) for tree in deep])
print(f"loss {losses[0]:.2f} -> {losses[-1]:.3f}; trees twice as deep as in training: {right:.0%}")

# %% [markdown]
# **The same with sentences.** A server that writes texts has a batch of `slots` requests. A *static* batch is over when its longest request is over. A *continuous* batch fills a slot as soon as it is free. The discussion asks for the steps, counted for the sentences of section 6.

# %%
slots = 8
static = sum(max(lengths[i : i + slots]) for i in range(0, len(lengths), slots))
free = np.zeros(slots, int)
for n in lengths:
    free[free.argmin()] += n  # the next request takes the slot that is free first
for kind, steps in {"static": static, "continuous": free.max()}.items():
    print(f"{kind}: {steps} steps, {lengths.sum() / steps / slots:.0%} of the slots at work")

# %% [markdown]
# **Reflect.** Which fraction of the time of a batched step is spent in the Python code around it (`flatten`, the dictionaries)? Why is the gain smaller than the ratio of cells?
#
# *What the real system does.* vLLM's [scheduler](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py) decides at every step which requests are in the batch: continuous batching, from Orca (Yu et al. 2022).

# %% [markdown]
# ## Discussion

# %% [markdown] question="three_kinds" points="6" manual="true" rubric1="1: CNN, in training and inference: static, with the reason: all shapes known, compile and plan once; inference lacks the backward graph and may have images of many sizes" rubric2="1: GPT training: static, with the reason: texts are packed or padded to one length, so one static graph with large batches" rubric3="1: GPT inference at batch 1: dynamic in length (a loop that ends with the text, a cache that grows), static in each step; launches and memory bound it" rubric4="1: GPT serving: batched-dynamic, with the reason: lengths unknown, requests come and go; beam search: branches are copied and dropped by value, which no static graph likes" rubric5="1: Says what a wrong choice would cost, with a number measured here (padding share, control firings an iteration, slots at work, recursion over batching)" rubric6="1: Names what each way demands of the system: shape inference and memory planning; masks and buckets; a scheduler between steps, memory that grows (paged KV cache)"
# **Static, dynamic, batched-dynamic.** Five programs: a CNN (in training and in use), a GPT in training, a GPT that writes one text at a time, a GPT that serves many users, and **beam search**, which follows the best few texts at once and drops and copies them as it goes. For each: what of its structure depends on the data, which way would you run it, and what does the system need for that? What would a wrong choice cost, by your measurements in sections 6 and 7?
# ### BEGIN SOLUTION
# *CNN*: nothing depends on the data but the numbers. All shapes are known, so one static graph: compile once, plan memory once, no control flow at run time. In use there is no backward graph, and images of many sizes are cut or padded to one. *GPT training*: texts differ in length, but one may choose what goes into a batch: pack texts end to end into rows of 2,048 tokens with a mask between them, and every step is the same static graph. Padding instead would waste the share that we saw, half of the table; a loop would pay dozens of firings an iteration beside the cell. *GPT, one text*: each step is the same small graph over a cache one row longer; how often it runs depends on its own output. A static step in a dynamic loop; with one row a step the launches and the reading of the weights are the time. *GPT serving*: prompts come at any time, outputs end when the model says so, and nobody can choose. One by one uses one row of a matrix unit; a static batch left half of the slots idle here. So batched-dynamic: the step is a static graph over a batch, and a scheduler changes who is in it between steps; memory for keys and values must then grow by pages. *Beam search*: which texts go on is a choice by value in every step, and their caches are copied or shared: control flow between static steps, with gathers whose indices are data. The lines move: experts chosen per token make training dynamic inside a layer, so one fixes a capacity and pads; speculative decoding makes the number of tokens a step depend on the data.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric1="1: Overview of dataflow control flow in the learner's own words" rubric2="1: Problem and challenges: data-dependent structure within a deferred, distributed graph; in-graph against out-of-graph" rubric3="1: Methods: Switch, Merge, Enter, Exit, NextIteration, dead tokens, frames, gradients with stacks, distribution by control loops on each device" rubric4="1: Evaluation read critically, with a figure and its conditions, or the remark that the OSDI paper gives none for control flow" rubric5="1: Trade-offs and one open question"
# **Reading note.** Abadi et al. 2016, ["TensorFlow: A System for Large-Scale Machine Learning"](https://www.usenix.org/conference/osdi16/technical-sessions/presentation/abadi), OSDI, section 3.4 and what it rests on. Further reading: Yu et al. 2018, ["Dynamic Control Flow in Large-Scale Machine Learning"](https://arxiv.org/abs/1805.01772), EuroSys. One page, in this form.
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
