"""Write the autodiff stepper as a page that plays without a kernel or a network.

python labs/demos/autodiff_stepper/build.py            writes autodiff_stepper.html beside this file
python labs/demos/autodiff_stepper/build.py PATH       writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

import minitorch as mt
from minitorch.show import Scene, page, step_through
from minitorch.show.autodiff_scene import draggable

PAGE = Path(__file__).with_name("autodiff_stepper.html")


def layer() -> Scene:
    """Return a layer with a bias that is broadcast over two rows."""
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    w = mt.tensor([[1.0, -1.0], [0.5, 1.0]], requires_grad=True)
    b = mt.tensor([0.5, -4.0], requires_grad=True)
    loss = (x @ w + b).relu().sum()
    return step_through(loss, names={"x": x, "w": w, "b": b}, title="A layer, and its loss")


def twice(number: float) -> Scene:
    """Return a value that is used twice: its gradient is the sum of two shares."""
    a = mt.tensor(number, requires_grad=True)
    b = mt.tensor(3.0, requires_grad=True)
    c = a * b
    return step_through((c + a) * c, names={"a": a, "b": b}, title="A value that is used twice")


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    dragged = draggable(twice, "a", [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return [replace(layer(), tab="A layer"), replace(dragged, tab="Used twice")]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
