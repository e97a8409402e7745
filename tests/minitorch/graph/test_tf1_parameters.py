"""Every parameter of a public function of `minitorch.graph` is read, or is in a table with why not.

A parameter that is accepted and ignored is a promise that is not kept.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minitorch.graph

FOLDER = Path(minitorch.graph.__file__).parent

EVERYWHERE = {
    "aggregation_method": "how TensorFlow adds gradients up, not what they are",
    "caching_device": "where TensorFlow keeps a copy",
    "colocate_gradients_with_ops": "where TensorFlow computes a gradient",
    "gate_gradients": "when TensorFlow begins with the next gradient",
    "swap_memory": "where TensorFlow keeps what a loop saves",
    "use_cudnn_on_gpu": "which code of a GPU computes it",
    "use_locking": "updates of one session never overlap here",
    "use_resource": "which of TensorFlow's two kinds of variables; here there is one",
    "values": "TensorFlow finds the graph by these; here a node's graph is that of its inputs",
}
"""Parameters that say how TensorFlow runs, wherever they stand."""

HERE = {
    ("candidates.py", "*", "name"): "three results with names of their own",
    ("collections.py", "Remembering.as_graph_element", "allow_operation"): "a node is both",
    ("collections.py", "Remembering.as_graph_element", "allow_tensor"): "a node is both",
    ("spaces/contrib.py", "l1_regularizer", "scope"): "names only",
    ("spaces/contrib.py", "l2_regularizer", "scope"): "names only",
    ("control/scan.py", "*", "infer_shape"): "shapes are inferred and checked always",
    ("control/tensor_array.py", "*", "clear_after_read"): "memory is freed without being told",
    ("control/tensor_array.py", "*", "name"): "names only; versions of one array share it",
    ("control/tensor_array.py", "*", "tensor_array_name"): "names only",
    ("initializers.py", "Initializer.__call__", "partition_info"): "there are no partitions",
    (
        "monitoring/monitored.py",
        "MonitoredTrainingSession",
        "log_step_count_steps",
    ): "steps a second",
    ("nn.py", "embedding_lookup", "validate_indices"): "an index outside always raises",
    ("layers/normalized.py", "batch_normalization", "fused"): "which code computes it, not what",
    ("operators/math.py", "matmul", "a_is_sparse"): "a hint for speed",
    ("operators/math.py", "matmul", "b_is_sparse"): "a hint for speed",
    ("operators/shaping.py", "transpose", "conjugate"): "real numbers are their own conjugates",
    ("operators/elementwise.py", "accumulate_n", "shape"): "the inputs have it",
    ("operators/elementwise.py", "accumulate_n", "tensor_dtype"): "the inputs have it",
    ("operators/effects.py", "py_func", "stateful"): "a call is never folded or shared",
    ("operators/matrices.py", "matvec", "a_is_sparse"): "a hint for speed",
    ("operators/matrices.py", "matvec", "b_is_sparse"): "a hint for speed",
    ("operators/saying.py", "get_static_value", "partial"): "a node is known whole or not at all",
    ("operators/ranking.py", "argsort", "stable"): "it always is",
    ("operators/ranking.py", "top_k", "sorted"): "sorted is one of the orders that False allows",
    ("queues/dataset.py", "*", "num_parallel_calls"): "elements are made one by one",
    ("spaces/data.py", "*", "num_parallel_batches"): "elements are made one by one",
    ("spaces/data.py", "*", "num_parallel_calls"): "elements are made one by one",
    ("queues/dataset.py", "Dataset.prefetch", "buffer_size"): "elements are made when asked for",
    ("train/saver.py", "Saver.__init__", "name"): "no node is made",
    ("train/saver.py", "Saver.__init__", "restore_sequentially"): "files are read whole",
    ("train/saver.py", "Saver.__init__", "save_relative_paths"): "lists hold bare names",
    ("train/saver.py", "Saver.__init__", "sharded"): "how many files; one holds all",
    ("train/saver.py", "Saver.save", "save_debug_info"): "graphs are code, files hold values",
    ("train/saver.py", "Saver.save", "strip_default_attrs"): "graphs are code, files hold values",
    ("train/saver.py", "Saver.save", "meta_graph_suffix"): "graphs are code, files hold values",
    ("train/saver.py", "Saver.save", "write_meta_graph"): "graphs are code, files hold values",
    ("session.py", "Session.run", "options"): "`profile` records runs",
    ("session.py", "Session.run", "run_metadata"): "`profile` records runs",
    ("state.py", "Variable.op", "op"): "always None",
    ("state.py", "assign", "validate_shape"): "the variable says whether its shape may change",
    ("spaces/summary.py", "FileWriter.__init__", "args"): "sizes of TensorFlow's queues",
    ("spaces/summary.py", "FileWriter.__init__", "graph"): "`show` draws graphs",
    ("spaces/summary.py", "FileWriter.__init__", "more"): "sizes of TensorFlow's queues",
    ("spaces/summary.py", "FileWriter.add_graph", "global_step"): "`show` draws graphs",
    ("spaces/summary.py", "FileWriter.add_graph", "graph"): "`show` draws graphs",
    ("spaces/summary.py", "FileWriter.add_run_metadata", "global_step"): "`profile` records runs",
    ("spaces/summary.py", "FileWriter.add_run_metadata", "run_metadata"): "`profile` records runs",
    ("spaces/summary.py", "FileWriter.add_run_metadata", "tag"): "`profile` records runs",
}
"""(file, function or "*", parameter), and why nothing reads it."""

PROTOCOL = {
    *("compute", "gradient", "infer", "next_state", "rule", "run", "run_in_place", "runner"),
    *("after_create_session", "after_run", "before_run", "begin", "end", "take"),
    *("__call__", "build", "call", "node", "put", "send", "recv", "soonest", "find"),
}
"""Methods whose parameters another class has fixed: one of theirs may need fewer of them."""


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            if not node.name.startswith("_"):
                yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (
            not node.name.startswith("_") or node.name in ("__init__", "__call__")
        ):
            yield f"{prefix}{node.name}", node


def _unread(source: str) -> Iterator[tuple[str, str]]:
    """Yield (function, parameter) for each parameter that its function's body never names."""
    for name, function in _functions(ast.parse(source)):
        short = name.rpartition(".")[2]
        if short in PROTOCOL and name not in ("Initializer.__call__", "Session.run"):
            continue
        args = function.args
        named = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        named += [a.arg for a in (args.vararg, args.kwarg) if a is not None]
        read = {n.id for part in function.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        for parameter in named:
            if parameter not in (*read, "self", "cls") and not parameter.startswith("_"):
                yield name, parameter


def _reason(file: str, function: str, parameter: str) -> str | None:
    there = HERE.get((file, function, parameter)) or HERE.get((file, "*", parameter))
    return there or EVERYWHERE.get(parameter)


def test_every_parameter_is_read_or_has_a_reason() -> None:
    found = [
        f"{file}: {function}({parameter})"
        for path in sorted(FOLDER.rglob("*.py"))
        if (file := str(path.relative_to(FOLDER))).split("/")[0]
        not in ("passes", "placing", "cost.py")
        for function, parameter in _unread(path.read_text())
        if _reason(file, function, parameter) is None
    ]
    assert not found, "accepted and never read: " + "; ".join(found)


def test_every_reason_is_still_needed() -> None:
    unread = {
        (str(path.relative_to(FOLDER)), function, parameter)
        for path in FOLDER.rglob("*.py")
        for function, parameter in _unread(path.read_text())
    }
    stale = [
        key
        for key in HERE
        if key not in unread
        and not (key[1] == "*" and any((f, p) == (key[0], key[2]) for f, _, p in unread))
    ]
    assert not stale


@pytest.mark.parametrize(
    "source",
    [
        "def dense(x, kernel_constraint=None):\n    return x\n",
        "class A:\n    def save(self, path):\n        return 1\n",
        "def f(*args):\n    return 1\n",
    ],
)
def test_an_ignored_parameter_would_be_noticed(source: str) -> None:
    assert list(_unread(source))
    assert not list(
        _unread(
            source.replace("return x", "return kernel_constraint, x").replace(
                "return 1", "return path, args"
            )
        )
    )
