# %% [markdown] builds="placeholders, variables, a session, symbolic gradients" needs="02" audience="gpu"
# # Lab 04: Dataflow graphs
#
# - **You build** a small TensorFlow 1: nodes that record, a run that computes only what is fetched, gradients that are nodes, a session with variables, an optimizer made of nodes, and a plan made once and run many times.
# - **You need** lab 02: operators with a `gradient`, topological order, the reverse sweep.
# - **It takes** about 110 minutes: introduction 1, sections 9, 23, 16, 12, 12, 8 and 19, discussion 10. The reading note is for another day.
#
# PyTorch computes each line when Python comes to it: **define by run**. TensorFlow 1 first built a graph of operators and then ran it many times: **define once, run many**. Both use the same operators. You build the second kind on the operators of the first, and measure what each is good for.

# %% tags="setup"
import platform
import time
import traceback
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lessons.graphs.graph_figures as figures
import lessons.graphs.graph_programs as programs
import minitorch as mt
import minitorch.graph as tf
from autograder import compare, lab
from lessons.figures import GrowingCurve, draw_curves
from lessons.graphs.digits_network import batches, cross_entropy, growing_parts, initial, network
from lessons.graphs.nodes import AssignOp, GroupOp, every_node, variables_of
from lessons.timing import in_turns, milliseconds
from minitorch.data import digits
from minitorch.op import Op, Spec
from minitorch.ops.methods import Methods
from minitorch.show import show

# %% tags="setup"
q = lab("dataflow_graphs")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
mt.set_num_threads(1)  # two would wait for each other where other programs run
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"
from lessons.device_note import device_note

print(device_note("found" if DEVICE == "cuda" else "", "section 7 times its programs there"))


# %% [markdown]
# The whole lab uses three rows, two features, two outputs.

# %%
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
W = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
B = np.array([0.5, -0.5], np.float32)


def model(x, w, b):
    """One layer. It says which operators, and not what x, w and b are."""
    return (mt.exp(x @ w + b) * 0.5).sum()


print("imperative:", model(mt.tensor(X), mt.tensor(W), mt.tensor(B)).item())

# %% [markdown]
# ## 1. Record, do not compute
#
# Imperative code computes each line at once, even if nobody uses the result:

# %%
rows = mt.tensor(np.ones((2_000, 500), np.float32))
start = time.perf_counter()
similarity = rows @ rows.T  # nobody uses it
print(f"{similarity.shape[0]} x {similarity.shape[1]}: {4 * similarity.numel() / 1e6:g} MB", end="")
print(f", {1e3 * (time.perf_counter() - start):.1f} ms")
print(f"with a million rows: {4 * 10**12 / 1e12:g} TB")

# %% [markdown]
# **The idea.** An operator on a **node** computes nothing. It makes another node, which remembers the operator and its inputs. The nodes of a program form a **dataflow graph**; an edge is a value that goes from one node to another. Sizes are known beforehand as far as possible (`None` is a size that only the run will tell). So a wrong shape is found while the graph is built, on the line that is wrong.
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
# minitorch's operators work on any kind of value. `mt.exp(v)` calls `v._apply(op, inputs)`. A tensor then computes and remembers; your nodes only remember. So one function is enough for all operators.
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
# **Predict.** `model` has five operators: `@`, `+`, `exp`, `*`, `sum`. Called with three nodes `x`, `w` and `b`, how many nodes will its graph have in all?

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
# **Try it**: the same `model` on nodes. The batch size is not known yet.

# %%
x = Placeholder((None, 2), "x")
w, b = Variable(W, "w"), Variable(B, "b")
loss = model(x, w, b)
print(loss)
show(loss)

# %% tags="check"
q.check("record")

# %% [markdown]
# **Measure.** Count the nodes. Then build the product that would take 4 TB, and a product that cannot work.

# %%
compare("nodes", predicted_nodes, len(every_node(loss)))

# %%
million = Placeholder((10**6, 1000), "million")
start = time.perf_counter()
print(million @ million.T, f"in {1e6 * (time.perf_counter() - start):.0f} µs")
try:
    million @ w
except ValueError as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# **Reflect.** `model` is the same for tensors and nodes. Which lines *would* behave differently on nodes? Think of `if`, of `print`, of `float(...)`.
#
# *What the real system does.* In TensorFlow every operator registers a shape function, and [`shape_refiner.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/shape_refiner.cc) calls it while the graph is built.

# %% [markdown]
# ## 2. Run what is fetched
#
# A graph says what *could* be computed. If a run computes all of it, it needs the four terabytes again:

# %%
y = x @ w + b
graph = [y, mt.exp(y), million @ million.T]
everything = sum(4 * int(np.prod([n or 3 for n in v.shape])) for v in graph)
print(f"to compute everything: {everything:,} bytes")
print(f"to fetch y           : {4 * 3 * 2} bytes")

# %% [markdown]
# **The idea.** A run names its **fetches**, the nodes whose values it wants, and its **feeds**, nodes whose values it gives. Walk backwards from the fetches, and stop at every fed node, whatever kind it is: nothing behind it is needed. The nodes that you meet run, in topological order, and no others:
#
# $$\text{needed}(F, D) = \{\, v : \text{a path leads from } v \text{ to a fetch in } F \text{ without passing a fed node in } D \,\}$$
#
# So one can feed a node in the middle and test half of a model: **partial execution** (section 3.2 of the paper).
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
        state: {variable: array}. Neither of the two dicts is changed.
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
# **Try it** on the running example, with another batch size, and with no feed.

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
# **Measure.** Feed a node in the middle, and count the operators that run.

# %%
before_exp = loss.inputs[0].inputs[0].inputs[0]
print("fed in the middle:", before_exp)
values = evaluate([loss], {before_exp: np.zeros((3, 2), np.float32)}, state)
ran = [node.name for node in values if node.op is not None and node is not before_exp]
print("ran:", ran, "giving", values[loss])
compare("operators run", predicted_runs, len(ran))

# %% [markdown]
# **Reflect.** What would the programmer of imperative code have to write to feed a node in the middle?
#
# *What the real system does.* The same walk: [`subgraph.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/graph/subgraph.cc) replaces fed nodes by `_Arg`, puts a `_Retval` behind each fetch, and removes everything that does not lead there.

# %% [markdown]
# ## 3. Gradients are more nodes
#
# In lab 02 the sweep ran when you called it, on numbers.
#
# **The idea.** Run the reverse sweep while *building*. The rules are written in operators, and operators on nodes make nodes. So the same `gradient` that computed numbers in lab 02 now records how to compute them:
#
# $$\bar v = \sum_{u \text{ uses } v} \overline{v \to u} \qquad \text{is a node: an addition of nodes.}$$
#
# Nothing runs, and what is never fetched never will. The result is an ordinary part of the graph: it can be fed, fetched, optimised, and differentiated again.
#
# **Predict.** Three layers, `tanh(tanh(tanh(x @ w1) @ w2) @ w3)`, summed. Your sweep makes a graph of 3 + 6 matrix products, two for each of the forward ones. How many of these **run** when the gradients of all three weights are fetched? And when only that of `w3`, the last, is fetched?

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
# **Try it** on the running example, and compare with minitorch's own sweep over tensors.

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
# **Reflect.** PyTorch throws its graph away after each backward pass; this one stays, gradients included. Name one thing that this makes possible, and one that it makes harder.
#
# *What the real system does.* [`gradients_util.py`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/ops/gradients_util.py) is this sweep, in Python. The C++ runtime knows nothing about differentiation (section 4.1 of the paper).

# %% [markdown]
# ## 4. State
#
# A graph has no memory, but training needs it. So there is an operator that writes: when `assign(variable, value)` runs, `value` becomes the variable's new value. But what do the other nodes of that run read? Here two assignments should exchange two variables, and each write happens at once:


# %%
def assign(variable, value):
    """Return a node that gives `variable` this value when it is run, and is the value."""
    return record(AssignOp(variable), [value])


def group(*nodes):
    """Return a node that runs all of these."""
    return record(GroupOp(), nodes)


# %%
one, two = Variable(1.0, "one"), Variable(2.0, "two")
exchange = [assign(one, two), assign(two, one)]
careless = {one: 1.0, two: 2.0}
for node in exchange:  # each write is seen by the next read
    careless[node.op.variable] = careless[node.inputs[0]]
print("written at once: one =", careless[one], "two =", careless[two])

# %% [markdown]
# **The idea.** A **session** owns the variables' values. One `run` has two phases. First everything is computed from the state as it was **before** the run. Then all assignments that ran take effect together.
#
# $$s_{t+1} = s_t \text{ with } v := \text{value of its assign node, computed from } s_t$$
#
# So a run is a function from state to state, and the order of its nodes makes no difference: a scheduler may run several at once. A node that was not fetched writes nothing.
#
# **Predict.** What are `one` and `two` after `session.run(exchange)` with these two phases? Before it they are 1 and 2.

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
    found = variables_of(nodes, Variable)
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
# **Try it**: a counter, in two sessions. Each session has its own state.

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
# **Measure.** Gradient descent on two factors, `(u * v - 6) ** 2`. Each step needs *both* old values. The other way writes `u` at once, so that `v`'s gradient sees the new value.

# %%
u, v = Variable(1.0, "u"), Variable(1.0, "v")
error = (u * v - 6) ** 2
steps = [assign(p, p - 0.02 * g) for p, g in zip([u, v], gradients(error, [u, v]))]
session = Session()
session.run(initialize(*steps))
careless = {u: np.float32(1), v: np.float32(1)}
apart = {"written at once": [], "all reads, then all writes": []}
for _ in range(40):
    apart["written at once"].append(careless[u] - careless[v])
    apart["all reads, then all writes"].append(session.run(u - v))
    session.run(steps)
    for node in steps:
        careless[node.op.variable] = evaluate([node], {}, careless)[node]

# %%
paths = {name: (range(40), path, c) for (name, path), c in zip(apart.items(), ("C1--", "C0-"))}
draw_curves(paths, x="step", y="u - v", title="u and v start equal, and stay equal in only one")

# %% [markdown]
# **Reflect.** The function is symmetric in `u` and `v`, and both started at 1. Which of the two curves is not gradient descent?
#
# *What the real system does.* TensorFlow 1 promises no order between a read and a write of one run, unless you ask for it with `control_dependencies`.

# %% [markdown]
# ## 5. An optimizer is nodes
#
# A training loop written by hand copies the weights out of the session, changes them in Python, and feeds them back.
#
# **The idea.** A step of gradient descent is arithmetic on nodes, with an assignment at the end. In the graph, Python only calls `run`. **Momentum** needs one more variable for each weight, a **slot**:
#
# $$v_{t+1} = \mu v_t + g_t, \qquad w_{t+1} = w_t - \eta\, v_{t+1}$$
#
# The last $v$ is the *new* velocity: in a graph, the node which computes it. The variable has the old value until the run is over.
#
# *Source: Polyak 1964.*
#
# **Predict.** The learning rate is 0.1, the momentum 0.9, and the gradient is always 1. By how much has `w` fallen after two steps?

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
# **Try and measure** with a weight whose gradient is always 1.

# %%
height = Variable(5.0, "height")
train = minimize(height * 1.0, [height], lr=0.1)
session = Session()
session.run(initialize(train))
session.run(train)
session.run(train)
compare("fall after two steps", predicted_fall, 5.0 - session.run(height))

# %% [markdown]
# **Train on it.** Handwritten digits, 8 by 8 pixels, and a network 64-32-10, `network` and `cross_entropy`.

# %%
train_images, train_labels = (t.numpy() for t in digits(flat=True).tensors)
test_images, test_labels = (t.numpy() for t in digits(train=False, flat=True).tensors)
one_hot = np.eye(10, dtype=np.float32)[train_labels]

images, labels = Placeholder((None, 64), "images"), Placeholder((None, 10), "labels")
weights = [Variable(a, name) for a, name in zip(initial(), ["w1", "b1", "w2", "b2"])]
logits = network(images, *weights)
loss = cross_entropy(logits, labels)
train = minimize(loss, weights, lr=0.1)
session = Session()
session.run(initialize(train))

# %%
title = "Digits, trained by a graph of your own"
curve = GrowingCurve(240, xlabel="step", ylabel="cross entropy, nats", title=title)
symbolic_losses = []
for rows in batches(len(train_labels), 10):
    feeds = {images: train_images[rows], labels: one_hot[rows]}
    symbolic_losses.append(float(session.run([loss, train], feeds)[0]))
    if len(symbolic_losses) % 24 == 0:
        curve.show(symbolic_losses)

# %%
guesses = session.run(logits, {images: test_images}).argmax(axis=1)
print(f"right on {np.mean(guesses == test_labels):.1%} of {len(test_labels)} images never seen")
print("nodes of the loss:", len(every_node(loss)), "of the step:", len(every_node(train)))

# %% [markdown]
# **Practice.** Take a pencil: draw the graph of $\mathrm{MSE}(w_2\,\mathrm{relu}(w_1 x),\, y)$, then its gradient, then the update of both weights, $w - 0.1\, g$, without momentum.
#
# **Predict.** How many nodes has your drawing of the loss?

# %%
### BEGIN STARTER
# predicted_drawn = ...
### END STARTER
### BEGIN SOLUTION
predicted_drawn = 10  # x, y, w1, w2, two products, relu, a difference, its square, the mean
### END SOLUTION

# %%
x1, y1 = Placeholder((3, 1), "x"), Placeholder((2, 1), "y")
w1, w2 = Variable(np.full((4, 3), 0.1), "w1"), Variable(np.full((2, 4), 0.1), "w2")
difference = w2 @ mt.relu(w1 @ x1) - y1
drawn = (difference * difference).mean()
update = group(*(assign(w, w - 0.1 * g) for w, g in zip((w1, w2), gradients(drawn, [w1, w2]))))
compare("nodes of the loss", predicted_drawn, len(every_node(drawn)))
print("nodes with gradient and update:", len(every_node(update)))
show(update)

# %% [markdown]
# **Not every training is forward, backward, update.** What does the graph need for these?
#
# - A **recurrent** net uses one weight in every step: nothing new, the sweep adds its adjoints up.
# - Two **adversaries** in turns, one making samples, the other telling them from real ones: two losses in one graph, and for each a list of variables that *its* step may write.
# - **Reinforcement**: another system, a game say, computes the loss. It is fed, between two runs.

# %%
state, u = Placeholder((1, 3), "h"), Variable(np.eye(3) * 0.9, "u")
for _ in range(4):
    state = mt.tanh(state @ u)
(by_u,) = gradients(state.sum(), [u])
print(
    "recurrent: products run for one gradient:", sum(n.name == "matmul" for n in every_node(by_u))
)

# %%
real, noise = Placeholder((None,), "real"), Placeholder((None,), "noise")
shift, judge = Variable(0.0, "shift"), Variable(0.0, "judge")  # one number each
apart = real.mean() - (noise + shift).mean()
tell_apart = minimize(0.5 * judge * judge - judge * apart, [judge], lr=0.2, momentum=0)
deceive = minimize(judge * apart, [shift], lr=0.1, momentum=0)
rng, session = np.random.default_rng(0), Session()
session.run(initialize(tell_apart, deceive))
for turn in range(400):
    samples = {real: rng.normal(3, 1, size=64), noise: rng.normal(size=64)}
    session.run(deceive if turn % 2 else tell_apart, samples)
print(f"adversaries: the real mean is 3, samples were shifted by {session.run(shift):.2f}")

# %%
liking, chosen, reward = Variable([0, 0], "liking"), Placeholder((2,), "c"), Placeholder((), "r")
share = mt.exp(liking) / mt.exp(liking).sum()
learn = minimize(-reward * (mt.log(share) * chosen).sum(), [liking], lr=0.1, momentum=0)
session.run(initialize(learn))
for _ in range(200):
    arm = int(rng.random() < session.run(share)[1])
    paid = rng.random() < (0.3, 0.8)[arm]  # the other system
    session.run(learn, {chosen: np.eye(2)[arm], reward: paid})
print(f"reinforcement: the better arm is pulled in {session.run(share)[1]:.0%} of all turns")

# %% [markdown]
# **Reflect.** The accuracy was computed by fetching `logits` without feeding `labels`. Which feature of section 2 made that possible? And what has to be in a checkpoint of this training besides `w1` to `b2`?
#
# *What the real system does.* TensorFlow's optimizers build the same nodes. The two assignments are one kernel, `ApplyMomentum` ([`training_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/training_ops.cc)).

# %% [markdown]
# ## 6. Finding a mistake
#
# A number in the middle of a model is wrong. Most people print it:


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
# **The idea.** Python's `print` runs while the graph is built. To see a value, the printing has to be **in the graph**: an operator whose result is its input, and which prints when it runs. Its gradient passes the adjoint on unchanged, so it can stand anywhere in a model that is trained.
#
# **Predict.** The model is built once and run five times. How many lines does Python's `print` write in all, and how many the operator? And how many if nothing that is fetched uses the operator's result?

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
lines = {"Python": 0, "operator": 0}


class Counted(PrintOp):
    """Your operator, with its printing counted."""

    def compute(self, xp, x):
        lines["operator"] += 1
        return super().compute(xp, x[:1])


# %%
def printing(x, w, b, on_the_way):
    """The running example, looked at by Python and by an operator."""
    y = x @ w + b
    lines["Python"] += 1  # here stood the print
    look = Counted("y begins with")(y)
    return (mt.exp(look if on_the_way else y) * 0.5).sum()


for on_the_way, predicted in [(True, predicted_operator), (False, predicted_aside)]:
    lines.update(Python=0, operator=0)
    looked_at = printing(x, w, b, on_the_way)
    for _ in range(5):
        session.run(looked_at, {x: X})
    where = "its result used" if on_the_way else "its result not used"
    compare(f"lines by the operator, {where}", predicted, lines["operator"])
compare("lines by Python", predicted_python, lines["Python"])

# %% [markdown]
# **And an error.** The batch size is not known while the graph is built, so only the run finds a wrong one. Does the traceback show the line of the model with the mistake?


# %%
def two_inputs(x, z):
    """A model that needs as many rows in z as in x."""
    return (x + z).sum()  # BLAME


def blames_the_line(run):
    """Return whether the traceback of an error shows the line with the mistake."""
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
# *What the real system does.* Every TensorFlow operator keeps the Python stack that made it, and prints it with the error. `tf.Print` was your operator ([`logging_ops.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/logging_ops.cc)). `minitorch.graph` keeps file and line (IPython gives each cell a file of its own):

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
# In every run your session works out what is needed and in which order, though the answer is always the same.

# %%
session = Session()
session.run(initialize(train))
feeds = {images: train_images[:8], labels: one_hot[:8]}
whole, thinking = milliseconds(
    lambda: session.run([loss, train], feeds), lambda: needed([loss, train], feeds), repeats=40
)
print(f"of a small training step, {thinking / whole:.0%} is spent finding out what to do")

# %% [markdown]
# **The idea.** Make a **plan**, once for each set of fetches and feeds. Give every needed node a number, its **slot** in a list. Note for each operator where its inputs are and where its result goes. A run then does not look at the graph: it fills the slots of feeds and variables, and goes through a list of instructions.
#
# The order, the slots and the constants belong to the graph. The feeds and the variables do not: a plan that remembered a variable's value would always train from the same weights.
#
# **Predict.** Take the step of the digits' network on 8 images, some 80 operators. How many times as fast as `Session.run` will the plan be?

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
# **Try it** on the running example: constants are in their slots, everything else is instructions.

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
# **Measure.** One model, five ways to run it: a graph built for every batch, your session, your plan, minitorch's tensors, and `minitorch.graph`, which also makes a plan and turns it into Python source.


# %%
def imperative(width=32, device="cpu"):
    """Return a function that takes one step of the same training with tensors."""
    leaves = [mt.tensor(a, requires_grad=True, device=device) for a in initial(width)]
    optimizer = mt.optim.SGD(leaves, lr=0.1, momentum=0.9)

    def step(x, t):
        x, t = mt.tensor(x, device=device), mt.tensor(t, device=device)
        out = cross_entropy(network(x, *leaves), t)
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


# %%
small = train_images[:8], one_hot[:8]
ways = {
    "graph built at each step": lambda x, t: by_session()(x, t),
    "your Session": by_session(),
    "imperative (tensors)": imperative(),
    "your Plan": by_plan(),
    "minitorch.graph": by_library(),
}
taken = in_turns(ways, *small)
compare("Session over Plan", predicted_speedup, taken["your Session"] / taken["your Plan"])
operators = len(Plan(symbolic()[0], [images, labels]).steps)
figures.plot_overhead(taken, operators, "your Plan", "your Session", predicted_speedup)

# %% [markdown]
# **As printed.** Two programs of this kind as papers and lectures print them; only imports and data are ours (digits, filled up to 784 pixels):

# %%
print(programs.TWO_PHASES.partition("# 3.")[0], programs.DECLARED)
pixels = np.pad(train_images, ((0, 0), (0, 784 - 64)))
picked = ((pixels[rows], one_hot[rows]) for rows in batches(len(train_labels), 9))
losses = programs.run_two_phases(picked, steps=201)
print(f"loss {losses[0]:.1f}, after 200 steps {losses[-1]:.2f};  d = {programs.run_declared()}")

# %% [markdown]
# **What a launch costs.** Take 200 tiny operators: 200 calls, a plan of 200, or one compiled call that does the arithmetic of all. (On a GPU also 200 kernels that are captured once and launched together, a *CUDA graph*.)

# %%
for size in (100, 10_000, 1_000_000):
    found = in_turns(programs.ways_to_launch(size, DEVICE), repeats=31)
    per_us = {name: f"{1e6 * seconds / 200:.2f}" for name, seconds in found.items()}
    print(f"{size:9,} elements, µs an operator:", per_us)

# %% [markdown]
# **It is the same training.** The losses of three ways, step by step, compared with section 5:

# %%
for name, make in [("imperative", imperative), ("plan", by_plan), ("minitorch.graph", by_library)]:
    step = make()
    losses = [step(train_images[rows], one_hot[rows]) for rows in batches(len(train_labels), 2)]
    apart = np.abs(np.array(losses) - symbolic_losses[: len(losses)]).max()
    print(f"{name:16} largest difference of a loss from your session's: {apart:.1e}")

# %% [markdown]
# **Larger layers.** A model of the step's time: every operator costs a fixed overhead $a$, and the arithmetic grows with the width $n$,
#
# $$t(n) = \text{operators} \cdot a + c \cdot n .$$
#
# Two measured widths give both constants; the line predicts the other widths.

# %%
widths = [8, 32, 128, 512, 1024]
wide = train_images[:256], one_hot[:256]
makers = {"imperative": imperative, "your Plan": by_plan, "minitorch.graph": by_library}
times = {name: [] for name in makers}
for width in widths:
    found = in_turns({name: make(width) for name, make in makers.items()}, *wide)
    for name in makers:
        times[name].append(found[name])
near, far = times["minitorch.graph"][0], times["minitorch.graph"][-1]
slope = (far - near) / (widths[-1] - widths[0])
line = [near + slope * (n - widths[0]) for n in widths]
for n, expected, seen in list(zip(widths, line, times["minitorch.graph"]))[1:-1]:
    compare(f"minitorch.graph, width {n}, ms", 1e3 * expected, 1e3 * seen)

# %% [markdown]
# **From its parts.** The line has seen the widest network. Predict it unseen: the step at width 8, and what the parts that grow with the width take more at 1024, timed with no graph around them. These are five products and four walks over $256 n$ numbers. On a GPU they take as long at both widths. (Without one: the CPU.)

# %%
makers_there = {"imperative": imperative, "minitorch.graph": by_library, "parts": growing_parts}
ends = {f"{name} {n}": make(n, DEVICE) for n in (8, 1024) for name, make in makers_there.items()}
found = in_turns(ends, *wide)
more = found["parts 1024"] - found["parts 8"]
times_there = {name: found[f"{name} 1024"] for name in ("imperative", "minitorch.graph")}
for name, seen in times_there.items():
    compare(f"{name} on {DEVICE}, width 1024, ms", 1e3 * (found[f"{name} 8"] + more), 1e3 * seen)

# %%
figures.plot_widths(widths, times, line, times_there, DEVICE)

# %%
fetches, own = symbolic(widths[-1])
values = evaluate(fetches, {images: wide[0], labels: wide[1]}, own.state)
held, largest = (f([np.asarray(v).nbytes for v in values.values()]) / 1e6 for f in (sum, max))
print(f"your Plan holds {held:.0f} MB when a step ends; its largest array: {largest:.0f} MB")

# %% [markdown]
# **Reflect.** From which width on does it not matter how the model is run? With a larger width your plan's lead over the tensors gets smaller: it keeps every array until the step is over, so the next operator cannot use that memory while it is in the cache. Which nodes could be dropped when? (Lab 06 begins there.)
#
# *What the real system does.* A TensorFlow session keeps an executor for each set of feeds and fetches ([`direct_session.cc`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/direct_session.cc), `GetOrCreateExecutors`): your plan. `torch.compile` runs your Python once, records a graph, and [checks in each run](https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/guards.py) whether it may be used again.

# %% [markdown]
# ## Discussion

# %% [markdown] question="two_ways" points="6" manual="true" rubric1="2: Names what define-once-run-many gains, with numbers measured here (planning once, per-operator overhead; only what is fetched; gradients and optimizer in the graph, so that it can be rewritten, placed, saved without Python)" rubric2="2: Names what it costs, tied to sections 1, 4 and 6 (print and errors at another time than the code, if and while on values need operators of their own, order of reads and writes)" rubric3="1: Says for which width or hardware the difference vanishes or grows, from the measurement of section 7" rubric4="1: Takes a position for a concrete project and says what would change it; a hybrid such as torch.compile is a fine position if its guards are discussed"
# **Define once, run many, or define by run?** Four people train a model whose structure changes every week on one GPU, and later serve it to many users. Which way do you choose for research, and which for serving? Argue with your measurements (sections 6 and 7), and say what would change your mind. Half a page.
# ### BEGIN SOLUTION
# For research by run: the model changes weekly, and most of the time goes into finding out what is wrong. In section 6 Python's print spoke once and before there was a value, and the symbolic error did not show the line to blame; with tensors both work as everybody expects, and `if` is just `if`. The price is overhead: on 8 images the imperative step took nearly twice as long as the plan, a few microseconds more an operator; at width 1024 nothing of it was left. For serving once: the graph is fixed, small batches with low latency are where overhead counts, only the logits are fetched, so gradients and loss do not run, and the graph can be saved and run without Python, rewritten and placed. I would change my mind about research if the operators became so fast (a big GPU, tiny layers) that Python's overhead is most of the step; then I would let torch.compile capture the step, and watch how often its guards fail. For serving I would reconsider if structure depends on the input, as in a tree-shaped model.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric1="1: Overview in the learner's own words" rubric2="1: Problem and challenges: DistBelief's fixed layers and parameter server, wish for new optimizers, sparse models, many devices" rubric3="1: Methods: unified dataflow graph with mutable state, partial and concurrent execution, placement and partition by send and receive, control flow, user-level extensions such as differentiation and checkpoints" rubric4="1: Evaluation read critically, with a figure and its conditions, e.g. null steps or single-machine step times" rubric5="1: Trade-offs and one open question"
# **Reading note.** Abadi et al. 2016, ["TensorFlow: A System for Large-Scale Machine Learning"](https://www.usenix.org/conference/osdi16/technical-sessions/presentation/abadi), OSDI. One page, in this form.
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
# *Evaluation.* Single-machine steps within 6 % of Torch's, since both call cuDNN; null steps of 1.8 to 8.8 ms for 1 to 100 workers show the overhead of dispatch; image classification scales to 200 workers with falling returns.
# *Trade-offs.* Expressive and portable, and the user pays with a second language inside Python and errors far from their cause; consistency is left to the user.
# *Open questions.* Automatic placement; fault tolerance stronger than checkpoints; a way to have dynamic structure without giving up deferred execution.
# ### END SOLUTION

# %%
q.status()
