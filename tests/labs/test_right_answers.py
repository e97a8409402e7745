"""Right answers that are not the solution's words: the checks pay them in full."""

import os
import subprocess
import sys
from pathlib import Path

from autograder.audit.variants import Trials, Variant
from autograder.authoring.regions import solution_text
from autograder.authoring.source import load_lab
from autograder.checks import load_checks
from autograder.grading.grade import CHECKS
from autograder.records import Lab, Outcome
from tests.labs.conftest import every_lab, in_small

LABS = Path(__file__).parents[2] / "labs"

OVER_ARRAYS = """
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            parts = [self.params[i].grad.numpy().ravel() for i in self.buckets[b]]
            self.works.append((b, self.comm.all_reduce(np.concatenate(parts), async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for b, work in self.works:
            mean = torch.from_numpy(work.wait() / self.comm.size)
            grads = [self.params[i].grad for i in self.buckets[b]]
            for grad, part in zip(grads, mean.split([grad.numel() for grad in grads])):
                grad.copy_(part.reshape(grad.shape))
        self.start_afresh()


"""

WITHOUT_WAITING = """
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    chunks = split(x, n)
    passing = chunks[rank - 1].copy()
    for step in range(n - 1):
        sending = comm.isend(passing, (rank + 1) % n)
        arrived = comm.recv((rank - 1) % n)
        sending.wait()
        passing = COMBINE[op](chunks[(rank - 2 - step) % n], arrived)
    return passing


"""

OTHERWISE = [  # lab, question, words of its solution, other words that are as right
    (  # a step that its only user reads twice joins that user
        "06_graph_optimization",
        "fuse",
        "len(users[i]) == 1 and users[i][0] is not None",
        "len(set(users[i])) == 1 and users[i][0] is not None",
    ),
    ("01_gradients_by_hand", "sgd_step", "param -= lr * grad", "param[:] = param - lr * grad"),
    ("00_the_machine", "strides", "return strides", "return tuple(strides)"),
    ("02_autodiff", "topological_order", "return order", "return tuple(order)"),
    (
        "04_dataflow_graphs",
        "gradients",
        "[adjoint.get(node) for node in wanted]",
        "tuple(adjoint.get(node) for node in wanted)",
    ),
    (  # a mask that multiplies keeps what is random out as well
        "05_control_flow",
        "padded_rnn",
        "h = mt.where(lengths > float(i), cell(row(table, Constant(i)), h, w, u), h)",
        "mask = mt.where(lengths > float(i), 1.0, 0.0)\n"
        "        h = mask * cell(row(table, Constant(i)), h, w, u) + (1.0 - mask) * h",
    ),
    (  # the operator's own result, which is what its rule needs
        "02_autodiff",
        "ExpOp",
        "out_grad * mt.exp(x)",
        "out_grad * node",
    ),
    (  # from both ends of the graph: a value goes when all of its users have
        "02_autodiff",
        "topological_order",
        "    return order",
        "    users, ready, last = {}, [output], []\n"
        "    for value in order:\n"
        "        for source in value.inputs:\n"
        "            users[id(source)] = users.get(id(source), 0) + 1\n"
        "    while ready:\n"
        "        last.append(ready.pop())\n"
        "        for source in last[-1].inputs:\n"
        "            users[id(source)] -= 1\n"
        "            ready += [source] * (users[id(source)] == 0)\n"
        "    return last[::-1]",
    ),
    (  # zeros to begin with, so that every rule is asked
        "02_autodiff",
        "gradients",
        "    adjoint = {id(output): mt.ones_like(output)}\n",
        "    adjoint = {id(v): mt.zeros_like(v) for v in topological_order(output)}\n"
        "    adjoint[id(output)] = mt.ones_like(output)\n",
    ),
    (  # velocities that are made anew
        "03_modules_and_training",
        "SGD",
        "                    v *= self.momentum\n                    v += p.grad\n"
        "                    p -= self.lr * v",
        "                    v.copy_(self.momentum * v + p.grad)\n"
        "                    p.copy_(p - self.lr * v)",
    ),
    ("04_dataflow_graphs", "evaluate", "    values = {}\n", "    values = dict(feeds)\n"),
    (  # the result of an assignment is the new velocity
        "04_dataflow_graphs",
        "minimize",
        "velocity = momentum * slot + grad\n        updates += [assign(slot, velocity), ",
        "velocity = assign(slot, momentum * slot + grad)\n        updates += [",
    ),
    (  # factors of a tile from the other side
        "07_compiling_operators",
        "tiled",
        "into += a[i : i + tile_m, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]",
        "into += (b[p : p + tile_k, j : j + tile_n].T @ a[i : i + tile_m, p : p + tile_k].T).T",
    ),
    (  # number by number within a tile
        "07_compiling_operators",
        "tiled",
        "into += a[i : i + tile_m, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]",
        "for r, q in product(range(i, min(i + tile_m, m)), range(p, min(p + tile_k, k))):\n"
        "            for s in range(j, min(j + tile_n, n)):\n"
        "                c[r, s] += a[r, q] * b[q, s]",
    ),
    (
        "05_control_flow",
        "gradient_rules",
        "return tuple(beside(out_grad, source) for source in node.inputs)",
        "return [beside(out_grad, source) for source in node.inputs]",
    ),
    (  # a receive that is posted before the send
        "08_collectives",
        "barrier",
        "        comm.send(np.empty(0), (comm.rank + distance) % comm.size)\n"
        "        comm.recv((comm.rank - distance) % comm.size)\n",
        "        coming = comm.irecv((comm.rank - distance) % comm.size)\n"
        "        comm.send(np.empty(0), (comm.rank + distance) % comm.size)\n"
        "        coming.wait()\n",
    ),
    (  # pairs that are made as they are asked for
        "09_ring_all_reduce",
        "chunk_bounds",
        "return [(i * n_elements // n, (i + 1) * n_elements // n) for i in range(n)]",
        "edges = [i * n_elements // n for i in range(n + 1)]\n    return zip(edges, edges[1:])",
    ),
    (  # halves of the ring that start their sends
        "09_ring_all_reduce",
        "two_level_all_reduce",
        "def two_level",
        WITHOUT_WAITING + "def two_level",
    ),
    (
        "10_data_parallel",
        "assign_buckets",
        "return buckets",
        "return [torch.tensor(bucket).numpy() for bucket in buckets]",
    ),
    (  # buckets as NumPy's arrays
        "10_data_parallel",
        "Overlapped",
        "class Overlapped",
        OVER_ARRAYS + "class Unused",
    ),
    ("03_modules_and_training", "train_step", "model(x)", "model.forward(x)"),
    (  # NumPy's integers for numbers of steps
        "06_graph_optimization",
        "cse",
        "order = sorted(inputs) if step.op in COMMUTATIVE else inputs",
        "order = inputs = np.sort(inputs) if step.op in COMMUTATIVE else np.array(inputs, int)",
    ),
    (
        "07_compiling_operators",
        "features",
        "return np.array(found, float)",
        "return np.array(found, np.float32)",
    ),
    (  # a share in single precision
        "15_serving",
        "at_deadline",
        "arrived.count(answer) / len(replies)",
        "np.float32(arrived.count(answer)) / np.float32(len(replies))",
    ),
    (  # all rounds in one array
        "16_at_scale",
        "fit_line",
        "np.array([min(seconds) for seconds in times.values()])",
        "np.array(list(times.values())).min(axis=1)",
    ),
    ("18_language_model", "pairs", "return merged", "return np.array(merged)"),
    (  # gradients taken away first, as in lab 03
        "18_language_model",
        "train_step",
        "    loss = ",
        "    optimizer.zero_grad()\n    loss = ",
    ),
    (  # a number that no score is less than
        "18_language_model",
        "CausalSoftmax",
        "xp.where(mask, scores, -xp.inf)",
        "xp.where(mask, scores, -1e9)",
    ),
    (  # another softmax, over scores that are masked before it
        "18_language_model",
        "Attention",
        "causal_softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5)",
        "F.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5 + mt.tensor("
        "np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)), dim=-1)",
    ),
    (  # a send that is started, and waited for
        "13_model_parallel",
        "naive_step",
        "comm.send(x.grad, comm.rank - 1)",
        "comm.isend(x.grad, comm.rank - 1).wait()",
    ),
    (  # the block's own parameters, which are the operator's inputs
        "18_language_model",
        "Recomputed",
        "[x, *node.inputs[1:]]",
        "[x, *self.block.parameters()]",
    ),
    (  # the starter's dict filled in
        "13_model_parallel",
        "views",
        "views = dict(",
        "views = dict.fromkeys(METHODS)\nviews |= dict(",
    ),
    (  # whole bytes
        "16_at_scale",
        "zero_bytes",
        "return params * (optimizer + grads + weights)",
        "return sum(-int(-params * part // 1) for part in (optimizer, grads, weights))",
    ),
    (  # names in no order
        "16_at_scale",
        "saved",
        '["parameters", "momentum", "position in the data"]',
        'set(THINGS) - {"gradients", "activations"}',
    ),
    (  # a loop over names that other cells loop over too
        "13_model_parallel",
        "views",
        'views = dict(zip(METHODS, ("intra", "inter", "intra", "neither", "neither")))',
        'views = {}\nfor m in METHODS:\n    views[m] = "neither" if "again" in m or "stored" in m '
        'else ("inter" if "run of" in m else "intra")',
    ),
    (  # an object that can be called, and has no code of its own
        "00_the_machine",
        "by_tensors",
        "def by_tensors",
        "@__import__('functools').partial\ndef by_tensors",
    ),
]


def with_answer(lab: Lab, question: str, before: str, after: str) -> Variant:
    """Return the solution with other words in the answer to one question, and its checks."""
    cells = []
    for cell in lab.cells:
        if cell.kind == "code":
            text = solution_text(cell, lab.directory)
            if cell.attributes.get("question") == question:
                assert before in text
                text = text.replace(before, after)
            cells.append(text)
    own = tuple(check.name for check in load_checks(lab.directory / CHECKS).of(question))
    return Variant(tuple(cells), own, seed=1)


def test_other_right_answers_have_all_points(lab: Lab, trials: Trials) -> None:
    """In the worker of the lab, which its other tests have too."""
    answers = [rest for name, *rest in OTHERWISE if name == lab.name]
    tried = trials.run([with_answer(lab, *answer) for answer in answers])
    for answer, trial in zip(answers, tried, strict=True):
        said = {v.name: v.said for v in trial.verdicts if v.outcome is not Outcome.CORRECT}
        assert trial.verdicts and (said, trial.ended) == ({}, ""), answer


def test_each_other_answer_is_to_a_lab_that_is_there() -> None:
    assert {name for name, *_ in OTHERWISE} <= {lab.name for lab in every_lab()}


WITHOUT_LLVMLITE = """
import sys
sys.modules["llvmlite"] = None
exec(compile(sys.stdin.read(), "lab", "exec"), {"__name__": "__main__"})
"""


def test_the_lab_on_compiling_is_whole_without_a_compiler() -> None:
    lab = load_lab(LABS / "07_compiling_operators")
    cells = in_small(lab, [solution_text(c, lab.directory) for c in lab.cells if c.kind == "code"])
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_LLVMLITE],
        input="\n".join(cells),
        cwd=lab.directory,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "no llvmlite: NumPy computes all schedules alike" in ran.stdout
    assert "ridge and trees: trials until 1.10" in ran.stdout  # tables are replayed all the same
