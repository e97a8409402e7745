"""Write one model in two ways as a page that plays without a kernel or a network.

python labs/demos/symbolic_and_imperative/build.py         writes the page beside this file
python labs/demos/symbolic_and_imperative/build.py PATH    writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

from minitorch.show import Scene, both_ways, page

PAGE = Path(__file__).with_name("symbolic_and_imperative.html")

GRADIENT = (
    """
x = mt.tensor([1.0, 2.0])
w = mt.tensor([3.0, -1.0], requires_grad=True)
h = (x * w).relu()
print(h)
loss = (h * h).sum()
loss.backward()
print(w.grad)
""",
    """
x = tf.placeholder("float32", (2,), name="x")
w = tf.Variable([3.0, -1.0], name="w")
h = tf.nn.relu(x * w)
print(h)
loss = tf.reduce_sum(h * h)
[dw] = tf.gradients(loss, [w])
session = tf.Session()
session.run(tf.initialize_all_variables())
session.run([loss, dw], {x: [1.0, 2.0]})
""",
)

TWICE = (
    """
x = mt.tensor([1.0, 2.0], requires_grad=True)
y = (x + 1.0) * x
x = mt.tensor([5.0, 6.0], requires_grad=True)
y = (x + 1.0) * x
""",
    """
x = tf.placeholder("float32", (2,), name="x")
y = (x + 1.0) * x
session = tf.Session()
session.run(y, {x: [1.0, 2.0]})
session.run(y, {x: [5.0, 6.0]})
""",
)


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    return [
        replace(both_ways(*GRADIENT, title="A gradient, both ways"), tab="A gradient"),
        replace(both_ways(*TWICE, title="Define once, run twice"), tab="Run twice"),
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
