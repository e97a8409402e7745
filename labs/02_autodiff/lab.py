# %% [markdown] builds="operators with gradients, topological order, the reverse sweep" needs="01" audience="gpu"
# # Lab 02: Autodiff
#
# - **You build** reverse-mode automatic differentiation: operators that know their own gradients, a topological order, the reverse sweep.
# - **You need** NumPy, the chain rule, and lab 01 or a gradient that you have derived by hand.
# - **It takes** about 90 minutes: introduction 1, sections 9, 17, 14, 19, 8 and 12, discussion 10. The reading note is for another day.
#
# Every layer is made of a dozen kinds of operation, each with a gradient of one line. Autodiff puts those lines together. At the end yours trains a network on handwritten digits.

# %% tags="setup"
import platform
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display

import minitorch as mt
from autograder import compare, lab
from lessons.device_note import device_note
from lessons.timing import milliseconds
from minitorch import Op
from minitorch.data import digits
from minitorch.show import show, step_through

q = lab("autodiff")

# %% tags="setup"
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())
DEVICE = "cuda" if mt.cuda.is_available() else "cpu"  # of section 4's measurement
print(device_note("found" if DEVICE == "cuda" else "", "section 4 times both passes there"))

# %% [markdown]
# The whole lab uses three rows, two features, two outputs.

# %%
x = mt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
w = mt.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
b = mt.tensor([0.5, -0.5], requires_grad=True)


# %%
def on_device(f):
    """Return f, waiting for its end: a GPU works on while Python goes ahead."""

    def run():
        f()
        if DEVICE == "cuda":
            mt.cuda.synchronize()

    return run


# %% [markdown]
# ## 1. A broadcast is a copy, and copies add up
#
# A layer adds the same bias to every row. Let the gradient of a sum pass through unchanged:

# %%
out_grad = mt.ones(3, 2)  # the gradient of the sum of all six outputs
stepped = b.detach() - 0.1 * out_grad
print("b before the step", b.detach().numpy().tolist())
print("b after the step ", stepped.numpy().tolist())

# %% [markdown]
# **Predict.** The loss is the sum of all six elements of `x @ w + b`. Increase `b[0]` a little. How many times that does the loss increase?

# %%
### BEGIN STARTER
# predicted_bias_gradient = ...
### END STARTER
### BEGIN SOLUTION
predicted_bias_gradient = 3
### END SOLUTION

# %% [markdown]
# **The idea.** Broadcasting acts as if `b` were copied for each row, and each copy receives its own gradient. A change of `b` changes all copies, so its gradient is the **sum over the copies**:
#
# $$\frac{\partial L}{\partial b_j} = \sum_i \frac{\partial L}{\partial y_{ij}}$$
#
# Shapes are matched from the right. An axis was copied if the input does not have it (then it vanishes from the gradient), or has it with size 1 (then it stays, with size 1).
#


# %% question="sum_to_shape" points="3" hint1="b has shape (2,), the gradient (3, 2). Which axis did the broadcast add, and on which side?" hint2="Two separate cases: axes in front that the input does not have; axes of size 1 that it has." hint3="g.sum(dim=0) removes an axis, g.sum(dim=i, keepdim=True) keeps it with size 1."
def sum_to_shape(grad, shape):
    """Return `grad` summed over every axis along which a value of `shape` was broadcast.

    Args:
        grad: a Tensor of the broadcast shape.
        shape: a tuple, the shape before the broadcast; the result has it.
    Use Tensor methods (`sum`, with `dim` and `keepdim`), so that the result can be
    differentiated again.
    """
    ### BEGIN SOLUTION
    while grad.ndim > len(shape):
        grad = grad.sum(dim=0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(dim=axis, keepdim=True)
    return grad
    ### END SOLUTION


# %% [markdown]
# **Try it** on the running example.

# %%
for shape in [(2,), (3, 1), (1, 2), (), (3, 2)]:
    print(f"{shape!s:8} {sum_to_shape(out_grad, shape).numpy().tolist()}")

# %% tags="check"
q.check("sum_to_shape")

# %% [markdown]
# **Measure**: change `b[0]`, and look at the loss.

# %%
moved = mt.tensor(b.detach().numpy() + np.float32([0.5, 0.0]))
slope = ((x @ w + moved).sum() - (x @ w + b).sum()).item() / 0.5
compare("gradient of b[0]", predicted_bias_gradient, slope)
print("your sum over the copies:", sum_to_shape(out_grad, (2,)).numpy()[0])

# %% [markdown]
# **Reflect.** With a batch of 3 the bias gradient is 3 times the gradient of one row. What do people do to the loss so that the learning rate need not depend on the batch?
#
# *What the real system does.* PyTorch calls this `sum_to_size` and runs it in C++ at the end of every broadcasting gradient ([`aten/src/ATen/ExpandUtils.h`](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/ExpandUtils.h), `sum_to`).

# %% [markdown]
# ## 2. An operator is a pair
#
# Here is a backward pass beside its forward pass, as in lab 01. Then somebody added `* b` to the forward pass only.


# %%
def forward_pass(w, b):
    return (np.exp(x.numpy() @ w + b) * b).sum()


def backward_pass(w, b):
    e = np.exp(x.numpy() @ w + b)
    return x.numpy().T @ e, e.sum(axis=0)


def by_differences(f, point, step=1e-6):
    """The gradient by central differences, as in Lab 01: two runs of f for each element."""
    moves = step * np.eye(point.size).reshape(-1, *point.shape)
    slopes = [(f(point + move) - f(point - move)) / (2 * step) for move in moves]
    return np.reshape(slopes, point.shape)


w_array, b_array = (v.detach().numpy().astype(np.float64) for v in (w, b))
dw, db = backward_pass(w_array, b_array)
print("dw, right should be 1:", dw / by_differences(lambda w: forward_pass(w, b_array), w_array))
print("db, right should be 1:", db / by_differences(lambda b: forward_pass(w_array, b), b_array))

# %% [markdown]
# No error message. Differences show the mistake, but need two runs **for every parameter**.
#
# **Predict.** A layer has 64 by 32 weights. How many times as long as one run does its gradient take by differences? A backward pass has two matrix products where the run has one. How many times as long do run and backward take together?

# %%
### BEGIN STARTER
# predicted_by_differences = ...
# predicted_by_operators = ...
### END STARTER
### BEGIN SOLUTION
predicted_by_differences = 2 * 64 * 32
predicted_by_operators = 3
### END SOLUTION

# %% [markdown]
# **The idea.** An **operator** is a pair:
#
# - `compute(xp, *arrays)`: the arithmetic. `xp` is the array library, NumPy here.
# - `gradient(out_grad, node)`: given the gradient of the result, the gradient of each input. `node` is the result; `node.inputs` are the values it was computed from.
#
# For $y = f(a)$ the chain rule says
#
# $$\bar a = \bar y \cdot f'(a), \qquad \text{where } \bar v \text{ is short for } \partial L / \partial v.$$
#
# $\bar v$ is called the **adjoint** of $v$. One rule: write `gradient` in operators of the library, not in NumPy. Then it can itself be differentiated.
#
# Addition: `gradient` returns one adjoint for each input, in a tuple.


# %%
class AddOp(Op):
    """a + b, with broadcasting."""

    def compute(self, xp, a, b):
        return a + b

    def gradient(self, out_grad, node):
        a, b = node.inputs
        return sum_to_shape(out_grad, a.shape), sum_to_shape(out_grad, b.shape)


# %% [markdown]
# **Write** three operators. In `compute`, `xp.exp(x)` and `a @ b` work on arrays. In `gradient`, `*`, `@`, `mt.exp(...)` and `a.T` work on tensors.


# %% question="ExpOp" points="2" hint1="What is the derivative of exp, and have you computed it already?" hint2="The derivative of exp(x) is exp(x). Use mt.exp on the input, then apply the chain rule."
class ExpOp(Op):
    """exp(x), elementwise. `gradient` returns one tensor, the adjoint of x."""

    def compute(self, xp, x):
        ### BEGIN SOLUTION
        return xp.exp(x)
        ### END SOLUTION

    def gradient(self, out_grad, node):
        ### BEGIN SOLUTION
        (x,) = node.inputs
        return out_grad * mt.exp(x)
        ### END SOLUTION


# %% question="MulOp" points="3" hint1="d(ab)/da is b: which input does the adjoint of the first one need?" hint2="The result is as large as the broadcast. Each adjoint must have the shape of its own input: which function of yours does that?"
class MulOp(Op):
    """a * b, elementwise, with broadcasting. `gradient` returns (adjoint of a, adjoint of b)."""

    def compute(self, xp, a, b):
        ### BEGIN SOLUTION
        return a * b
        ### END SOLUTION

    def gradient(self, out_grad, node):
        ### BEGIN SOLUTION
        a, b = node.inputs
        return sum_to_shape(out_grad * b, a.shape), sum_to_shape(out_grad * a, b.shape)
        ### END SOLUTION


# %% question="MatMulOp" points="3" hint1="Write the shapes down: a is (N, K), b is (K, M), out_grad is (N, M). The adjoint of a must be (N, K)." hint2="Of (N, M), (K, M) and (N, K), which two can you multiply, transposing one, to get (N, K)? And to get (K, M)?"
class MatMulOp(Op):
    """a @ b for matrices, (N, K) @ (K, M). `gradient` returns (adjoint of a, adjoint of b)."""

    def compute(self, xp, a, b):
        ### BEGIN SOLUTION
        return a @ b
        ### END SOLUTION

    def gradient(self, out_grad, node):
        ### BEGIN SOLUTION
        a, b = node.inputs
        return out_grad @ b.T, a.T @ out_grad
        ### END SOLUTION


# %% [markdown]
# **Try them** on the running example, $L = \sum \exp(x w + b)$. minitorch's own sweep calls your `gradient`s; differences give the right answer.

# %%
add, mul, matmul, exp = AddOp(), MulOp(), MatMulOp(), ExpOp()

loss = exp(add(matmul(x, w), b)).sum()
(w_grad,) = mt.grad(loss, [w])
print(w_grad.numpy(), "by your operators")
print(by_differences(lambda w: np.exp(x.numpy() @ w + b_array).sum(), w_array), "by differences")

# %% tags="check"
q.check("ExpOp")

# %% tags="check"
q.check("MulOp")

# %% tags="check"
q.check("MatMulOp")

# %% [markdown]
# **Measure** for layers of more and more weights. By differences, a sample of 8 weights is timed.


# %%
def cost(width, sample=8):
    """Return the time of a gradient by differences and by operators, in runs of the network."""
    rng = np.random.default_rng(width)
    inputs, weights = rng.normal(size=(512, 64)) / 8, rng.normal(size=(64, width)) / 8

    def run(w):
        return np.exp(inputs @ w).sum()

    def differences():
        for move in 1e-6 * np.eye(sample, weights.size).reshape(sample, *weights.shape):
            run(weights + move) - run(weights - move)

    def by_operators():
        w = mt.tensor(weights, requires_grad=True)
        mt.grad(exp(matmul(data, w)).sum(), [w])

    data = mt.tensor(inputs, requires_grad=True)  # so that both products are there
    ways = lambda: run(weights), differences, by_operators
    one_run, some, operators = milliseconds(*ways, repeats=51)
    return some / one_run * weights.size / sample, operators / one_run


# %%
widths = np.array([1, 4, 16, 32])
ratios = np.array([cost(width) for width in widths])
compare("by differences, 64 x 32, in runs", predicted_by_differences, ratios[-1, 0])
compare("by operators, 64 x 32, in runs", predicted_by_operators, ratios[-1, 1])
fig, ax = plt.subplots()
ax.loglog(64 * widths, ratios[:, 0], "o", label="by differences")
ax.loglog(64 * widths, ratios[:, 1], "s", label="by your operators")
ax.loglog(64 * widths, 2 * 64 * widths, "C4", lw=1, ls="--", label="2 runs a weight, and 3 in all")
ax.axhline(3, color="C4", lw=1, ls="--")
ax.set(xlabel="weights", ylabel="time, in runs of the network", title="What a gradient costs")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** For few weights your operators cost more than three runs. What do they do that NumPy alone does not, and why does it not matter on the right?
#
# *What the real system does.* PyTorch keeps its rules in one table, a line or two for each operator: [`tools/autograd/derivatives.yaml`](https://github.com/pytorch/pytorch/blob/main/tools/autograd/derivatives.yaml).

# %% [markdown]
# ## 3. In which order?
#
# The simplest program follows every **path** from the result back to the start. Here it runs on `y = x + x`, repeated.


# %%
def count_paths(node):
    """Visit a graph path by path, and return the number of visits."""
    return 1 + sum(count_paths(parent) for parent in node.inputs)


def doubled(times):
    """x + x, then the result added to itself, and so on: one node for each doubling."""
    y = mt.tensor(1.0, requires_grad=True)
    for _ in range(times):
        y = y + y
    return y


for times in [2, 4, 8, 12]:
    print(f"{times:2} additions: {count_paths(doubled(times)):6} visits")

# %% [markdown]
# **Predict.** How many visits for 20 additions, and how many are necessary?

# %%
### BEGIN STARTER
# predicted_visits = ...
# predicted_needed = ...
### END STARTER
### BEGIN SOLUTION
predicted_visits = 2**21 - 1
predicted_needed = 21
### END SOLUTION

# %% [markdown]
# **The idea.** A value's adjoint is complete only when **all** of its users have sent their share. So every user comes before the values it uses. That is, reversed, a **topological order**:
#
# > a list in which every value stands **after** all of its inputs.
#
# Depth-first search gives it: append a value after all of its inputs (postorder), and visit each value once. Python stops recursion at a depth of 1,000, and a recurrent network over a text is deeper: keep the stack yourself.
#
# *Source: Tarjan 1976, "Edge-disjoint spanning trees and depth-first search"; Cormen et al., *Introduction to Algorithms*, 4th edition, section 20.4.*


# %% question="topological_order" points="4" hint1="When may a value be appended? What has to be in the list before it?" hint2="Keep a stack of (value, its inputs are done?). Popping (v, False): push (v, True), then its inputs. Popping (v, True): append v." hint3="Tensors compare elementwise with ==. To know whether you have seen one, keep a set of id(value)."
def topological_order(output):
    """Return a list of all values that `output` depends on and itself, inputs before users.

    Each value occurs once. `value.inputs` is a tuple, empty for a leaf. No recursion: the
    graph may be 100,000 deep.
    """
    ### BEGIN SOLUTION
    order, seen = [], set()
    stack = [(output, False)]
    while stack:
        value, inputs_are_done = stack.pop()
        if inputs_are_done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((v, False) for v in value.inputs)
    return order
    ### END SOLUTION


# %% [markdown]
# **Try it** on the running example. Every name must stand below its inputs.

# %%
for value in topological_order(loss):
    print(f"{value.op.name if value.op else 'leaf':10} {tuple(value.shape)}")

# %% tags="check"
q.check("topological_order")

# %% [markdown]
# **Measure** both, up to 20 additions.

# %%
times_doubled = [2, 4, 8, 12, 16, 20]
by_path = [count_paths(doubled(times)) for times in times_doubled]
in_order = [len(topological_order(doubled(times))) for times in times_doubled]
compare("visits path by path, 20 additions", predicted_visits, by_path[-1])
compare("visits in topological order", predicted_needed, in_order[-1])
fig, ax = plt.subplots()
ax.semilogy(times_doubled, by_path, "o", label="path by path")
ax.semilogy(times_doubled, in_order, "s", label="in topological order")
fine = np.arange(1, 21)
ax.plot(fine, 2.0 ** (fine + 1) - 1, "C4", lw=1, ls="--", label=r"$2^{k+1} - 1$, and $k + 1$")
ax.plot(fine, fine + 1, "C4", lw=1, ls="--")
ax.set_xticks(times_doubled)
ax.set(xlabel="additions k", ylabel="visits", title="As many paths as that, and so few values")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** In a tree, where every value has one user, both visit equally often. Which part of every trained network makes its graph no tree?
#
# *What the real system does.* PyTorch does not sort: for each node it counts the users that have not sent their share yet ([`torch/csrc/autograd/engine.cpp`](https://github.com/pytorch/pytorch/blob/main/torch/csrc/autograd/engine.cpp)).

# %% [markdown]
# ## 4. The reverse sweep
#
# First a wrong sweep. It takes the values in the order in which it meets them, and passes an adjoint on **before** all users have sent their share.


# %%
def gradients_in_the_wrong_order(output, inputs):
    """Pass on what has arrived so far, breadth first. This is wrong."""
    adjoint = {id(output): mt.ones_like(output)}
    queue, visited = [output], set()
    while queue:
        node = queue.pop(0)
        if id(node) in visited or node.op is None:
            continue
        visited.add(id(node))
        partials = node.op.gradient(adjoint[id(node)], node)
        partials = partials if isinstance(partials, tuple | list) else (partials,)
        for value, partial in zip(node.inputs, partials):
            adjoint[id(value)] = adjoint[id(value)] + partial if id(value) in adjoint else partial
            queue.append(value)
    return [adjoint[id(value)] for value in inputs]


# %%
s = mt.tensor(3.0, requires_grad=True)
u = mul(s, s)  # used twice below: once directly, once through another product
y = add(u, mul(u, s))  # y = s**2 + s**3
(wrong,) = gradients_in_the_wrong_order(y, [s])
print("d(s**2 + s**3)/ds at 3 is 2*3 + 3*9 = 33, and this says", wrong.item())

# %% [markdown]
# **Predict.** `a @ b` is one matrix product. How many has its `gradient`? A network of three layers has three products forward. How many backward?

# %%
### BEGIN STARTER
# predicted_backward_products = ...
### END STARTER
### BEGIN SOLUTION
predicted_backward_products = 6
### END SOLUTION

# %% [markdown]
# **The idea.** One dictionary holds the adjoints. Each user of a value sends a **partial adjoint**; the adjoint is their sum:
#
# $$\bar v = \sum_{u \text{ uses } v} \overline{v \to u}, \qquad \overline{v \to u} = \text{the part of } u\text{'s gradient that belongs to } v.$$
#
# 1. The adjoint of the output is one.
# 2. Go through the topological order backwards: each adjoint is complete when you come to it.
# 3. Ask its operator for the partial adjoints of its inputs, and add each to what is there.
#
# One pass gives the gradients of **all** inputs: the cost does not depend on the number of parameters.
#
# *Source: Griewank & Walther, "Evaluating Derivatives", chapter 3; Baydin et al. 2018, JMLR 18.*


# %% question="gradients" points="5" hint1="If a value is used twice, two partial adjoints arrive. What has to happen to the first one when the second comes?" hint2="Go through reversed(topological_order(output)). Leaves (op is None) have nobody to pass their adjoint to." hint3="An operator with one input may return a tensor instead of a tuple or a list. Store the adjoints in a dict of your own, made anew at each call, keyed by id(value)."
def gradients(output, inputs):
    """Return the gradient of the sum of `output` by each of `inputs`, leaves or not, as a list.

    An operator's gradient comes from `value.op.gradient(adjoint, value)`: a tensor for one
    input, or a tuple or list of one for each input, None where an input has none. An input that
    `output` does not depend on has a gradient of zeros. Nothing is stored on the values, so a
    second call gives the same result. The results have `op` and `inputs` like other values.
    """
    ### BEGIN SOLUTION
    adjoint = {id(output): mt.ones_like(output)}
    for value in reversed(topological_order(output)):
        if value.op is None or id(value) not in adjoint:
            continue
        partials = value.op.gradient(adjoint[id(value)], value)
        if not isinstance(partials, tuple | list):
            partials = (partials,)
        for source, partial in zip(value.inputs, partials):
            if partial is None:
                continue
            if id(source) in adjoint:
                partial = adjoint[id(source)] + partial
            adjoint[id(source)] = partial
    return [adjoint.get(id(value), mt.zeros_like(value)) for value in inputs]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the graph of the wrong sweep and on the running example.

# %%
print("ds:", gradients(y, [s])[0].item(), "(33 expected)")
for name, grad in zip(["dw", "db"], gradients(loss, [w, b]), strict=True):
    print(f"{name}:", *grad.detach().numpy())

# %% [markdown]
# And lab 01's linear regression, as a graph of your operators. Follow the edges from the error back to `w`: how many ways are there?

# %%
times = mt.tensor([[1.0], [2.0], [4.0]])
minus_y = mt.tensor([[-1.0], [-2.0], [-2.0]])
w_line, b_line = (mt.tensor(v, requires_grad=True) for v in ([[0.0]], [0.0]))
error = add(add(matmul(times, w_line), b_line), minus_y)
squares = mul(error, error).sum()
print("by w, by b:", *(g.detach().numpy().ravel() for g in gradients(squares, [w_line, b_line])))
show(squares, names={"w": w_line, "b": b_line})

# %% tags="check"
q.check("gradients")

# %% [markdown]
# Step through the same graph, forward and then backward. At which step is the adjoint of `u` complete, and how many partial adjoints has it received?

# %%
step_through(y, names={"s": s, "u": u}, title="s² + s³, forward and backward")

# %% [markdown]
# **Measure.** `CountingMatMul` is your operator with a counter: one product for each adjoint.


# %%
class CountingMatMul(MatMulOp):
    """MatMulOp that counts its forward and backward products."""

    forward = backward = 0

    def compute(self, xp, a, b):
        CountingMatMul.forward += 1
        return super().compute(xp, a, b)

    def gradient(self, out_grad, node):
        partials = super().gradient(out_grad, node)
        CountingMatMul.backward += len(partials)
        return partials


# %%
def three_layers(size):
    """Return (a function that runs three layers, their weights), all on the device."""
    rng = np.random.default_rng(size)
    arrays = rng.normal(size=(4, size, size)).astype(np.float32) / size**0.5
    batch = mt.tensor(arrays[0], device=DEVICE)
    layers = [mt.tensor(a, requires_grad=True, device=DEVICE) for a in arrays[1:]]
    product = CountingMatMul()

    def forward():
        h = batch
        for layer in layers:
            h = product(h, layer)
        return h.sum()

    return forward, layers


# %%
forward, layers = three_layers(64)
top = forward()
CountingMatMul.backward = 0
gradients(top, layers)
compare("matrix products backward", predicted_backward_products, CountingMatMul.backward)

# %% [markdown]
# Then the time. If only products took time, the ratio would be theirs.


# %%
def backward_over_forward(size):
    """Return how many times as long backward takes; the two take turns."""
    forward, layers = three_layers(size)
    top = forward()
    back = on_device(lambda: gradients(top, layers))
    there_ms, back_ms = milliseconds(on_device(forward), back, repeats=9)
    return back_ms / there_ms


predicted_ratio = ... if predicted_backward_products is ... else predicted_backward_products / 3
sizes = [16, 64, 128, 256, 512] + ([1024, 2048, 4096] if DEVICE == "cuda" else [])
found = [backward_over_forward(size) for size in sizes]
print("timed on", DEVICE)
for size, ratio in list(zip(sizes, found))[-3:]:
    compare(f"{size} x {size}: time backward over forward", predicted_ratio, ratio)

# %%
fig, ax = plt.subplots()
ax.plot(sizes, found, "o", label=f"measured on {DEVICE}")
ax.axhline(2, color="C4", lw=1, ls="--", label="6 products over 3")
ax.set_xscale("log", base=2)
ax.set_xticks(sizes, map(str, sizes))
ax.set(xlabel="rows and columns of a layer", ylabel="time backward / forward", ylim=(0, None))
ax.set_title("Three layers: what the sweep costs beside its products")
ax.legend()
plt.show()

# %% [markdown]
# **A deep graph.** Chains of up to 100,000 additions, where recursion fails.

# %%
depths, chains = [1_000, 10_000, 100_000], []
start_value = mt.tensor(1.0, requires_grad=True)
for depth in depths:
    chain = start_value
    for _ in range(depth):
        chain = add(chain, start_value)
    chains.append(chain)
sweeps = [lambda chain=chain: gradients(chain, [start_value]) for chain in chains]
chain_s = np.array(milliseconds(*sweeps, repeats=1)) / 1e3
compare("d/ds of s + 100,000 s", 100_001, gradients(chain, [start_value])[0].item())
fig, ax = plt.subplots()
ax.loglog(depths, chain_s, "o", label="your sweep")
ax.loglog(depths, chain_s[0] * np.array(depths) / 1000, "C4", lw=1, ls="--", label="in proportion")
ax.set(xlabel="additions in a row", ylabel="seconds", title="Ten times as deep, ten times as long?")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** One of the six backward products computes the gradient of `batch`, which is not used. Where in your sweep could you know that, and what would the count be then?
#
# *What the real system does.* In PyTorch a node runs only if one of its inputs requires a gradient, and each rule is told which of its inputs do: `task_should_compute_output` in [`torch/csrc/autograd/function.h`](https://github.com/pytorch/pytorch/blob/main/torch/csrc/autograd/function.h).

# %% [markdown]
# ## 5. The gradient is a graph too
#
# Gradient descent does not know the curvature: with too long a step it leaves a narrow valley. Differences of differences lose most of the digits:


# %%
def f(t):
    return np.exp(t) * t


step = 1e-6
noisy = (f(1 + step) - 2 * f(1.0) + f(1 - step)) / step**2
print(f"second derivative of t exp(t) at 1: exactly {3 * np.e:.6f}, by differences {noisy:.6f}")

# %% [markdown]
# **Predict.** The step is ten times as small, 1e-7. How many digits are right?

# %%
### BEGIN STARTER
# predicted_digits = ...
### END STARTER
### BEGIN SOLUTION
predicted_digits = 2
### END SOLUTION

# %% [markdown]
# **The idea.** You wrote every `gradient` in operators, so the result of your sweep has `op` and `inputs` like any other value. Run the sweep **on the result of the sweep**.
#
# The second derivative of a function of $n$ numbers is a matrix, the Hessian $H$, with $n^2$ entries. Its product with a vector needs no matrix:
#
# $$H v = \nabla_x \left( \nabla_x f(x) \cdot v \right)$$
#
# (If $x$ and $v$ are matrices, the dot is the sum of all products of their elements.)
#
# *Source: Pearlmutter 1994, "Fast exact multiplication by the Hessian".*


# %% question="hessian_vector_product" points="3" hint1="Two sweeps. The first gives a tensor of the shape of x: how do you make a single number of it, with v?" hint2="The number is the sum of gradient * v. Its gradient with respect to x is the answer."
def hessian_vector_product(f, x, v):
    """Return H v, where H is the second derivative of `f` at `x`.

    Args:
        f: a function of one tensor, made of operators, giving a tensor of shape ().
        x: a leaf tensor that requires a gradient.
        v: a tensor of x's shape, whatever that is; a constant.
    Use your `gradients`.
    """
    ### BEGIN SOLUTION
    (slope,) = gradients(f(x), [x])
    (product,) = gradients((slope * v).sum(), [x])
    return product
    ### END SOLUTION


# %% [markdown]
# **Try it** where the answer is known: $f(t) = \sum_i t_i e^{t_i}$ has the second derivative $(t_i + 2) e^{t_i}$, one number for each element.

# %%
t = mt.tensor([0.0, 1.0, 2.0], requires_grad=True)
product = hessian_vector_product(lambda t: mul(t, exp(t)).sum(), t, mt.ones(3))
print(product.detach().numpy(), "expected", ((t.detach().numpy() + 2) * np.exp(t.detach().numpy())))

# %% tags="check"
q.check("hessian_vector_product")

# %% [markdown]
# **Measure** how many digits are right, by differences and by two sweeps. Then higher derivatives.

# %%
short = (f(1 + 1e-7) - 2 * f(1.0) + f(1 - 1e-7)) / 1e-14
digits_short = max(0.0, -np.log10(abs(short / (3 * np.e) - 1)))
compare("right digits with step 1e-7", predicted_digits, digits_short)

one = mt.tensor(np.ones(1), requires_grad=True)
value, sizes, digits_right = mul(one, exp(one)).sum(), [], []
for order in range(7):
    sizes.append(len(topological_order(value)))
    error = abs(value.item() / ((order + 1) * np.e) - 1)  # the k-th derivative is (t + k) exp(t)
    digits_right.append(-np.log10(max(error, 1e-16)))
    value = gradients(value, [one])[0].sum()

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4))
left.plot(range(7), sizes, "o-")
left.set(xlabel="derivative", ylabel="values in its graph", ylim=(0, None), title="What it costs")
right.plot(range(7), digits_right, "o-", label="by sweeps of sweeps")
differences = -np.log10(abs(noisy / (3 * np.e) - 1))
right.plot([2], [differences], "C1s", label="by differences, step 1e-6")
right.plot([2], [digits_short], "C2D", label="step 1e-7, measured")
if predicted_digits is not ...:
    right.plot([2], [predicted_digits], "C4_", markersize=18, label="step 1e-7, predicted")
right.set(xlabel="derivative", ylabel="right digits", ylim=(0, 17), title="What it gives")
right.legend(fontsize="small", loc="center left", bbox_to_anchor=(0.45, 0.45))
plt.show()

# %% [markdown]
# **Reflect.** By how many values does the graph grow with each derivative, and why not by a factor? What would happen to memory if *every* training step recorded the graph of its own backward pass? (In PyTorch the flag for this is `create_graph`.)
#
# *What the real system does.* PyTorch's rules are written in its own differentiable operators too. [`torch.autograd.functional.hvp`](https://github.com/pytorch/pytorch/blob/main/torch/autograd/functional.py) is your two sweeps.

# %% [markdown]
# ## 6. Train on it
#
# Everything below runs on your operators and your sweep: 1,797 images of handwritten digits, 8 by 8 pixels, a network 64-32-10.
#
# **Predict.** Both sweeps are written in Python. What is the time of a step with yours, divided by that with the library's?

# %%
### BEGIN STARTER
# predicted_slowdown = ...
### END STARTER
### BEGIN SOLUTION
predicted_slowdown = 1
### END SOLUTION

# %% [markdown]
# **The idea.** A step of gradient descent moves each parameter against its gradient. The new parameter must be a **leaf**. If it remembered the step that made it, the graph would grow with every step.


# %% question="sgd_step" points="2" hint1="In which direction does the loss fall: along the gradient, or against it?" hint2="`parameter - lr * grad` is a value with an `op`. Make a fresh leaf from its numbers: detach it, then ask for gradients again."
def sgd_step(parameters, grads, lr):
    """Return the parameters after one step of gradient descent, as a list of new leaves.

    Args:
        parameters: leaf tensors; not modified.
        grads: their gradients, in the same order; not modified.
        lr: the learning rate.
    Returns: tensors with requires_grad=True and no history (`op` is None).
    """
    ### BEGIN SOLUTION
    moved = [p.detach() - lr * g.detach() for p, g in zip(parameters, grads)]
    return [mt.tensor(p.numpy(), requires_grad=True) for p in moved]
    ### END SOLUTION


# %% [markdown]
# **Try it**: three steps on the running example.

# %%
parameters = [w, b]
for _ in range(4):
    loss = exp(add(matmul(x, parameters[0]), parameters[1])).sum()
    print(f"loss {loss.item():.3f}, w {parameters[0].detach().numpy().ravel()}")
    parameters = sgd_step(parameters, gradients(loss, parameters), lr=0.001)

# %% tags="check"
q.check("sgd_step")

# %% [markdown]
# **Measure** on the digits. The two sweeps take turns, epoch by epoch.

# %%
train_images, train_labels = (t.numpy() for t in digits(flat=True).tensors)
test_images, test_labels = (t.numpy() for t in digits(train=False, flat=True).tensors)
one_hot = np.eye(10, dtype=np.float32)[train_labels]


def network(parameters, x):
    """64-32-10: your operators, with the library's tanh between the layers."""
    w1, b1, w2, b2 = parameters
    return add(matmul(mt.tanh(add(matmul(x, w1), b1)), w2), b2)


def cross_entropy(logits, one_hot):
    """The mean of -log softmax at the label, from your operators and the library's log."""
    shifted = add(logits, -logits.detach().amax(dim=1, keepdim=True))
    log_total = mt.log(exp(shifted).sum(dim=1, keepdim=True))
    return mul(add(log_total, -shifted), one_hot).sum() / one_hot.shape[0]


# %%
def initial():
    """The same starting point each time."""
    rng = np.random.default_rng(2)
    shapes = [(64, 32), (32,), (32, 10), (10,)]
    arrays = [rng.normal(size=s) / 8 if len(s) == 2 else np.zeros(s) for s in shapes]
    return [mt.tensor(a.astype(np.float32), requires_grad=True) for a in arrays]


# %%
class Training:
    """A network in training with one sweep: its parameters, losses, and seconds of each step."""

    def __init__(self, sweep):
        self.sweep, self.parameters = sweep, initial()
        self.losses, self.times = [], []
        self.order = np.random.default_rng(3)

    def epoch(self, lr=0.5):
        for rows in np.array_split(self.order.permutation(len(train_labels)), 24):
            start = time.perf_counter()
            logits = network(self.parameters, mt.tensor(train_images[rows]))
            loss = cross_entropy(logits, mt.tensor(one_hot[rows]))
            self.parameters = sgd_step(self.parameters, self.sweep(loss, self.parameters), lr)
            self.times.append(time.perf_counter() - start)
            self.losses.append(loss.item())


# %%
fig, ax = plt.subplots()
ax.set(xlabel="step", ylabel="cross entropy, nats", title="Digits: one curve, two sweeps")
ax.set(xlim=(0, 360), ylim=(0.03, 3), yscale="log")
theirs, mine = Training(mt.grad), Training(gradients)
lines = {
    theirs: ax.plot([], [], "C0-", linewidth=5, alpha=0.35, label="minitorch's")[0],
    mine: ax.plot([], [], "C1-", linewidth=1.2, label="your sweep")[0],
}
ax.legend(loc="upper right")
plt.close(fig)  # shown below, where it grows while the training runs
handle = display(fig, display_id=True)
for _ in range(15):
    for training, line in lines.items():
        training.epoch()
        line.set_data(range(len(training.losses)), training.losses)
    handle.update(fig)

# %%
predictions = network(mine.parameters, mt.tensor(test_images)).detach().numpy().argmax(axis=1)
print(f"right on {np.mean(predictions == test_labels):.1%} of {len(test_labels)} images never seen")
difference = np.abs(np.subtract(mine.losses, theirs.losses)).max()
print(f"largest difference between the two curves: {difference:.2g}")
ratio = median(mine.times) / median(theirs.times)
compare("time of a step, yours over the library's", predicted_slowdown, ratio)

# %% [markdown]
# **How long may a step be?** In lab 01 the largest learning rate was $2 / \lambda_{\max}$. Here the Hessian of `w1` alone has four million entries. You need none of them: multiply a vector by $H$ again and again, with your `hessian_vector_product`, and it turns into the steepest direction.


# %%
def largest_curvature(parameters, which, turns=12):
    """Return the largest curvature of the loss along one of the parameters, the others fixed."""
    x, labels = mt.tensor(train_images), mt.tensor(one_hot)

    def loss_with(p):
        return cross_entropy(network([*parameters[:which], p, *parameters[which + 1 :]], x), labels)

    v = np.random.default_rng(4).normal(size=parameters[which].shape)
    for _ in range(turns):
        unit = mt.tensor((v / np.linalg.norm(v)).astype(np.float32))
        v = hessian_vector_product(loss_with, parameters[which], unit).detach().numpy()
    return np.linalg.norm(v)


# %%
for when, parameters in (("before training", initial()), ("after", mine.parameters)):
    w1, w2 = (2 / largest_curvature(parameters, which) for which in (0, 2))
    print(f"{when}: the largest lr is {w1:.2g} for w1 alone, {w2:.2g} for w2; you took 0.5")

# %% [markdown]
# **A new layer, for nothing.** In **attention** each row of $x$ becomes a mean of all rows. How much each counts is decided by a product: of what the one row looks for (its **query**) with what the other offers (its **key**); what it then hands over is its **value**. Several **heads** do this side by side, and their results are added. With your operators that is ten lines, and its gradient none: that is what composing saves. What it costs is calls: each operator is a kernel of its own.
#
# **Predict.** Each of two heads has three products for its queries, keys and values, two more, and one at its end. How many products run in a forward and a backward pass together?

# %%
### BEGIN STARTER
# predicted_products = ...
### END STARTER
### BEGIN SOLUTION
predicted_products = 3 * 2 * 6
### END SOLUTION


# %%
def attention(x, heads, product):
    """Return (N, D): each row is a mean of all rows' values, weighed by softmax(q . k)."""
    out = mt.zeros(*x.shape)
    for wq, wk, wv, wo in heads:
        q, k, v = product(x, wq), product(x, wk), product(x, wv)
        weights = exp(mul(product(q, k.T), mt.tensor(wq.shape[1] ** -0.5)))
        mean = mul(product(weights, v), 1 / weights.sum(dim=1, keepdim=True))
        out = add(out, product(mean, wo))
    return out


# %%
rng = np.random.default_rng(5)
shapes = [(8, 4), (8, 4), (8, 4), (4, 8)]
arrays = [[rng.normal(size=shape) / 3 for shape in shapes] for _ in range(2)]
heads = [[mt.tensor(a, requires_grad=True) for a in head] for head in arrays]
tokens, CountingMatMul.forward, CountingMatMul.backward = mt.tensor(rng.normal(size=(5, 8))), 0, 0
attended = attention(tokens, heads, CountingMatMul()).sum()
by_wq = gradients(attended, [heads[0][0]])[0].detach().numpy()


def with_wq(wq):
    moved = [[mt.tensor(wq), *heads[0][1:]], heads[1]]
    return attention(tokens, moved, matmul).sum().item()


print("by differences the same:", np.allclose(by_wq, by_differences(with_wq, arrays[0][0]), 1e-4))
compare("products", predicted_products, CountingMatMul.forward + CountingMatMul.backward)
print(f"{len([v for v in topological_order(attended) if v.op])} kernels forward; a fused one: 1")

# %% [markdown]
# **Reflect.** Your sweep also computes the gradient of the images, which nobody uses; the library's does not. Why does that hardly change the time of a step? For which network would it?
#
# *What the real system does.* [HIPS/autograd](https://github.com/HIPS/autograd/blob/master/autograd/core.py) did all this to NumPy itself: its backward pass is your sweep, in about as many lines.

# %% [markdown]
# ## Discussion

# %% [markdown] question="why_topological_order" points="3" manual="true" rubric1="1: Says that a value with several users must wait for all partial adjoints" rubric2="1: Gives or follows a concrete graph where the careless order is wrong, and by which amount" rubric3="1: Says for which graphs any order from the output works, and why: trees, one user each"
# Why is a topological order needed? Take $y = s^2 + s^3$ and the wrong sweep of section 4: which adjoint was passed on too early, what was missing from it, and by how much is the result wrong? For which graphs would this sweep be right?
# ### BEGIN SOLUTION
# The adjoint of $u = s^2$ is the sum of two partial adjoints: 1 from the sum directly, and $s = 3$ through the product $u s$. The wrong sweep reached $u$ first by the direct edge and passed on 1; the 3 arrived after $u$ had been visited. So the result lacks $3 \cdot 2s = 18$ of the 33. A value's adjoint is complete only when all of its users have delivered, and a reversed topological order guarantees just that. If every value has one user, the graph is a tree, nothing has to be waited for, and any order from the output is right.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="5" manual="true" rubric1="1: Overview in the learner's own words" rubric2="1: Problem and challenges: what differences lose (accuracy, a run for each input) and what symbolic differentiation loses (expression swell, control flow), and that automatic differentiation is neither" rubric3="1: Methods: a trace of elementary operations, forward mode carries tangents, reverse mode needs the trace and carries adjoints back; which is cheaper for n inputs and m outputs" rubric4="1: Evaluation and discussion read critically, as a survey: what is compared, what is not measured" rubric5="1: Trade-offs (memory of the trace) and one open question"
# **Reading note.** Baydin, Pearlmutter, Radul & Siskind 2018, ["Automatic Differentiation in Machine Learning: a Survey"](https://jmlr.org/papers/v18/17-468.html), JMLR 18. One page, in this form. In sections 2 and 3, which of its ways to differentiate have you used here, and which of its columns is your `gradients`?
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
# *Overview.* A survey that tells machine learning what automatic differentiation is, since the field had reinvented one case of it, backpropagation, and confused the general idea with two others.
# *Problem and challenges.* Differences need a run for each input and lose digits to truncation and rounding. Symbolic differentiation works on closed expressions, which swell, and cannot take a program with loops and branches. By hand it is slow and goes wrong.
# *Methods and contributions.* Any run of a program is a list of elementary operations with known derivatives. Forward mode computes a tangent beside each value, which can be seen as arithmetic on dual numbers: one run for each input. Reverse mode first runs and keeps the list, then carries adjoints from the output back: one sweep for each output, and so the one for a loss of a million weights. They combine: a product of the Hessian with a vector is forward over reverse, or two sweeps as in this lab. Ways to implement it: operator overloading, source transformation, elemental libraries; uses in optimisation, inference and vision.
# *Evaluation and discussion.* It sorts and explains more than it measures; the frameworks it lists have changed since.
# *Trade-offs.* Reverse mode pays in memory, which grows with the length of the run; checkpoints trade it for time. Overloading is easy and costs at run time; transforming source sees the whole program and is hard to write.
# *Open questions.* Nested derivatives without confusing one with the other; the derivative of a program is not always a good approximation of the derivative of what it approximates.
# ### END SOLUTION

# %%
q.status()
