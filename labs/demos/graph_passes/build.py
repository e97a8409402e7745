"""Write what graph passes do as a page that plays without a kernel or a network.

The passes ask a machine with fixed times, so that the page is the same wherever it is written.

python labs/demos/graph_passes/build.py         writes graph_passes.html beside this file
python labs/demos/graph_passes/build.py PATH    writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

import minitorch.graph as tf
from minitorch.graph.costs.machine import Fixed, use
from minitorch.show import Scene, compare_passes, page

PASSES = ("fold", "algebra", "cse", "matmul_chain", "fuse")
PAGE = Path(__file__).with_name("graph_passes.html")


def chain() -> Scene:
    """Return a chain of products in the wrong order, and work that is done twice."""
    with tf.Graph().as_default():
        a, b = (tf.placeholder("float32", (512, 512), name=name) for name in "AB")
        v = tf.placeholder("float32", (512, 1), name="v")
        y = tf.matmul(tf.matmul(a, b), v)
        scale = tf.constant(2.0) * 3.0
        twice = tf.exp(y * scale) + tf.exp(y * scale) * 1.0
        return compare_passes(twice, passes=PASSES, title="(A B) v, and work done twice")


def gradient() -> Scene:
    """Return a layer with its gradient, as it is built and as it runs."""
    with tf.Graph().as_default():
        x = tf.placeholder("float32", (64, 100), name="x")
        w = tf.Variable(tf.zeros((100, 10)), name="w")
        h = tf.nn.relu(tf.matmul(x, w))
        grads = tf.gradients(tf.reduce_mean(h * h), [w])
        return compare_passes(grads, passes=("fold", "cse", "fuse"), title="A layer's gradient")


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    with use(Fixed()):
        return [replace(chain(), tab="A chain"), replace(gradient(), tab="A gradient")]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
