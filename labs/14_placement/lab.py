# %% [markdown] builds="what crosses, when a placed graph is done, the best placement, the best pipeline; links decide" needs="04, 13"
# # Lab 14: Placement
#
# - **You build** a planner: what crosses between devices, when a placed graph is done, the best placement of a small graph, and the best pipeline of a long one.
# - **You need** dataflow graphs (lab 04), what a ring costs (lab 09), pipelines and shared products (lab 13).
# - **It takes** about 85 minutes: introduction 1, sections 10, 23, 7, 13, 15 and 6, discussion 10. The reading note, with its paper, is for another day.
#
# Data parallelism, pipelines, shared products: which one is best? It depends on the model and on the links. For a large cluster there are too many plans to compare. So let the machine choose. It needs two things: a **cost model** that is right enough, and a **search** that need not look at everything.
#
# Write each prediction down before you measure.

# %% tags="setup"
import platform
from importlib.metadata import version
from itertools import product
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch

import minitorch.graph as tf
from autograder import compare, lab
from ddp_lab import Link, launch, simulate
from ddp_lab.parallel import Pipeline, parallelize
from ddp_lab.simulate import LayerCost, cluster
from lessons.ranks.placed_jobs import run_in_order
from minitorch.graph.core.order import schedule
from minitorch.graph.costs.prediction import node_s

# %% tags="setup"
q = lab("placement")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())


# %% [markdown]
# ## 1. What crosses
#
# A graph is a dict: each node's seconds, the bytes of its value, and the nodes that it reads. Inputs stand before those that read them. This one has two towers that meet in the end:

# %%
TOWERS = {
    "x": (0.0, 1_000_000, ()),
    "left1": (0.004, 2_000_000, ("x",)),
    "left2": (0.004, 200_000, ("left1",)),
    "right1": (0.004, 2_000_000, ("x",)),
    "right2": (0.004, 200_000, ("right1", "x")),
    "sum": (0.001, 100_000, ("left2", "right2")),
}
ONE = dict.fromkeys(TOWERS, 0)
APART = ONE | {"right1": 1, "right2": 1}
MIXED = ONE | {"left2": 1, "right1": 1}

# %% [markdown]
# A **placement** says on which device each node runs. Where a node reads a value of another device, the value is sent. It is sent **once** to each device that needs it, however many nodes there read it.
#
# **Predict.** How many bytes cross in `APART`, and how many in `MIXED`?

# %%
### BEGIN STARTER
# predicted_apart, predicted_mixed = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_apart, predicted_mixed = 1_200_000, 5_200_000
### END SOLUTION


# %% question="cut_bytes" points="4" hint1="Go over all nodes and what each reads. When does a value have to be sent?" hint2="Collect pairs (value, device that needs it) in a set: then none counts twice." hint3="Add up graph[value][1] over the set."
def cut_bytes(graph, where):
    """Return the bytes that cross between devices.

    Args:
        graph: {node: (seconds, bytes of its value, nodes that it reads)}, in order.
        where: {node: number of its device}.
    """
    ### BEGIN SOLUTION
    sent = {
        (value, where[node])
        for node, (_, _, inputs) in graph.items()
        for value in inputs
        if where[value] != where[node]
    }
    return sum(graph[value][1] for value, _ in sent)
    ### END SOLUTION


# %% tags="check"
q.check("cut_bytes")

# %%
compare("bytes that cross, towers apart", predicted_apart, cut_bytes(TOWERS, APART))
compare("bytes that cross, mixed", predicted_mixed, cut_bytes(TOWERS, MIXED))

# %% [markdown]
# **Reflect.** Is the placement with fewer bytes always the better one? What does the count leave out?
#
# *The real system.* TensorFlow puts a Send and a Recv where an edge crosses, and one pair serves all readers of a device (Abadi 2016, section 3.3). `minitorch.graph.PlacedSession` does the same.

# %% [markdown]
# ## 2. When it is done
#
# Bytes alone do not say how long a step takes: messages travel while devices compute.
#
# **Idea.** Simulate the run, node by node, in the graph's order. A node starts when its device is free **and** all that it reads has arrived. What comes from another device arrives $\alpha + \beta n$ seconds after it was made; the sender does not wait. The last node to finish gives the **makespan**.
#
# **Predict.** $\alpha$ = 1 ms and $\beta$ = 1 ns a byte. When is `TOWERS` done on one device, and when with the towers apart? Answer in ms.

# %%
### BEGIN STARTER
# predicted_one_ms, predicted_apart_ms = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_one_ms, predicted_apart_ms = 17.0, 12.2
### END SOLUTION


# %% question="makespan" points="6" hint1="Keep two dicts: when each node is done, and when each device is free." hint2="arrived(value) = done[value] if it is on this device, else done[value] + alpha + beta * bytes." hint3="start = max(free device, all arrivals); done = start + seconds; then the device is free from there on."
def makespan(graph, where, alpha, beta):
    """Return the seconds until the last node is done; nodes run in the graph's order."""
    ### BEGIN SOLUTION
    done, free = {}, dict.fromkeys(where.values(), 0.0)
    for node, (seconds, _, inputs) in graph.items():
        here = where[node]
        start = free[here]
        for value in inputs:
            travel = 0.0 if where[value] == here else alpha + beta * graph[value][1]
            start = max(start, done[value] + travel)
        done[node] = free[here] = start + seconds
    return max(done.values())
    ### END SOLUTION


# %% tags="check"
q.check("makespan")

# %%
compare(
    "one device, ms", predicted_one_ms, computed=1e3 * makespan(TOWERS, ONE, 1e-3, 1e-9), exact=True
)
compare(
    "towers apart, ms",
    predicted_apart_ms,
    computed=1e3 * makespan(TOWERS, APART, 1e-3, 1e-9),
    exact=True,
)
print(f"mixed: {1e3 * makespan(TOWERS, MIXED, 1e-3, 1e-9):.1f} ms")

# %% [markdown]
# Is the model right? Here are two towers of real matrix products, built with `minitorch.graph` and run on two ranks. A node's seconds come from the graph's own **cost model**, which knows this machine; a message's $\alpha$ and $\beta$ are timed.

# %%
WIDTH = 384
rng = np.random.default_rng(0)
X = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32)
WEIGHTS = rng.normal(size=(2, 3, WIDTH, WIDTH)).astype(np.float32) / 20


# %%
def real_towers(where):
    """Return the sum of two towers of three layers; `where` gives the device of each node."""

    def on(name, function, *inputs):
        with tf.device(f"cpu:{where.get(name, 0)}"):
            return function(*inputs, name=name)

    heads = []
    for side, weights in zip(("left", "right"), WEIGHTS):
        h = tf.constant(X)
        for i, w in enumerate(weights):
            h = on(f"{side}{i}", tf.matmul, h, tf.constant(w))
            h = on(f"{side}{i}_relu", tf.nn.relu, h)
        heads.append(h)
    return on("total", tf.reduce_sum, on("both", tf.add, *heads))


# %%
def graph_of(fetch):
    """Return a graph of minitorch's as a dict; seconds are what its cost model says."""
    graph = {}
    for node in schedule([fetch], set()):
        if node.op is not None:
            inputs = tuple(n.name for n in node.inputs if n.op is not None)
            n_bytes = 4 * int(np.prod(node.shape))
            graph[node.name] = (node_s(node), n_bytes, inputs)
    return graph


with tf.Graph().as_default():
    REAL = graph_of(real_towers({}))
took_s, n_bytes, inputs = REAL["left1_relu"]
print(f"left1_relu: {took_s * 1e6:.0f} µs, {n_bytes:,} bytes, from {', '.join(inputs)}")


# %%
def quickest(run, rounds=15):
    """Return the least seconds of some calls: other programs only ever make one slower."""
    times = []
    for _ in range(rounds):
        began = perf_counter()
        run()
        times.append(perf_counter() - began)
    return min(times)


# %%
def time_message(comm, n_bytes, rounds=15):
    """Return half the time of the quickest round trip of so many bytes."""
    x = np.zeros(n_bytes // 4, np.float32)
    other = 1 - comm.rank

    def there_and_back():
        if comm.rank == 0:
            comm.send(x, other)
        comm.recv(x, other)
        if comm.rank == 1:
            comm.send(x, other)

    return quickest(there_and_back, rounds) / 2


# %%
small, large = launch(lambda comm: [time_message(comm, n) for n in (1 << 10, 1 << 20)], 2)[0]
BETA = max(large - small, 1e-9) / ((1 << 20) - (1 << 10))
ALPHA = max(small - BETA * (1 << 10), 0.0)
print(f"a message: {ALPHA * 1e6:.0f} µs + {BETA * 1e9:.2f} ns a byte")


def run_placed(comm, where):
    """Return the quickest of some runs of the towers on two ranks."""
    with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
        total = real_towers(where)
        return quickest(lambda: session.run(total))


# %%
def predict_and_run(what, where):
    predicted = makespan(REAL, dict.fromkeys(REAL, 0) | where, ALPHA, BETA)
    compare(f"{what}, ms", 1e3 * predicted, 1e3 * max(launch(run_placed, 2, where)))


RIGHT = {name: 1 for name in REAL if name.startswith("right")}
predict_and_run("all on one device", {})
predict_and_run("a tower each", RIGHT)

# %% [markdown]
# **In which order?** Here device 1 waits for `first`, and device 0 does something else before:

# %%
JOBS = {
    "x": (0.0, 100_000, ()),
    "tidy": (0.04, 100_000, ("x",)),
    "first": (0.02, 100_000, ("x",)),
    "far1": (0.03, 100_000, ("first",)),
    "far2": (0.02, 100_000, ("far1",)),
    "sum": (0.005, 100_000, ("tidy", "far2")),
}
TWO = dict.fromkeys(JOBS, 0) | {"far1": 1, "far2": 1}
FAR = Link(5e-3, 5e-8)  # a value of 100,000 bytes travels for 10 ms

# %% [markdown]
# **Idea.** **List scheduling** (Graham, 1969): of the nodes that may run, take the one with the longest way still to go. A node's **rank** is its own seconds and the longest way behind it: over each node that reads its value, the message, if there is one, and that node's rank.
#
# **Predict.** When is `JOBS` done in the graph's order, and when in the order of ranks? In ms.

# %%
### BEGIN STARTER
# predicted_written_ms, predicted_ranked_ms = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_written_ms, predicted_ranked_ms = 135.0, 95.0
### END SOLUTION


# %% question="upward_rank" points="5" hint1="A node's rank needs those of its readers: in which order do you go through the graph?" hint2="The readers of a node are those that have it among their inputs. One on another device begins later by alpha + beta * bytes." hint3="ranks[node] = seconds + max(over its readers, default=0.0)."
def upward_rank(graph, where, alpha, beta):
    """Return {node: seconds from its start to the end, if no device were ever busy}."""
    ### BEGIN SOLUTION
    ranks = {}
    for node in reversed(graph):
        seconds, n_bytes, _ = graph[node]
        far = {d: 0.0 if d == where[node] else alpha + beta * n_bytes for d in where.values()}
        ways = [ranks[r] + far[where[r]] for r in ranks if node in graph[r][2]]
        ranks[node] = seconds + max(ways, default=0.0)
    return ranks
    ### END SOLUTION


# %% tags="check"
q.check("upward_rank")

# %% [markdown]
# **Measure** on two hosts, in real seconds: a node is a pause, a value that crosses is a message.

# %%
ranks = upward_rank(JOBS, TWO, FAR.alpha, FAR.beta)
RANKED = {node: JOBS[node] for node in sorted(JOBS, key=ranks.get, reverse=True)}
print("in the order of ranks:", *RANKED)
for what, graph, mine in (
    ("as written", JOBS, predicted_written_ms),
    ("by rank", RANKED, predicted_ranked_ms),
):
    model = makespan(graph, TWO, FAR.alpha, FAR.beta)
    compare(f"{what}, ms", mine, computed=1e3 * model, exact=True)
    runs = [max(launch(run_in_order, 2, graph, TWO, hosts=2, link=FAR)) for _ in range(3)]
    compare(f"{what}, on two hosts, ms", 1e3 * model, 1e3 * min(runs))

# %% [markdown]
# **Reflect.** Where is the prediction off? Which of these is in your model: a core that another program uses, two ranks that share memory bandwidth? What does a rank not know of a device?
#
# *The real system.* A cost model need not be right in seconds. It has to put plans in the right **order**.

# %% [markdown]
# ## 3. The best of all
#
# With a cost for any placement, try them all.
#
# **Predict.** How many placements has a graph of 6 nodes on 2 devices? And one of 60 nodes? (A power will do.)

# %%
### BEGIN STARTER
# predicted_count = ...
### END STARTER
### BEGIN SOLUTION
predicted_count = 2**6
### END SOLUTION


# %% question="best_placement" points="5" hint1="itertools.product(range(devices), repeat=len(graph)) yields every choice of devices." hint2="Turn a choice into a placement with dict(zip(graph, choice)), and ask your makespan." hint3="min(..., key=...) over the placements."
def best_placement(graph, devices, alpha, beta):
    """Return a placement {node: device} with the least makespan of all."""
    ### BEGIN SOLUTION
    choices = product(range(devices), repeat=len(graph))
    placements = (dict(zip(graph, choice)) for choice in choices)
    return min(placements, key=lambda where: makespan(graph, where, alpha, beta))
    ### END SOLUTION


# %% tags="check"
q.check("best_placement")

# %%
choices = sum(1 for _ in product(range(2), repeat=len(TOWERS)))
compare("placements of 6 nodes on 2 devices", predicted_count, choices)
for what, alpha, beta in (("fast link", 1e-5, 1e-10), ("slow link", 1e-3, 1e-8)):
    best = best_placement(TOWERS, 2, alpha, beta)
    print(f"{what}: {1e3 * makespan(TOWERS, best, alpha, beta):5.1f} ms", best)
print(f"60 nodes: {2.0**60 / 1e6 / 3.15e7:,.0f} years at a million placements a second")

# %% [markdown]
# And the real towers: your search on the graph of `minitorch`, and the placement that it finds, run on the two ranks.

# %%
found = best_placement(REAL, 2, ALPHA, BETA)
print("on device 1:", *(name for name, device in found.items() if device))
predict_and_run("the best placement found", found)

# %% [markdown]
# **Reflect.** On the slow link the best placement uses only one of the two devices. Which term of the cost decided that?
#
# *The real system.* Early systems searched with reinforcement learning (Mirhoseini 2017) or with random changes (FlexFlow, 2019). What follows here is exact, because it searches a smaller space: a model is a chain of layers.

# %% [markdown]
# ## 4. A stage, and how it is split
#
# A layer is three numbers, for one sample: flops of forward, bytes of parameters, bytes of output. A **stage** is a run of layers on some devices: `dp` replicas share each micro-batch, and in each replica `tp` devices share each layer. How long does a micro-batch take in it?
#
# - Compute: forward, and twice as much backward, over `dp * tp` devices.
# - `tp`: for each layer an all-reduce of its output in forward and one in backward, over `tp` devices. A replica has a share `1/dp` of the sample.
# - `dp`: one all-reduce of the gradients over `dp` devices, of the parameters that a device has: a share `1/tp`. It happens once a step, so each of the micro-batches bears its part.
#
# **Predict.** A layer with huge parameters and tiny outputs on 4 devices: is `dp = 4` or `tp = 4` cheaper?

# %%
### BEGIN STARTER
# predicted_split = ...  # "dp" or "tp"
### END STARTER
### BEGIN SOLUTION
predicted_split = "tp"
### END SOLUTION


# %%
def ring_seconds(n_bytes, ranks, alpha, beta):
    """Return the seconds of a ring all-reduce, as in lab 09."""
    return 2 * (ranks - 1) * (alpha + n_bytes / ranks * beta) if ranks > 1 and n_bytes else 0.0


# %% question="stage_seconds" points="6" hint1="Three sums over the layers: compute, all-reduces of outputs, and one all-reduce of all parameters together." hint2="compute: 3 * flops / (dp * tp * speed). Outputs: 2 * ring_seconds(out / dp, tp, ...) for each layer." hint3="Gradients: ring_seconds(sum of params / tp, dp, ...) / microbatches."
def stage_seconds(layers, dp, tp, microbatches, speed, alpha, beta):
    """Return the seconds of a micro-batch (one sample) in a stage, forward and backward.

    Args:
        layers: list of (flops, bytes of parameters, bytes of output).
        speed: flops a second of a device.
    """
    ### BEGIN SOLUTION
    compute = sum(3 * flops for flops, _, _ in layers) / (dp * tp * speed)
    outputs = sum(2 * ring_seconds(out / dp, tp, alpha, beta) for _, _, out in layers)
    params = sum(params for _, params, _ in layers)
    return compute + outputs + ring_seconds(params / tp, dp, alpha, beta) / microbatches
    ### END SOLUTION


# %% question="best_split" points="3" hint1="For each tp that divides the devices, dp is the rest." hint2="min over the pairs, by stage_seconds."
def best_split(layers, devices, microbatches, speed, alpha, beta):
    """Return the pair (dp, tp), dp * tp == devices, whose stage is quickest."""
    ### BEGIN SOLUTION
    pairs = [(devices // tp, tp) for tp in range(devices, 0, -1) if devices % tp == 0]
    return min(
        pairs, key=lambda pair: stage_seconds(layers, *pair, microbatches, speed, alpha, beta)
    )
    ### END SOLUTION


# %% tags="check"
q.check("stage_seconds")
q.check("best_split")

# %%
WIDE, LONG = (1e12, 4e8, 1e5), (1e12, 1e6, 4e7)  # many parameters; large outputs
for name, layer in (("many parameters", WIDE), ("large outputs", LONG)):
    pair = best_split([layer] * 4, 4, 8, 1e14, 1e-5, 1e-10)
    print(f"{name}: dp, tp = {pair}")
print("predicted for many parameters:", predicted_split)
layers = [WIDE] * 4
ours = 8 * stage_seconds(layers, 2, 2, 8, 1e14, 1e-5, 1e-10)
mesh = cluster(1, 4, 1e14, (1e-5, 1e-10), (0.0, 0.0))
library = simulate.plan_cost([(0, 4, 1, 4, 2, 2)], [LayerCost(*x) for x in layers], mesh, 8)
compare("a step: yours, and the library's planner", ours, computed=library)

# %% [markdown]
# **Reflect.** With more micro-batches a step, which of the two splits gets better, and why?
#
# *The real system.* Alpa chooses a split for every operator inside a stage, by integer programming; here it is one for the whole stage.

# %% [markdown]
# ## 5. Stages
#
# **Idea.** In a pipeline all micro-batches pass through all stages. The first needs the sum of the stages' times; each further one ends later by the time of the slowest stage (lab 13):
#
# $$T = \sum_i t_i + (M - 1) \max_i t_i.$$
#
# How many ways are there to cut a chain of $n$ layers into stages? At each of the $n-1$ gaps there is a cut or there is none.
#
# Because of the maximum, the best whole need not be made of best parts. But **fix a limit** for the slowest stage, and only the sum is left. The best sum is made of best parts:
#
# $$S(\text{first}) = \min_{\text{last}}\; t(\text{first}, \text{last}) + S(\text{last}), \qquad t(\text{first}, \text{last}) \le \text{limit}.$$
#
# The limit can only be one of the numbers in the table. Try them all.
#
# **Predict.** 4 layers of 1 s each, any stage on one device, $M$ = 9, no communication. $T$ with one stage, and with four?

# %%
### BEGIN STARTER
# predicted_one_stage, predicted_four_stages = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_one_stage, predicted_four_stages = 36.0, 12.0
### END SOLUTION


# %% question="best_stages" points="10" hint1="First write the inner part: for a given limit, go from the last layer to the first, and keep for each first layer the least sum and the last that gave it." hint2="best[n] = (0, None). For first from n-1 down: the minimum over last > first with seconds[first, last] <= limit of seconds[first, last] + best[last][0]." hint3="For every limit in set(seconds.values()): walk from 0 along the choices, take the cost by the formula (with the real maximum), keep the best."
def best_stages(seconds, n_layers, microbatches):
    """Return the stages [(first, last), ...] of least T; `last` is the one after a stage's end.

    Args:
        seconds: {(first, last): seconds of a micro-batch in that stage}; pairs that are not in it
            do not fit on a device.
    """
    ### BEGIN SOLUTION
    ways = []
    for limit in sorted(set(seconds.values())):
        sums, ends = [np.inf] * n_layers + [0.0], [n_layers] * n_layers
        for first, last in sorted(seconds, reverse=True):  # from the last layer to the first
            if seconds[first, last] <= limit:
                found = seconds[first, last] + sums[last], last
                sums[first], ends[first] = min((sums[first], ends[first]), found)
        stages, first = [], 0
        while first < n_layers:
            stages.append((first, ends[first]))
            first = ends[first]
        ways.append((sums[0] + (microbatches - 1) * limit, stages))
    return min(ways)[1]
    ### END SOLUTION


# %% tags="check"
q.check("best_stages")


# %%
def total_seconds(stages, seconds, microbatches):
    """Return T of a list of stages."""
    times = [seconds[stage] for stage in stages]
    return sum(times) + (microbatches - 1) * max(times)


even = {(i, j): float(j - i) for i in range(4) for j in range(i + 1, 5)}
compare("one stage, s", predicted_one_stage, computed=total_seconds([(0, 4)], even, 9), exact=True)
four = total_seconds(best_stages(even, 4, 9), even, 9)
compare("four stages, s", predicted_four_stages, computed=four, exact=True)

# %%
# 24 layers that differ; each stage costs half a second besides
sizes = np.random.default_rng(1).uniform(0.2, 2.0, 24)
until = np.concatenate([[0], np.cumsum(sizes)])
table = {(i, j): until[j] - until[i] + 0.5 for i in range(24) for j in range(i + 1, 25)}
for m in (1, 2, 4, 64):
    stages = best_stages(table, 24, m)
    slowest = max(table[stage] for stage in stages)
    print(
        f"M = {m:>2}: stages {len(stages):>2}, the slowest {slowest:.2f} s, the first {stages[0]}"
    )
print(f"cuts of 24 layers: {2**23:,}; entries of the table: {len(table)}")

# %% [markdown]
# **Reflect.** With few micro-batches few stages are best, with many micro-batches many stages. Where in $T$ do you see this?
#
# *The real system.* This is Alpa's outer search; the inner one, per stage, is section 4. Its stages have meshes of different sizes, so its table also knows how many devices are left.

# %% [markdown]
# ## 6. The topology decides
#
# `simulate.best_plan` puts both searches together: stages, the devices of each, and `dp` and `tp` within. It also knows two kinds of links: fast ones inside a host, slow ones between hosts.
#
# **Predict.** 8 equal layers with many parameters, 2 hosts of 4 devices. Links between hosts as fast as inside: does the best plan have a stage that spans both hosts? And if they are a hundred times slower?

# %%
### BEGIN STARTER
# predicted_spans_fast, predicted_spans_slow = ..., ...  # True or False
### END STARTER
### BEGIN SOLUTION
predicted_spans_fast, predicted_spans_slow = True, False
### END SOLUTION

# %%
MODEL = [LayerCost(2e12, 4e8, 1e6)] * 8
INSIDE = (1e-6, 1 / 3e11)


def mesh_with(inter_bytes_per_s):
    """Return two hosts of four devices; only the link between them changes."""
    return cluster(2, 4, 1e14, INSIDE, (1e-5, 1 / inter_bytes_per_s))


for speed in (3e11, 3e9, 3e8):
    plan = simulate.best_plan(MODEL, mesh_with(speed), microbatches=16)
    print(f"{speed / 1e9:5.1f} GB/s between hosts:", plan.why())
spans = [
    any(hosts > 1 for _, _, hosts, *_ in simulate.best_plan(MODEL, mesh_with(speed), 16))
    for speed in (3e11, 3e9)
]
print("spans both hosts: predicted", predicted_spans_fast, predicted_spans_slow, "found", *spans)

# %%
SPEEDS = np.geomspace(1e8, 3e11, 13)
PURE = {
    "data parallel only": [(0, 8, 2, 4, 8, 1)],
    "tensor parallel only": [(0, 8, 2, 4, 1, 8)],
    "pipeline only": [(i, i + 1, 1, 1, 1, 1) for i in range(8)],
}
fig, ax = plt.subplots()
for name, plan in PURE.items():
    costs = [simulate.plan_cost(plan, MODEL, mesh_with(s), 16) for s in SPEEDS]
    ax.plot(SPEEDS / 1e9, costs, label=name)
best = [simulate.best_plan(MODEL, mesh_with(s), 16).cost for s in SPEEDS]
ax.plot(SPEEDS / 1e9, best, "k--", label="best plan")
ax.set(xscale="log", yscale="log", xlabel="GB/s between hosts", ylabel="seconds a step")
ax.set_title("8 layers on 2 hosts of 4 devices, 16 micro-batches")
ax.legend()
plt.show()

# %% [markdown]
# (Inside a host links need not be alike either. In a DGX-1 each of eight V100s has six NVLinks, to four of the others only; what it sends to one of the other three goes by PCIe, or through a GPU between them. The demo *plan on a mesh* draws it. Which four would you make a stage?)
#
# And does the model rank plans as this machine does? Two ranks, one network of four layers, three ways to train it: a pipeline of two stages, data parallelism, and products that are shared. The model gets one measured number for compute and the link of section 2.


# %%
def network(width=512):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(4)]
    return torch.nn.Sequential(*layers)


def batch(width=512, rows=256):
    return torch.ones(rows, width), torch.zeros(rows, width)


def train_step(model, rows=slice(None)):
    x, y = (part[rows] for part in batch())
    torch.nn.functional.mse_loss(model(x), y).backward()


# %%
def by_data(comm):
    model = network()
    half = slice(128 * comm.rank, 128 * (comm.rank + 1))
    flat = comm.empty((sum(p.numel() for p in model.parameters()),), np.float32)

    def step():
        train_step(model, half)
        flat[...] = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
        comm.all_reduce(flat, op="avg", algorithm="ring", out=flat)

    return step


# %%
def by_tensor(comm):
    plan = {"0": "column", "1": "row", "2": "column", "3": "row"}
    model = parallelize(network(), comm, plan)
    return lambda: train_step(model)


def by_stages(comm):
    part = network()[2 * comm.rank : 2 * comm.rank + 2]
    loss = torch.nn.functional.mse_loss
    pipeline = Pipeline(comm, part, microbatches=8, loss_fn=loss)
    return lambda: pipeline.step(*batch())


# %%
def timed(comm, way):
    torch.set_num_threads(1)
    step = way(comm)
    step()
    comm.barrier()
    return quickest(step, 9)


torch.set_num_threads(1)
alone = network()
train_step(alone)
speed = 4 * 6 * 512 * 512 * 256 / quickest(lambda: train_step(alone), 9)
M = 8
layers = [LayerCost(2 * 512 * 512 * 256 / M, 4 * 512 * 512, 4 * 512 * 256 / M)] * 4
pair = cluster(1, 2, speed, (ALPHA, BETA), (0.0, 0.0))
WAYS = {
    "data parallel": (by_data, [(0, 4, 1, 2, 2, 1)]),
    "shared products": (by_tensor, [(0, 4, 1, 2, 1, 2)]),
    "two stages": (by_stages, [(0, 2, 1, 1, 1, 1), (2, 4, 1, 1, 1, 1)]),
}

# %%
for name, (way, plan) in WAYS.items():
    predicted = simulate.plan_cost(plan, layers, pair, M)
    measured = max(launch(timed, 2, way))
    compare(f"{name}, ms", 1e3 * predicted, 1e3 * measured)
print("the planner's choice:", simulate.best_plan(layers, pair, M).why())

# %% [markdown]
# **Reflect.** Is the order right? Where it is not, which of the three is predicted worst, and what does its step do that the model does not know?
#
# *The real system.* Alpa profiles each stage on the real mesh instead of adding up flops. That costs hours for a large model, and is right more often.

# %% [markdown] question="one_search" points="6" manual="true" rubric1="2: Data and model parallelism are the same decision, which axis of which operator is cut, and why choosing one first can miss the best plan" rubric2="2: Uses figures of this notebook (where plans cross as the link changes, with the reason)" rubric3="1: What makes the search possible (a chain, a sum under a limit, few meshes) and what that leaves out" rubric4="1: When a wrong cost model does no harm and when it does"
# ## Discuss
#
# "First choose data or model parallelism, then tune it." Against this: "it is one search." Who is right? Use your figures: where do the lines of section 6 cross, and which term is behind each crossing? What did we leave out so that the search became small? When does a wrong cost model do harm? Half a page.
#
# ### BEGIN SOLUTION
# Both cut the same loops: data parallelism cuts the axis of the samples of every operator, tensor parallelism an axis of its weights, a pipeline the chain between operators. Each stage and each layer can be cut another way, so a choice made once for all can miss the best plan: in the picture the best plan lies below all three pure ones over most of the range, as it uses fast links inside hosts for tensors or gradients and the slow one only for activations.
#
# With slow links data parallelism pays for 3.2 GB of gradients each step, tensor parallelism for activations of every layer and micro-batch and for latencies; a pipeline sends only one output, but idles for 7 of 23 beats. As the link gets faster, first tensor parallelism and then data parallelism pass the pipeline.
#
# The search is small because layers form a chain, meshes are whole hosts or parts of one, a stage has one split, and under a limit on the slowest stage only a sum is left. Branches, other orders of devices and overlap are left out.
#
# A cost model that is wrong by the same factor everywhere does no harm, for only the order counts. It does harm where it is wrong for one kind of plan: without latencies it prefers tensor parallelism between hosts, without memory it picks plans that do not fit.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (plans made by hand, the space of intra- and inter-operator choices together)" rubric3="1: Methods and contributions (two levels, integer programming inside a stage, dynamic programming over stages and meshes, runtime with cross-mesh resharding)" rubric4="1: Evaluation and discussion (names a figure with its conditions)" rubric5="1: Trade-offs (search time and profiling, static plans)" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Lianmin Zheng et al., [*Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep Learning*](https://www.usenix.org/conference/osdi22/presentation/zheng-lianmin), OSDI 2022. One page, in the form below.
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
# **Overview.** A compiler that finds a parallel plan for a model and a cluster by itself. It treats the two kinds of parallelism as two levels of one search. **Problem and challenges.** Plans were made by hand for each model and cluster; the joint space is too large to search, and costs of one level depend on choices of the other. **Methods and contributions.** Inside a stage an integer program chooses how each operator is cut, to send least; over stages a dynamic program chooses layers and meshes, to finish first; a runtime moves tensors between meshes that cut them differently. **Evaluation and discussion.** On 64 V100s it matches Megatron-LM on GPT and is several times faster than DeepSpeed on mixture-of-experts models of up to 70 billion parameters; it also finds a plan for a wide ResNet for which there was none by hand. How good plans are on other networks is not shown. **Trade-offs.** Hours of compiling and profiling; a static plan; layers are grouped beforehand. **Open questions.** What to do when the cluster changes during a run; plans that overlap communication with compute; branches that run at the same time.
# ### END SOLUTION

# %%
q.status()
