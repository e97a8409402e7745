"""Pictures: what is drawn, where it stands, and what a terminal prints."""

import itertools
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch import nn
from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.show import show
from minitorch.show.layout import GAP_X, place
from minitorch.tensor.tensor import Tensor, tensor


def loss_of(model: nn.Module) -> Tensor:
    x = tensor(np.ones((5, 8), np.float32))
    loss: Tensor = F.cross_entropy(model(x), tensor([0, 1, 2, 1, 0]))
    return loss


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


def test_a_loss_shows_operators_shapes_values_and_gradients_by_name() -> None:
    net = model()
    loss = loss_of(net)
    loss.backward(retain_graph=True)
    picture = show(loss, names=net)
    assert "0.weight" in picture.text
    assert "grad" in picture.text
    assert f"{loss.item():.3g}" in picture.text
    assert "(5, 6) float32" in picture.text
    titles = picture.record.names
    assert titles.index("0.weight") < titles.index("relu") < len(titles) - 1


def test_the_svg_is_well_formed_has_every_box_and_asks_for_nothing_outside() -> None:
    picture = show(loss_of(model()), names={"<&>": tensor([1.0])})
    root = ElementTree.fromstring(picture.svg)
    rects = root.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(rects) == len(picture.record.names) + 1  # and the paper
    assert "href" not in picture.svg
    assert "url(" not in picture.svg.replace("url(#mt-tip)", "")


def test_names_that_look_like_markup_are_only_text() -> None:
    x = tensor([1.0]).requires_grad_()
    svg = show(x * 2.0, names={"<script>": x}).svg
    assert "<script>" not in svg
    assert "&lt;script&gt;" in svg


def test_a_notebook_gets_svg_and_a_terminal_text(tmp_path: Path) -> None:
    picture = show(loss_of(model()))
    bundle = picture._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == repr(picture) == picture.text
    picture.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text() == picture.svg


def test_a_graph_is_shown_with_its_control_dependencies() -> None:
    tf.reset_default_graph()
    w = tf.Variable(np.ones(3, np.float32), name="w")
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    picture = show(step)
    assert " after %" in picture.text
    assert "w  (3,) float32" in picture.text
    assert 'class="wire dashed"' in picture.svg


def test_a_whole_graph_is_shown_from_its_ends() -> None:
    with tf.Graph().as_default() as graph:
        with pytest.raises(ArgumentError, match="no operators"):
            show(graph)
        x = tf.placeholder(tf.float32, [3], "x")
        w = tf.Variable(tf.random_normal([3]), name="w")
        total = tf.reduce_sum(x * w, name="total")
        loop = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w[0]), [0, total])
        picture = show(graph)
    assert {"x", "w", "total", "while"} <= {*picture.record.names}
    assert "random_normal" not in picture.text  # it is how the variable begins
    assert picture.scenes
    assert show({"a": total, "b": [loop[1], (x,)]}).text.count("total") == 1


def test_a_traced_function_is_shown() -> None:
    traced = tf.trace(lambda a: {"k": (a @ a).relu()})(tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert "relu" in show(traced).text


def test_a_deep_chain_is_cut_and_says_so() -> None:
    x = tensor([1.0]).requires_grad_()
    for _ in range(3000):
        x = x * 1.0
    picture = show(x, limit=20)
    assert len(picture.record.names) == 20
    assert "not shown" in picture.text
    assert "not drawn" in picture.svg


def test_what_is_not_a_value_is_refused() -> None:
    with pytest.raises(ArgumentError, match="ndarray"):
        show(np.ones(3))
    with pytest.raises(ArgumentError, match="limit 0"):
        show(tensor([1.0]), limit=0)
    with pytest.raises(ArgumentError, match="names"):
        show(tensor([1.0]), names=3)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_never_overlap_and_arrows_point_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    sizes = {i: (float(rng.uniform(20, 200)), float(rng.uniform(15, 60))) for i in range(n)}
    edges = [(int(rng.integers(i)), i) for i in range(1, n) for _ in range(int(rng.integers(1, 4)))]
    layout = place(sizes, edges)
    for a, b in itertools.combinations(range(n), 2):
        (xa, ya), (xb, yb) = layout.centers[a], layout.centers[b]
        apart_x = abs(xa - xb) >= (sizes[a][0] + sizes[b][0]) / 2 + GAP_X - 1e-6
        apart_y = abs(ya - yb) >= (sizes[a][1] + sizes[b][1]) / 2 - 1e-6
        assert apart_x or apart_y
    for (a, b), path in zip(edges, layout.paths, strict=True):
        assert layout.centers[a][1] < layout.centers[b][1]
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(path))
    assert all(x - sizes[i][0] / 2 >= -1e-6 for i, (x, _) in layout.centers.items())
    assert max(x + sizes[i][0] / 2 for i, (x, _) in layout.centers.items()) <= layout.width + 1e-6


def test_a_cycle_and_an_empty_drawing_can_be_laid_out() -> None:
    loop = place({0: (20.0, 10.0), 1: (20.0, 10.0)}, [(0, 1), (1, 0)])
    assert loop.centers[0][1] < loop.centers[1][1]
    empty = place({}, [])
    assert (empty.width, empty.height) == (0, 0)
