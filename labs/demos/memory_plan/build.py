"""Write the memory plan of a network as a page that plays without a kernel or a network.

python labs/demos/memory_plan/build.py         writes memory_plan.html beside this file
python labs/demos/memory_plan/build.py PATH    writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

import minitorch.graph as tf
from minitorch.show import Scene, map_memory, page

PAGE = Path(__file__).with_name("memory_plan.html")


def network(layers: int, backward: bool, width: int = 64, batch: int = 256) -> Scene:
    """Return the plan of a network of equal layers, forward or forward and backward."""
    with tf.Graph().as_default():
        x = tf.placeholder("float32", (batch, width), name="x")
        weights = [tf.Variable(tf.zeros((width, width)), name=f"w{i}") for i in range(layers)]
        h = x
        for w in weights:
            h = tf.tanh(tf.matmul(h, w))
        loss = tf.reduce_mean(h)
        fetches = [loss, *tf.gradients(loss, weights)] if backward else [loss]
        what = "forward and backward" if backward else "forward"
        return map_memory(fetches, title=f"{layers} layers, {what}")


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    return [
        replace(network(4, backward=True), tab="Training"),
        replace(network(4, backward=False), tab="Inference"),
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
