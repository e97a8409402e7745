"""Write runs of a branch and a loop by tokens as a page that plays without kernel or network.

python labs/demos/switch_merge_tokens/build.py         writes the page beside this file
python labs/demos/switch_merge_tokens/build.py PATH    writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

import minitorch.graph as tf
from minitorch.show import Scene, follow_tokens, page

PAGE = Path(__file__).with_name("switch_merge_tokens.html")


def branch(number: float) -> Scene:
    """Return a branch: half of what is large, one more than what is small."""
    with tf.Graph().as_default():
        x = tf.placeholder("float32", (), name="x")
        y = tf.cond(x > 4.0, lambda: x / 2.0, lambda: x + 1.0)
        return follow_tokens(y, {x: number}, title=f"x / 2 if x > 4 else x + 1, for x = {number:g}")


def loop(number: float, rounds: int = 2) -> Scene:
    """Return a loop: a power of x by repeated multiplication."""
    with tf.Graph().as_default():
        x = tf.placeholder("float32", (), name="x")
        start = [tf.constant(0, name="i"), tf.constant(1.0, name="y")]
        _, y = tf.while_loop(lambda i, y: i < rounds, lambda i, y: [i + 1, y * x], start)
        return follow_tokens(y, {x: number}, title=f"x ** {rounds} by a loop, for x = {number:g}")


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    return [replace(branch(6.0), tab="A branch"), replace(loop(3.0), tab="A loop")]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
