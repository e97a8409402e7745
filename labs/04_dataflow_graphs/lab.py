# %% [markdown] builds="placeholders, variables, a session, symbolic gradients" needs="02" audience="gpu"
# # Lab 04: Dataflow graphs
#
# - **You build** a small TensorFlow 1: nodes that record instead of computing, a run that computes only what is fetched, gradients that are nodes themselves, a session with variables, an optimizer made of nodes, and a plan that is made once and run many times.
# - **You need** lab 02: operators with a `gradient`, topological order, the reverse sweep.
# - **It takes** about 115 minutes: 3 to set out, 9, 24, 16, 13, 11, 9 and 20 for the seven sections, 10 for the discussion. The reading note, with its paper, is for another day.
#
# PyTorch computes each line when Python comes to it: **define by run**. TensorFlow 1 wrote the program down first, as a graph of operators, and ran it afterwards, many times: **define once, run many**. Both use the same operators. You will build the second kind on top of the very operators that the first kind uses, run one model both ways, and measure what each is good for.

# %% tags="setup"
import os
import platform
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

import minitorch as mt
import minitorch.graph as tf
from autograder import lab
from minitorch.data import digits
from minitorch.op import Op, Spec
from minitorch.ops.methods import Methods
from minitorch.show import show

# %% tags="setup"
q = lab("dataflow_graphs")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"
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
# The same tiny arrays all through the lab: three rows, two features, two outputs.

# %%
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
W = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
B = np.array([0.5, -0.5], np.float32)


def model(x, w, b):
    """One layer. It says which operators, and not what x, w and b are."""
    return (mt.exp(x @ w + b) * 0.5).sum()


print("imperative:", model(mt.tensor(X), mt.tensor(W), mt.tensor(B)).item())

# %% [markdown]
# ## 1. A recipe, not a dish
#
# Imperative code computes what it is told, at once, whether anybody wants the result or not. Here is a line that somebody left in a model to look at it once. It is harmless on three rows.

# %%
rows = mt.tensor(np.ones((2_000, 500), np.float32))
start = time.perf_counter()
similarity = rows @ rows.T  # nobody uses it
print(f"{similarity.shape[0]} x {similarity.shape[1]}: {4 * similarity.numel() / 1e6:g} MB", end="")
print(f", {1e3 * (time.perf_counter() - start):.1f} ms")
print(f"with a million rows: {4 * 10**12 / 1e12:g} TB")

# %% [markdown]
# **The idea.** Let an operator on a **node** compute nothing, and make another node which remembers the operator and its inputs. The nodes of a program form a **dataflow graph**: an edge is a value on its way. Sizes are known beforehand as far as they can be (`None` where only the run will tell), so a wrong shape is found while the graph is built, on the line that is wrong.
#
# There are four kinds of node:
#
# | node | where its value comes from |
# |---|---|
# | `Placeholder` | each run is given one: the **feed** |
# | `Variable` | the session keeps it from run to run |
# | `Constant` | fixed when the graph is built |
# | any other | its operator `op` computes it from its `inputs` |
#
# minitorch's operators do not care what they are applied to. `mt.exp(v)` asks `v`, by calling `v._apply(op, inputs)`: a tensor computes and remembers, and your nodes will only remember. So one function of yours turns the whole operator library symbolic.
#
# *Source: Abadi et al. 2016, "TensorFlow: A System for Large-Scale Machine Learning", section 3.1.*


# %%
class Node(Methods):
    """A value that a session computes when it is asked to. `Methods` gives it +, @, .sum(), ...

    op: the operator, None for a source; inputs: the nodes that it is computed from;
    shape: None for a size that only the run will tell; dtype; name, for messages.
    """

    def __init__(self, op, inputs, shape, dtype=np.float32, name="node"):
        self.op, self.inputs, self.name = op, tuple(inputs), name
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def _apply(self, op, inputs):
        return record(op, inputs)

    def __bool__(self):
        raise TypeError(f"{self.name} is a node: it is neither true nor false until it is run")

    def __iter__(self):
        raise TypeError(f"{self.name} is a node: it cannot be gone through until it is run")

    def __repr__(self):
        return f"<{self.name} {self.shape} {self.dtype}>"


# %%
class Placeholder(Node):
    """A value that each run is given by its feeds."""

    def __init__(self, shape, name):
        super().__init__(None, (), shape, name=name)


class Variable(Node):
    """A value that a session keeps from run to run. `initial` is what it starts with."""

    def __init__(self, initial, name):
        self.initial = np.asarray(initial, np.float32)
        super().__init__(None, (), self.initial.shape, name=name)


# %%
class Constant(Node):
    """A value that is fixed now."""

    def __init__(self, value):
        self.value = np.asarray(value, np.float32)
        super().__init__(None, (), self.value.shape, name="const")


def as_node(value):
    """Return a node as it is, and a number or an array as a constant."""
    return value if isinstance(value, Node) else Constant(value)


# %% [markdown]
# **Predict.** `model` has five operators: `@`, `+`, `exp`, `*`, `sum`. Given three nodes for `x`, `w` and `b`, how many nodes will its graph have in all?

# %%
### BEGIN STARTER
# predicted_nodes = ...
### END STARTER
### BEGIN SOLUTION
predicted_nodes = 9  # three sources, five operators, and the 0.5 is a node too
### END SOLUTION


# %% question="record" points="4" hint1="Three steps: make every input a node; ask the operator what the result will look like; make the node." hint2="Some inputs may be plain numbers, as the 0.5 in x * 0.5: there is a function that makes nodes of them." hint3="op.infer takes one Spec(shape, dtype) for each input, as separate arguments, and returns the Spec of the result: .shape and .dtype."
def record(op, inputs):
    """Return a new node for `op` of `inputs`. Nothing is computed.

    Args:
        op: the operator; `op.infer(*specs)` gives the Spec of the result from those of the
            inputs, `Spec(shape, dtype)`, and raises where they do not fit.
        inputs: nodes, numbers and arrays mixed; what is no node becomes a constant.
    Returns: a Node with op, inputs (all nodes, in order), shape, dtype, and op.name as its name.
    """
    ### BEGIN SOLUTION
    nodes = [as_node(value) for value in inputs]
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    return Node(op, nodes, spec.shape, spec.dtype, op.name)
    ### END SOLUTION


# %% [markdown]
# **Try it**: the same `model`, now on nodes. The batch size is left open.

# %%
x = Placeholder((None, 2), "x")
w, b = Variable(W, "w"), Variable(B, "b")
loss = model(x, w, b)
print(loss)
show(loss)

# %% tags="check"
q.check("record")

# %% [markdown]
# **Measure.** Count the nodes. Then build the line that took 4 TB, and one that cannot work.


# %%
def every_node(*nodes):
    """Return all nodes that these depend on, themselves included."""
    found, waiting = {}, list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = True
            waiting += node.inputs
    return list(found)


compare("nodes", predicted_nodes, len(every_node(loss)))

# %%
million = Placeholder((10**6, 1000), "million")
start = time.perf_counter()
print(million @ million.T, f"in {1e6 * (time.perf_counter() - start):.0f} us")
try:
    million @ w
except ValueError as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# **Reflect.** `model` did not change by a letter between tensors and nodes. Which lines that one may write in a model *would* behave differently on nodes? Think of `if`, of `print`, of `float(...)`.
#
# *What the real system does.* In TensorFlow every operator registers a shape function beside its kernels, and [`shape_refiner.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/shape_refiner.cc) calls them as the graph is built, in C++. JAX calls its nodes tracers: they too are found by the operators, not by your code.

# %% [markdown]
# ## 2. Run what is fetched
#
# A graph says what *could* be computed. Run all of it, and the four terabytes are back:

# %%
y = x @ w + b
graph = [y, mt.exp(y), million @ million.T]
print(
    "to compute everything:", sum(4 * int(np.prod([n or 3 for n in v.shape])) for v in graph), "B"
)
print("to fetch y           :", 4 * 3 * 2, "B")

# %% [markdown]
# **The idea.** A run names its **fetches**, the nodes whose values it wants, and its **feeds**, nodes whose values it gives. Walk backwards from the fetches, and stop at every fed node, whatever kind it is: what lies behind it is not needed. What you met is what has to run, in topological order, and nothing else:
#
# $$\text{needed}(F, D) = \{\, v : \text{a path leads from } v \text{ to a fetch in } F \text{ without passing a fed node in } D \,\}$$
#
# Feeding a node in the middle is how one tests the upper half of a model without the lower half. TensorFlow's paper calls all this **partial execution** (section 3.2).
#
# **Predict.** `loss` has five operators behind it. If the sum `x @ w + b` is *fed*, how many operators have to run for `loss`?

# %%
### BEGIN STARTER
# predicted_runs = ...
### END STARTER
### BEGIN SOLUTION
predicted_runs = 3  # exp, * and sum
### END SOLUTION


# %% question="needed" points="4" hint1="This is lab 02's topological order, from several starts at once, and with one more reason not to look at a node's inputs." hint2="Keep a stack of (node, its inputs are done?). Popping (v, False): push (v, True), then its inputs, unless v is fed. Popping (v, True): append v." hint3="Nodes compare elementwise with ==. `node in a_list` is therefore wrong; `node in a_set` or in a dict asks for identity first, and is right."
def needed(fetches, feeds):
    """Return the nodes that a run has to have values of, inputs before their users.

    Each occurs once. A fed node is among them if something needs it, and nothing is that only
    it needs. No recursion: a graph may be 100,000 deep.

    Args:
        fetches: a list of nodes.
        feeds: a dict or a set of nodes.
    """
    ### BEGIN SOLUTION
    order, seen = [], set()
    stack = [(node, False) for node in fetches]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in feeds:
                stack.extend((source, False) for source in node.inputs)
    return order
    ### END SOLUTION


# %% tags="check"
q.check("needed")


# %% question="evaluate" points="5" hint1="Go through needed(fetches, feeds), and fill a dict from node to array. Where does each kind of node have its value from? The table of section 1 says it." hint2="Ask first whether the node is fed: then nothing else matters, whatever kind it is." hint3="An operator: node.op.compute(np, *arrays), with the arrays of node.inputs in order."
def evaluate(fetches, feeds, state):
    """Return {node: array} for the nodes that the fetches need, each computed once.

    Args:
        fetches: a list of nodes.
        feeds: {node: array}; any node may be fed.
        state: {variable: array}.
    Raises:
        ValueError: a placeholder is needed and not fed, or a variable is not in the state. The
            message holds the node's name.
    """
    values = {}
    ### BEGIN SOLUTION
    for node in needed(fetches, feeds):
        if node in feeds:
            values[node] = feeds[node]
        elif isinstance(node, Constant):
            values[node] = node.value
        elif node.op is not None:
            values[node] = node.op.compute(np, *[values[source] for source in node.inputs])
        elif node in state:
            values[node] = state[node]
        else:
            raise ValueError(f"{node.name} has no value: feed it, or initialise it")
    ### END SOLUTION
    return values


# %% [markdown]
# **Try it** on the running example, against the imperative answer at the top; with another batch size; and without a feed.

# %%
state = {w: W, b: B}
print(evaluate([loss], {x: X}, state)[loss], evaluate([loss], {x: X[:1]}, state)[loss])
try:
    evaluate([loss], {}, state)
except ValueError as error:
    print("ValueError:", error)

# %% tags="check"
q.check("evaluate")

# %% [markdown]
# **Measure.** Feed a node in the middle, and count what runs.

# %%
before_exp = loss.inputs[0].inputs[0].inputs[0]
print("fed in the middle:", before_exp)
values = evaluate([loss], {before_exp: np.zeros((3, 2), np.float32)}, state)
ran = [node.name for node in values if node.op is not None and node is not before_exp]
print("ran:", ran, "giving", values[loss])
compare("operators run", predicted_runs, len(ran))

# %% [markdown]
# **Reflect.** You fed a node in the middle with zeros, and neither `x` nor `w` was needed. Imperative code can do that too: what would the programmer have had to write into the model beforehand?
#
# *What the real system does.* The same walk: [`subgraph.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/graph/subgraph.cc) replaces fed nodes by `_Arg`, puts a `_Retval` behind each fetch, and prunes whatever does not lead there. A session keeps the result for each set of feeds and fetches that it has met.

# %% [markdown]
# ## 3. Gradients are more nodes
#
# In lab 02 the sweep ran when you called it, on numbers. It computed one product too many, the gradient of the batch, and to leave that out somebody has to say beforehand what is wanted.
#
# **The idea.** Run the reverse sweep while *building*. The rules are written in operators, and operators on nodes make nodes; so the very same `gradient` that computed numbers in lab 02 now writes down how to compute them:
#
# $$\bar v = \sum_{u \text{ uses } v} \overline{v \to u} \qquad \text{is a node: an addition of nodes.}$$
#
# Nothing runs. What is never fetched never will. And the result is an ordinary part of the graph, so it can be fed, fetched, rewritten by an optimising pass, and differentiated again.
#
# **Predict.** Three layers, `tanh(tanh(tanh(x @ w1) @ w2) @ w3)`, summed. Your sweep writes down 3 + 6 matrix products, two for each of the forward ones. How many of these **run** when the gradients of the three weights are fetched? And how many when only that of `w3`, the last, is?

# %%
### BEGIN STARTER
# predicted_products_all = ...
# predicted_products_last = ...
### END STARTER
### BEGIN SOLUTION
predicted_products_all = 8  # all but the gradient of the batch
predicted_products_last = 4  # three forward, one backward
### END SOLUTION


# %% question="gradients" points="5" hint1="It is lab 02's sweep word for word: go through the order backwards, ask each operator for the partial adjoints of its inputs, add up what arrives at one node." hint2="needed([loss], {}) is a topological order. Start with as_node(1.0) as the adjoint of the loss. Nodes without an operator pass nothing on, and so do those that no adjoint has reached." hint3="node.op.gradient(adjoint, node) is a node for one input, a tuple for several, with None where an input has no gradient. `adjoint[source] + partial` makes a node that adds."
def gradients(loss, wanted):
    """Return nodes for the gradients of `loss` by each of `wanted`, as a list. Nothing runs.

    Args:
        loss: a node of shape ().
        wanted: a list of nodes, of any kind.
    Returns: one node each; None where the loss does not depend on it.
    """
    ### BEGIN SOLUTION
    adjoint = {loss: as_node(1.0)}
    for node in reversed(needed([loss], {})):
        if node.op is None or node not in adjoint:
            continue
        partials = node.op.gradient(adjoint[node], node)
        if not isinstance(partials, tuple):
            partials = (partials,)
        for source, partial in zip(node.inputs, partials):
            if partial is None:
                continue
            if source in adjoint:
                partial = adjoint[source] + partial
            adjoint[source] = partial
    return [adjoint.get(node) for node in wanted]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the running example, and compare with minitorch's own sweep over tensors. The same rules, so the same bits.

# %%
w_grad, b_grad = gradients(loss, [w, b])
leaves = [mt.tensor(W, requires_grad=True), mt.tensor(B, requires_grad=True)]
eager = mt.grad(model(mt.tensor(X), *leaves), leaves)
for node, other in zip([w_grad, b_grad], eager):
    mine = evaluate([node], {x: X}, state)[node]
    print(mine.tolist(), "same bits:", np.array_equal(mine, other.numpy()))

# %% tags="check"
q.check("gradients")

# %% [markdown]
# **Measure.** Three layers: count the products that run.

# %%
batch = Placeholder((None, 4), "batch")
layers = [Variable(np.full((4, 4), 0.1), f"w{i}") for i in (1, 2, 3)]
h = batch
for layer in layers:
    h = mt.tanh(h @ layer)
deep = h.sum()
grads = gradients(deep, layers)


def products_run(fetches):
    """Return how many matrix products a run of `fetches` computes."""
    feeds = {batch: np.ones((5, 4), np.float32)}
    values = evaluate(fetches, feeds, {layer: layer.initial for layer in layers})
    return sum(node.name == "matmul" for node in values)


compare("matrix products, all three gradients", predicted_products_all, products_run(grads))
compare("matrix products, the last alone", predicted_products_last, products_run(grads[2:]))

# %%
small, big = len(every_node(deep)), len(every_node(deep, *grads))
(curvature,) = gradients(grads[0].sum(), layers[:1])
print(f"nodes: loss {small}, with its gradients {big}, twice {len(every_node(curvature))}")
show(gradients(loss, [b])[0])

# %% [markdown]
# **Reflect.** PyTorch throws its graph away after each backward pass; this one stays. Name one thing that becomes possible because the gradients are in the graph *before* the first batch is seen, and one that becomes harder because of it.
#
# *What the real system does.* [`gradients_util.py`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/ops/gradients_util.py) is this sweep, in Python, about as you wrote it: it counts pending users where you sorted, and adds up many partial adjoints by one `AddN` instead of pairwise. In the paper differentiation is a *user-level* library (section 4.1): the C++ runtime knows nothing of it.

# %% [markdown]
# ## 4. State
#
# A graph has no memory, and training is all about memory. So there is an operator that writes: `assign(variable, value)`, a node which, when it runs, makes `value` the variable's new value. Who reads then sees what? Here is a run that writes as it goes, with two assignments that are to exchange two variables:


# %%
class AssignOp(Op):
    """The value itself; a session that has run it makes it the value of `variable`."""

    name = "assign"

    def __init__(self, variable):
        self.variable = variable

    def compute(self, xp, value):
        return value

    def infer(self, value):
        return value


# %%
class GroupOp(Op):
    """Nothing: a node to fetch for what its inputs do."""

    name = "group"

    def compute(self, xp, *values):
        return xp.zeros((), xp.float32)

    def infer(self, *values):
        return Spec((), np.dtype(np.float32))


# %%
def assign(variable, value):
    """Return a node that gives `variable` this value when it is run, and is the value."""
    return record(AssignOp(variable), [value])


def group(*nodes):
    """Return a node that runs all of these."""
    return record(GroupOp(), nodes)


one, two = Variable(1.0, "one"), Variable(2.0, "two")
exchange = [assign(one, two), assign(two, one)]
careless = {one: 1.0, two: 2.0}
for node in exchange:  # each write is seen by the next read
    careless[node.op.variable] = careless[node.inputs[0]]
print("written as it goes: one =", careless[one], "two =", careless[two])

# %% [markdown]
# **The idea.** A **session** owns the variables' values. One `run` has two phases: first everything is computed, from the state as it was **before** the run; then all assignments that ran take effect together.
#
# $$s_{t+1} = s_t \text{ with } v := \text{value of its assign node, computed from } s_t$$
#
# So a run is a function from state to state. In what order its nodes run makes no difference: a scheduler may take any, or several at once. And a node that nobody fetched writes nothing.
#
# **Predict.** In *this* order of things: what are `one` and `two` after `session.run([exchange])`, having been 1 and 2?

# %%
### BEGIN STARTER
# predicted_one = ...
# predicted_two = ...
### END STARTER
### BEGIN SOLUTION
predicted_one = 2
predicted_two = 1
### END SOLUTION


# %%
def initialize(*nodes):
    """Return a node that sets every variable that these read or write to its initial value."""
    behind = every_node(*nodes)
    written = [n.op.variable for n in behind if isinstance(n.op, AssignOp)]
    found = dict.fromkeys([*(n for n in behind if isinstance(n, Variable)), *written])
    return group(*(assign(variable, variable.initial) for variable in found))


# %% question="Session" points="5" hint1="evaluate has done the first phase: it returns the values of everything that ran. Which of these nodes write, and where does it say which variable?" hint2="Only when all is computed: go through the values; a node whose op is an AssignOp gives its value to node.op.variable in self.state." hint3="A list of fetches gives a list of arrays, a single node a single array: note which it was before you make a list of it."
class Session:
    """Runs nodes, and keeps the values of variables in between: `self.state`."""

    def __init__(self):
        self.state = {}

    def run(self, fetches, feed_dict=None):
        """Return the array of a node, or a list of arrays for a list of nodes.

        Everything is computed from the state before this run; then the assignments that were
        needed take effect. `feed_dict` is {node: number or array}; None feeds nothing.
        """
        feeds = {node: np.asarray(v, np.float32) for node, v in (feed_dict or {}).items()}
        ### BEGIN SOLUTION
        several = isinstance(fetches, list)
        nodes = fetches if several else [fetches]
        values = evaluate(nodes, feeds, self.state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                self.state[node.op.variable] = np.array(value)
        results = [values[node] for node in nodes]
        return results if several else results[0]
        ### END SOLUTION


# %% [markdown]
# **Try it**: a counter, in two sessions. Nothing but the session remembers.

# %%
count = Variable(0.0, "count")
tick = assign(count, count + 1)
first, second = Session(), Session()
for session in (first, second):
    session.run(initialize(tick))
for _ in range(3):
    first.run(tick)
print("first:", first.run(count), "second:", second.run(count))

# %% tags="check"
q.check("Session")

# %%
session = Session()
session.run(initialize(one, two))
session.run(exchange)
for variable, predicted in zip([one, two], [predicted_one, predicted_two]):
    compare(variable.name, predicted, session.run(variable))

# %% [markdown]
# **Measure.** What the order is worth: gradient descent on two factors, `(u * v - 6) ** 2`. Each step needs *both* old values; the careless way updates `u` and lets `v`'s gradient see it.

# %%
u, v = Variable(1.0, "u"), Variable(1.0, "v")
error = (u * v - 6) ** 2
steps = [assign(p, p - 0.02 * g) for p, g in zip([u, v], gradients(error, [u, v]))]
session = Session()
session.run(initialize(*steps))
careless = {u: np.float32(1), v: np.float32(1)}
apart = {"written as it goes": [], "all reads, then all writes": []}
for _ in range(40):
    apart["written as it goes"].append(careless[u] - careless[v])
    apart["all reads, then all writes"].append(session.run(u - v))
    session.run(steps)
    for node in steps:
        careless[node.op.variable] = evaluate([node], {}, careless)[node]

# %%
fig, ax = plt.subplots()
for (label, path), color in zip(apart.items(), ("C1", "C0")):
    ax.plot(path, label=label, color=color)
ax.set(xlabel="step", ylabel="u - v", title="u and v start equal, and stay equal in only one")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** The function is symmetric in `u` and `v`, and both started at 1. Which of the two curves is not gradient descent, and why would you probably never notice it in the loss curve of a real model?
#
# *What the real system does.* TensorFlow 1 promises no order between a read and a write of one run, unless you ask for it by `control_dependencies`. Its optimizers have an argument for the trap that you have just seen, `gate_gradients` ([`optimizer.py`](https://github.com/tensorflow/tensorflow/blob/v1.15.5/tensorflow/python/training/optimizer.py)); its default makes every gradient of an operator be computed before any of them is used.

# %% [markdown]
# ## 5. An optimizer is nodes
#
# Each step of a training loop written by hand copies the weights out of the session, moves them in Python, and feeds them back. That works, and it means that two copies of the model travel through `run` in every step.
#
# **The idea.** A step of gradient descent is itself arithmetic on nodes, with an assignment at the end. Put it into the graph; then Python does nothing but turn the crank. **Momentum** needs a memory of its own, and that is just one more variable for each weight, a **slot**:
#
# $$v_{t+1} = \mu v_t + g_t, \qquad w_{t+1} = w_t - \eta\, v_{t+1}$$
#
# Mind the index of the last $v$: it is the *new* velocity. In a graph that is the node which computes it, and not the variable, which still has the old value until the run is over.
#
# *Source: Polyak 1964. This is the form of PyTorch's SGD and TensorFlow's MomentumOptimizer; Sutskever et al. 2013 put the learning rate inside $v$, which is the same while it does not change.*
#
# **Predict.** With learning rate 0.1, momentum 0.9, and a gradient that is always 1: by how much has `w` fallen after two steps?

# %%
### BEGIN STARTER
# predicted_fall = ...
### END STARTER
### BEGIN SOLUTION
predicted_fall = 0.1 * 1 + 0.1 * 1.9
### END SOLUTION


# %% question="minimize" points="6" hint1="For each variable: its gradient g, a new Variable of zeros of its shape for the velocity, a node for the new velocity, and two assignments." hint2="Which node stands for v at t+1? It is momentum * velocity + g. It is needed twice: assigned to the slot, and subtracted from w." hint3="Collect all assignments in one list, and group them at the end."
def minimize(loss, variables, lr, momentum=0.9):
    """Return a node that takes one step of gradient descent with momentum when it is run.

    Args:
        loss: a node of shape (). variables: a list of Variables that it depends on.
    Each variable gets a slot of its own, a new Variable of zeros. Use your `gradients`, `assign`
    and `group`.
    """
    ### BEGIN SOLUTION
    updates = []
    for variable, grad in zip(variables, gradients(loss, variables)):
        slot = Variable(np.zeros(variable.shape), f"{variable.name}/velocity")
        velocity = momentum * slot + grad
        updates += [assign(slot, velocity), assign(variable, variable - lr * velocity)]
    return group(*updates)
    ### END SOLUTION


# %% tags="check"
q.check("minimize")

# %% [markdown]
# **Try and measure**: a weight whose gradient is always 1.

# %%
height = Variable(5.0, "height")
train = minimize(height * 1.0, [height], lr=0.1)
session = Session()
session.run(initialize(train))
session.run(train)
session.run(train)
compare("fall after two steps", predicted_fall, 5.0 - session.run(height))

# %% [markdown]
# **Train on it.** Handwritten digits, 8 by 8 pixels, and a network 64-32-10. Everything that runs is yours: recording, running, gradients, state, optimizer. `network` and `cross_entropy` say nothing about nodes; section 7 calls them with tensors.

# %%
train_images, train_labels = (t.numpy() for t in digits(flat=True).tensors)
test_images, test_labels = (t.numpy() for t in digits(train=False, flat=True).tensors)
one_hot = np.eye(10, dtype=np.float32)[train_labels]


def network(x, w1, b1, w2, b2):
    """64-width-10."""
    return mt.tanh(x @ w1 + b1) @ w2 + b2


def cross_entropy(logits, one_hot):
    """The mean of -log softmax at the label."""
    shifted = logits - logits.amax(dim=1, keepdim=True)
    log_total = mt.log(mt.exp(shifted).sum(dim=1, keepdim=True))
    return ((log_total - shifted) * one_hot).sum(dim=1).mean()


# %%
def initial(width=32):
    """Return the same starting point each time: w1, b1, w2, b2."""
    rng = np.random.default_rng(2)
    shapes = [(64, width), (width,), (width, 10), (10,)]
    return [(rng.normal(size=s) / 8 * (len(s) == 2)).astype(np.float32) for s in shapes]


# %%
def batches(epochs):
    """Yield the rows of each batch, the same at every call."""
    order = np.random.default_rng(3)
    for _ in range(epochs):
        yield from np.array_split(order.permutation(len(train_labels)), 24)


images, labels = Placeholder((None, 64), "images"), Placeholder((None, 10), "labels")
weights = [Variable(a, name) for a, name in zip(initial(), ["w1", "b1", "w2", "b2"])]
logits = network(images, *weights)
loss = cross_entropy(logits, labels)
train = minimize(loss, weights, lr=0.1)
session = Session()
session.run(initialize(train))

# %%
fig, ax = plt.subplots()
(line,) = ax.semilogy([], [])
ax.set(xlabel="step", ylabel="cross entropy, nats", title="Digits, trained by a graph of your own")
ax.set(xlim=(0, 240), ylim=(0.02, 4))
plt.close(fig)
handle, symbolic_losses = display(fig, display_id=True), []  # the curve grows while it runs
for rows in batches(10):
    feeds = {images: train_images[rows], labels: one_hot[rows]}
    symbolic_losses.append(float(session.run([loss, train], feeds)[0]))
    if len(symbolic_losses) % 24 == 0:
        line.set_data(range(len(symbolic_losses)), symbolic_losses)
        handle.update(fig)

# %%
guesses = session.run(logits, {images: test_images}).argmax(axis=1)
print(f"right on {np.mean(guesses == test_labels):.1%} of {len(test_labels)} images never seen")
print("nodes of the loss:", len(every_node(loss)), "of the step:", len(every_node(train)))

# %% [markdown]
# **Reflect.** The accuracy was computed by fetching `logits` without feeding `labels`. Which feature of section 2 made that possible? And how do you save a checkpoint of this training: what has to be in it besides `w1` to `b2`?
#
# *What the real system does.* TensorFlow's optimizers build the same nodes; a slot is created by `_zeros_slot` and the two assignments are one fused kernel, `ApplyMomentum` ([`training_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc)). On a cluster those kernels run where the variable lives, so that weights never travel to the client.

# %% [markdown]
# ## 6. Where does it hurt?
#
# A number is wrong in the middle of a model. What does everyone do first?


# %%
def with_print(x, w, b):
    """The running example, with a look at what goes into exp."""
    y = x @ w + b
    print("   y is", y)
    return (mt.exp(y) * 0.5).sum()


print("symbolic, built:")
looked_at = with_print(x, w, b)
print("symbolic, run:")
session = Session()
session.run(initialize(looked_at))
session.run(looked_at, {x: X})

# %% [markdown]
# It printed before there was a value, and was silent when there was one.
#
# **The idea.** Python's `print` runs when *Python* comes to it, which is while the graph is built. To see a value the printing has to be **in the graph**: an operator whose result is its input, and which prints on the way. Its gradient lets the adjoint pass unchanged, so that one may put it anywhere in a model that is trained.
#
# **Predict.** The model is built once and run for five steps. How many lines does Python's `print` write in all? How many does the operator? And how many, if the operator's result is not used by anything that is fetched?

# %%
### BEGIN STARTER
# predicted_python = ...
# predicted_operator = ...
# predicted_aside = ...
### END STARTER
### BEGIN SOLUTION
predicted_python = 1
predicted_operator = 5
predicted_aside = 0
### END SOLUTION


# %% question="PrintOp" points="3" hint1="compute gets the array: print it, and return it." hint2="If y is x itself, by how much does y grow when x does? What is the adjoint of x then?" hint3="gradient returns the adjoint of the one input: out_grad."
class PrintOp(Op):
    """Its input; each run prints `label` and the value on a line."""

    def __init__(self, label):
        self.label = label

    def compute(self, xp, x):
        """Print the label and x, and return x."""
        ### BEGIN SOLUTION
        print(self.label, x)
        return x
        ### END SOLUTION

    def gradient(self, out_grad, node):
        """Return the adjoint of the input."""
        ### BEGIN SOLUTION
        return out_grad
        ### END SOLUTION

    def infer(self, x):
        return x


# %% tags="check"
q.check("PrintOp")

# %% [markdown]
# **Try and measure**: one model, five runs, and every line counted.


# %%
class Tally:
    """Counts calls of print."""

    def __init__(self):
        self.lines = 0

    def __call__(self, *_):
        self.lines += 1


class Counted(PrintOp):
    """Your operator, with its printing counted."""

    def compute(self, xp, x):
        by_operator(self.label)
        return super().compute(xp, x[:1])


by_python, by_operator = Tally(), Tally()


# %%
def printing(x, w, b, on_the_way):
    """The running example, looked at by Python and by an operator."""
    y = x @ w + b
    by_python("y is", y)
    look = Counted("y begins with")(y)
    return (mt.exp(look if on_the_way else y) * 0.5).sum()


for on_the_way, predicted in [(True, predicted_operator), (False, predicted_aside)]:
    by_python, by_operator = Tally(), Tally()
    looked_at = printing(x, w, b, on_the_way)
    for _ in range(5):
        session.run(looked_at, {x: X})
    where = "used by what is fetched" if on_the_way else "aside"
    compare(f"lines by the operator, {where}", predicted, by_operator.lines)
compare("lines by Python", predicted_python, by_python.lines)

# %% [markdown]
# **And an error.** With the batch size left open, a wrong one is found only by the run. Does the traceback show the line of the model that is to blame?


# %%
def two_inputs(x, z):
    """A model that needs as many rows in z as in x."""
    return (x + z).sum()  # BLAME


def blames_the_line(run):
    """Return whether the traceback of an error shows the line to blame."""
    try:
        run()
    except ValueError as error:
        return "BLAME" in "".join(traceback.format_exception(error))


z = Placeholder((None, 2), "z")
total = two_inputs(x, z)
bad = np.ones((7, 2), np.float32)
print("imperative:", blames_the_line(lambda: two_inputs(mt.tensor(X), mt.tensor(bad))))
print("symbolic  :", blames_the_line(lambda: session.run(total, {x: X, z: bad})))

# %% [markdown]
# **Reflect.** What would a node have to remember, and when, so that the symbolic error could name the line? What does that cost for each node?
#
# *What the real system does.* Every TensorFlow operator keeps the Python stack that made it, and prints it with the error. `tf.Print` was your operator ([`logging_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/logging_ops.cc)), and forgetting to use its result was the most asked question about it. `minitorch.graph` keeps file and line (IPython gives each cell a file of its own):

# %%
p, r = tf.placeholder(tf.float32, (None, 2)), tf.placeholder(tf.float32, (None, 2))
graph_sum = tf.reduce_sum(p + r)
try:
    tf.Session().run(graph_sum, {p: X, r: bad})
except ValueError as error:
    print(str(error).rpartition("(")[2])

# %% [markdown]
# ## 7. Define once, run many
#
# What is all this for? So far your session is slow: it works out at every run, anew, what is needed and in which order, though the answer is the same as last time.


# %%
def seconds_of(function, runs=40):
    """Return the median time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times)


session = Session()
session.run(initialize(train))
feeds = {images: train_images[:8], labels: one_hot[:8]}
whole = seconds_of(lambda: session.run([loss, train], feeds))
thinking = seconds_of(lambda: needed([loss, train], feeds))
print(f"of a small training step, {thinking / whole:.0%} is spent finding out what to do")

# %% [markdown]
# **The idea.** Make a **plan**, once for each set of fetches and feeds: give every needed node a number, its **slot** in a list; write down for each operator where its inputs are and where its result goes. A run then looks nothing up in the graph: it fills the slots of feeds and variables, and goes through a list of instructions.
#
# What may be decided when the plan is made, and what only in a run? The order, the slots and the constants belong to the graph. The feeds and the variables do not: a plan that remembers a variable's value trains for ever from the same weights.
#
# **Predict.** The step of the digits' network on 8 images, some 80 operators. How many times as fast as `Session.run` will the plan be?

# %%
### BEGIN STARTER
# predicted_speedup = ...
### END STARTER
### BEGIN SOLUTION
predicted_speedup = 1.4
### END SOLUTION


# %% question="Plan" points="8" hint1="Number the nodes of needed(fetches, inputs): slot = {node: i}. For each node ask, as in evaluate, which of the four kinds it is, or fed; note what a run will have to do for it." hint2="Constants can be put into self.template now. Variables become (slot, variable) in self.reads, operators (op, slots of the inputs, own slot) in self.steps, assignments also (variable, slot) in self.writes." hint3="A fed node needs no instruction, whatever its op: the run puts the feed into its slot. A feed that nothing needs has no slot: None."
class Plan:
    """A run, decided beforehand: `plan(state, *arrays)` gives the fetches and updates the state."""

    def __init__(self, fetches, inputs):
        """Plan a run of the list `fetches`, given arrays for the list of nodes `inputs`.

        Sets template: a list, one place a slot, with the constants in place;
        inputs: the slot of each input, None if it is not needed; fetches: the slot of each fetch;
        reads: [(slot, variable)]; writes: [(variable, slot)];
        steps: [(op, slots of its inputs, its own slot)], in running order.
        """
        order = needed(fetches, set(inputs))
        slot = {node: i for i, node in enumerate(order)}
        self.template, self.reads, self.writes, self.steps = [None] * len(order), [], [], []
        ### BEGIN SOLUTION
        self.inputs = [slot.get(node) for node in inputs]
        self.fetches = [slot[node] for node in fetches]
        for node, place in slot.items():
            if place in self.inputs:
                continue
            if isinstance(node, Constant):
                self.template[place] = node.value
            elif node.op is None:
                self.reads.append((place, node))
            else:
                self.steps.append((node.op, [slot[s] for s in node.inputs], place))
            if isinstance(node.op, AssignOp):
                self.writes.append((node.op.variable, place))
        ### END SOLUTION

    def __call__(self, state, *arrays):
        values = self.template.copy()
        for place, array in zip(self.inputs, arrays):
            if place is not None:
                values[place] = array
        for place, variable in self.reads:
            values[place] = state[variable]
        for op, sources, place in self.steps:
            values[place] = op.compute(np, *[values[i] for i in sources])
        for variable, place in self.writes:
            state[variable] = values[place]
        return [values[place] for place in self.fetches]


# %% [markdown]
# **Try it** on the running example: constants are in place, everything else is instructions.

# %%
plan = Plan([model(x, w, b)], [x])
print("slots:", plan.template)
print("reads:", plan.reads)
for op, sources, place in plan.steps:
    print(f"slot {place} = {op.name} of slots {sources}")
print("gives:", plan({w: W, b: B}, X))

# %% tags="check"
q.check("Plan")

# %% [markdown]
# **Measure.** One model, five ways to run it: built anew for every batch; your session; your plan; minitorch's tensors, imperatively; and `minitorch.graph`, which makes a plan too and turns it into Python source.


# %%
def imperative(width=32, device="cpu"):
    """Return a function that takes one step of the same training with tensors."""
    leaves = [mt.tensor(a, requires_grad=True, device=device) for a in initial(width)]
    optimizer = mt.optim.SGD(leaves, lr=0.1, momentum=0.9)

    def step(x, t):
        out = cross_entropy(
            network(mt.tensor(x, device=device), *leaves), mt.tensor(t, device=device)
        )
        optimizer.zero_grad()
        out.backward()
        optimizer.step()
        return out.item()

    return step


# %%
def symbolic(width=32):
    """Return the placeholders, the fetches, and a session that has been initialised."""
    variables = [Variable(a, "weight") for a in initial(width)]
    out = cross_entropy(network(images, *variables), labels)
    fetches, own = [out, minimize(out, variables, lr=0.1)], Session()
    own.run(initialize(*fetches))
    return fetches, own


def by_session(width=32):
    """Return a step by your session."""
    fetches, own = symbolic(width)
    return lambda x, t: float(own.run(fetches, {images: x, labels: t})[0])


def by_plan(width=32):
    """Return a step by your plan."""
    fetches, own = symbolic(width)
    plan = Plan(fetches, [images, labels])
    return lambda x, t: float(plan(own.state, x, t)[0])


# %%
def by_library(width=32, device="cpu"):
    """Return a step by minitorch.graph, on the same network and cross entropy."""
    x, t = tf.placeholder(tf.float32, (None, 64)), tf.placeholder(tf.float32, (None, 10))
    variables = [tf.Variable(a) for a in initial(width)]
    out = cross_entropy(network(x, *variables), t)
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(out)
    sess = tf.Session(device=device, optimize=False)  # your plan rewrites nothing either
    sess.run(tf.initialize_all_variables())
    return lambda a, b: float(sess.run([out, train], {x: a, t: b})[0])


def anew():
    """Return a step that builds the graph each time, as a careless training loop does."""
    return lambda x, t: by_session()(x, t)


# %%
def take_turns(steps, x, t, rounds=25):
    """Return the median seconds of each step, measured in turns."""
    times = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step(x, t)
            times[name].append(time.perf_counter() - start)
    return {name: median(found[2:]) for name, found in times.items()}


# %%
small = train_images[:8], one_hot[:8]
ways = {
    "graph built at each step": anew(),
    "your Session": by_session(),
    "imperative (tensors)": imperative(),
    "your Plan": by_plan(),
    "minitorch.graph": by_library(),
}
taken = take_turns(ways, *small)
compare("Session over Plan", predicted_speedup, taken["your Session"] / taken["your Plan"])

# %%
operators = len(Plan(symbolic()[0], [images, labels]).steps)
fig, ax = plt.subplots()
per_operator = [1e6 * s / operators for s in taken.values()]
ax.barh(list(taken), per_operator)
for row, cost in enumerate(per_operator):
    ax.text(cost, row, f"   {cost / per_operator[3]:.2f} plans", va="center")
if predicted_speedup is not ...:
    ax.plot(predicted_speedup * per_operator[3], 1, "D", color="C1", label="your prediction")
    ax.legend(loc="lower right")
ax.grid(axis="y", visible=False)
ax.set(xlabel="µs per operator", title=f"A small training step: {operators} operators, 8 images")
ax.invert_yaxis()
ax.margins(x=0.25)
plt.show()

# %% [markdown]
# **It is the same training.** The losses of all ways, step by step, against section 5:

# %%
for name, make in [("imperative", imperative), ("plan", by_plan), ("minitorch.graph", by_library)]:
    step = make()
    losses = [step(train_images[rows], one_hot[rows]) for rows in batches(2)]
    apart = np.abs(np.array(losses) - symbolic_losses[: len(losses)]).max()
    print(f"{name:16} largest difference of a loss from your session's: {apart:.1e}")

# %% [markdown]
# **And when the layers grow?** A model of the step: every operator costs a fixed overhead $a$, and the arithmetic grows with the width $n$,
#
# $$t(n) = \text{operators} \cdot a + c \cdot n .$$
#
# Both constants come from two measured widths; the line predicts the others.

# %%
widths = [8, 32, 128, 512, 1024]
wide = train_images[:256], one_hot[:256]
makers = {"imperative": imperative, "your Plan": by_plan, "minitorch.graph": by_library}
times = {name: [] for name in makers}
for width in widths:
    found = take_turns({name: make(width) for name, make in makers.items()}, *wide)
    for name in makers:
        times[name].append(found[name])
near, far = times["minitorch.graph"][0], times["minitorch.graph"][-1]
slope = (far - near) / (widths[-1] - widths[0])
line = [near + slope * (n - widths[0]) for n in widths]
for n, expected, seen in list(zip(widths, line, times["minitorch.graph"]))[1:-1]:
    compare(f"minitorch.graph, width {n}, ms", 1e3 * expected, 1e3 * seen)

# %% [markdown]
# On a GPU the arithmetic of such a layer takes next to no time. What would be left of the widest one is the overhead, and that is the time of the narrowest. So much for a prediction; without a GPU the CPU is asked, and shows how far from it one is.

# %%
makers_there = {"imperative": imperative, "minitorch.graph": by_library}
ways = {name: make(widths[-1], DEVICE) for name, make in makers_there.items()}
times_there = take_turns(ways, *wide)
print("timed on", DEVICE)
for name, seen in times_there.items():
    compare(f"{name}, width {widths[-1]}, ms", 1e3 * times[name][0], 1e3 * seen)

# %%
fig, ax = plt.subplots()
for (name, found), marker in zip(times.items(), "os^"):
    ax.loglog(widths, np.array(found) * 1e3, marker=marker, label=name)
ax.loglog(widths, np.array(line) * 1e3, color="C4", linewidth=1, label="overhead + slope x width")
for (name, seen), color in zip(times_there.items(), ("C0", "C2")):
    ax.plot(widths[-1], seen * 1e3, "*", color=color, markersize=12, label=f"{name}, {DEVICE}")
ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
ax.yaxis.set_major_formatter("{x:g}")
ax.yaxis.set_minor_formatter("")
ax.set_ylim(500 * min(line[0], *times_there.values()), 1300 * max(map(max, times.values())))
ax.set_xticks(widths, map(str, widths), minor=False)
ax.xaxis.set_minor_formatter("")
ax.set(xlabel="width of the hidden layer", ylabel="ms a step", title="256 images: overhead drowns")
ax.legend()
plt.show()

# %%
fetches, own = symbolic(widths[-1])
values = evaluate(fetches, {images: wide[0], labels: wide[1]}, own.state)
held = sum(np.asarray(value).nbytes for value in values.values())
largest = max(np.asarray(value).nbytes for value in values.values())
print(
    f"your Plan holds {held / 1e6:.0f} MB when a step ends; its largest array: {largest / 1e6:.0f} MB"
)

# %% [markdown]
# **Reflect.** At which width does it stop to matter how the model is run? Your plan's lead over the tensors melts away with the width: it forgets nothing until the step is over, and every array it holds is memory that the next operator cannot have while it is warm. Which nodes could be dropped when? (Lab 06 begins there.)
#
# GPUs make the arithmetic some fifty times faster and leave the overhead where it is: in which direction does that width move, and what follows for the question which way is "fast enough"?
#
# *What the real system does.* A TensorFlow session caches an executor for each signature of feeds and fetches ([`direct_session.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/direct_session.cc), `GetOrCreateExecutors`): your plan. The paper measures the overhead by a null step: 1.8 ms with one worker, 8.8 ms with a hundred (figure 6). And PyTorch came round from the other side: `torch.compile` runs your Python once, records a graph, and [guards it](https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/guards.py) with conditions under which the recording may be used again.

# %% [markdown]
# ## Discussion
#
# These answers are read by a person.

# %% [markdown] question="two_ways" points="6" manual="true" rubric="2: names what define-once-run-many gains, with numbers measured here (planning once, per-operator overhead; only what is fetched; gradients and optimizer in the graph, so that it can be rewritten, placed, saved without Python). 2: names what it costs, tied to sections 1, 4 and 6 (print and errors at another time than the code, if and while on values need operators of their own, order of reads and writes). 1: says for which width or hardware the difference vanishes or grows, from the measurement of section 7. 1: takes a position for a concrete project and says what would change it; a hybrid such as torch.compile is a fine position if its guards are discussed."
# **Define once, run many, or define by run?** Your group starts a project: a model whose structure changes every week, trained on one GPU by four people, and served afterwards to many users. Which of the two ways do you choose for research, and which for serving? Argue with your own measurements (sections 6 and 7), and say what would change your mind. Half a page.
# ### BEGIN SOLUTION
# For research by run: the model changes weekly, and most of the time goes into finding out what is wrong. In section 6 Python's print spoke once and before there was a value, and the symbolic error did not show the line to blame; with tensors both work as everybody expects, and `if` is just `if`. The price is overhead: on 8 images the imperative step took nearly twice as long as the plan, a few microseconds more an operator; at width 1024 nothing of it was left. For serving once: the graph is fixed, small batches with low latency are where overhead counts, only the logits are fetched, so gradients and loss do not run, and the graph can be saved and run without Python, rewritten and placed. I would change my mind about research if the operators became so fast (a big GPU, tiny layers) that Python's overhead is most of the step; then I would let torch.compile capture the step, and watch how often its guards fail. For serving I would reconsider if structure depends on the input, as in a tree-shaped model.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric="Overview in the learner's own words (1); problem and challenges: DistBelief's fixed layers and parameter server, wish for new optimizers, sparse models, many devices (1); methods: unified dataflow graph with mutable state, partial and concurrent execution, placement and partition by send and receive, control flow, user-level extensions such as differentiation and checkpoints (1); evaluation read critically, with a figure and its conditions, e.g. null steps or single-machine step times (1); trade-offs and one open question (1)."
# **Reading note.** Abadi et al. 2016, ["TensorFlow: A System for Large-Scale Machine Learning"](https://www.usenix.org/conference/osdi16/technical-sessions/presentation/abadi), OSDI. One page: overview; problem and challenges; methods and contributions; evaluation and discussion; trade-offs; open questions.
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
# *Overview.* One dataflow graph represents the computation and the state of a learning algorithm, and the operations that change the state; it is mapped onto the machines of a cluster and their devices.
# *Problem and challenges.* DistBelief had layers in C++ and a parameter server with fixed update rules: a new layer, a new optimizer or another training loop meant to change the system. The same model should run on a phone and on hundreds of GPUs.
# *Methods.* Vertices with mutable state (variables, queues); deferred execution, so that a whole step can be optimised; partial execution by feeds and fetches, several at once; placement under constraints, partition with Send and Recv, cached subgraphs; Switch and Merge with dead values, loops from timely dataflow; differentiation, optimizers, checkpoints and synchronous replication with backup workers written in user code on top.
# *Evaluation.* Single-machine steps as fast as Torch's, within the noise, since both call cuDNN; null steps of 1.8 to 8.8 ms for 1 to 100 workers show the overhead of dispatch; image classification scales to 200 workers with falling returns.
# *Trade-offs.* Expressive and portable, and the user pays with a second language inside Python and errors far from their cause; consistency is left to the user.
# *Open questions.* Automatic placement; fault tolerance stronger than checkpoints; a way to have dynamic structure without giving up deferred execution.
# ### END SOLUTION

# %%
q.status()
