"""What every widget owes to everybody: names, order, focus, contrast, no motion, no request.

Each is looked at on its page from a file, in light and dark; in JupyterLab, in the dark; in Voila
and in JupyterLab in light it is where its own tests have opened it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages import expect

DEMOS = Path(__file__).parents[2] / "labs" / "demos"
PAGES = {
    "adaptive_batching": ".mt-player",
    "attention": ".mt-player",
    "autodiff_stepper": ".mt-player",
    "collectives_explorer": ".dl-chart",
    "continuous_batching": ".mt-player",
    "ddp_timeline": ".dl-chart",
    "distribution_options": ".dl-chart",
    "graph_passes": ".mt-player",
    "language_model": ".mt-player",
    "lineage": ".dl-chart",
    "loop_nest": ".mt-player",
    "matrix_split": ".dl-chart",
    "memory_plan": ".mt-player",
    "parameter_servers": ".dl-chart",
    "pipeline_schedules": ".dl-chart",
    "plan_on_mesh": ".dl-chart",
    "ring_player": ".ring-player",
    "roofline": ".dl-chart",
    "search_race": ".mt-player",
    "scaling_curves": ".dl-chart",
    "switch_merge_tokens": ".mt-player",
    "symbolic_and_imperative": ".mt-player",
    "training_curves": ".dl-chart",
}
WIDGETS = ".mt-player, .dl-chart, .ring-player"

pytestmark = pytest.mark.browser


def test_every_demo_has_its_page() -> None:
    assert {path.stem for path in DEMOS.glob("*/*.html")} == set(PAGES)
    assert {path.stem for path in DEMOS.glob("*/*.ipynb")} == set(PAGES)


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.wide)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_owes_nothing_nor_on_a_telephone_in_the_dark(
    sheet: Any, audit: Any, name: str, turn: int
) -> None:
    """Each is gone through by Tab in one of the two, and they take turns."""
    is_first = (list(PAGES).index(name) + turn) % 2 == 0
    page = sheet((DEMOS / name / f"{name}.html").as_uri())
    assert audit(page, PAGES[name], keys=is_first) == []
    page.get_by_role("slider").first.press("ArrowRight")  # a step on, where more is seen
    assert page.locator(PAGES[name]).evaluate_all("(nodes) => nodes.flatMap(audit)") == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 400, "height": 800})
    paper = page.locator(PAGES[name]).first.evaluate(
        "(node) => getComputedStyle(node).backgroundColor"
    )
    assert paper == "rgb(20, 24, 29)"
    wider = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0
    for box in page.locator(".dl-wide, .rp-stage, .mt-stage").all():
        if box.evaluate("(node) => node.scrollWidth > node.clientWidth"):
            expect(box).to_have_attribute("tabindex", "0")
    assert audit(page, PAGES[name], keys=not is_first) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_no_place_of_the_machine_that_made_it(name: str) -> None:
    text = (DEMOS / name / f"{name}.html").read_text(encoding="utf-8")
    assert re.findall(r"""(?:^|[\s"'(:>])(?:/[\w.-]+){2,}\.py|file:///?\w|[A-Z]:\\\\""", text) == []
    assert str(DEMOS.parents[1]) not in text


@pytest.fixture(scope="module")
def stepper(chromium: Any, audit: Any) -> Iterator[Any]:
    """A page whose widget owes nothing, to be spoilt again and again: it keeps how it was."""
    context = chromium.new_context(offline=True, reduced_motion="reduce")
    page = context.new_page()
    page.goto((DEMOS / "autodiff_stepper" / "autodiff_stepper.html").as_uri())
    page.evaluate("() => { window.as_it_was = document.querySelector('.mt-player').outerHTML }")
    page.evaluate("() => { document.querySelector('.mt-player').outerHTML = window.as_it_was }")
    assert audit(page, ".mt-player") == []
    yield page
    context.close()


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("name of a control", "button.removeAttribute('aria-label'); button.title = '';"
         "button.textContent = ''"),
        ("order of its own", "button.tabIndex = 3"),
        ("not reached by Tab", "button.parentElement.append(document.createElement('button'));"
         "button.parentElement.lastChild.textContent = 'x'; button.addEventListener('focus',"
         " () => button.blur())"),
        ("focus is not seen", "button.style.outline = 'none'"),
        ("size of a target", "button.style.cssText = 'min-height: 0; height: 12px; font: 8px a'"),
        ("contrast of a control", "button.style.borderColor = '#eeeeee'"),
        ("contrast of a text", "root.querySelector('h3').style.color = '#999999'"),
        ("contrast of a text", "root.querySelector('.mt-stage text').style.fill = '#999999'"),
        ("contrast of a text", "root.querySelector('.mt-stage text').style.opacity = '0.4'"),
        ("name of a picture", "root.querySelector('.mt-stage svg').removeAttribute('aria-label')"),
        ("name of the whole", "root.removeAttribute('aria-label')"),
        ("role of a control", "root.querySelector('.mt-stage').removeAttribute('role');"
         "root.querySelector('.mt-stage').tabIndex = 0"),
        ("value in words", "root.querySelector('[type=range]').removeAttribute('aria-valuetext')"),
        ("a reference to nothing", "button.setAttribute('aria-controls', 'nothing')"),
        ("an id twice", "button.id = root.querySelector('.mt-stage').id"),
        ("a tab alone", "button.setAttribute('role', 'tab')"),
        ("texts over each other", "root.querySelector('h3').style.position = 'absolute'"),
        ("what it says now", "root.querySelector('[role=status]').textContent = ''"),
    ],
)  # fmt: skip
def test_a_widget_that_owes_something_is_found(
    stepper: Any, audit: Any, rule: str, spoil: str
) -> None:
    stepper.evaluate(
        "() => { document.querySelector('.mt-player').outerHTML = window.as_it_was;"
        " const root = document.querySelector('.mt-player');"
        f" const button = root.querySelector('.mt-controls button'); {spoil} }}"
    )
    assert any(problem.startswith(rule) for problem in audit(stepper, ".mt-player"))


# JupyterLab

CELLS = [
    """import numpy as np
import minitorch as mt
import minitorch.graph as tf
from ddp_lab import DistributedDataParallel, launch
from ddp_lab.data_parallel import measure, typical
from ddp_lab.data_parallel.measurement.backward_profile import profile_backward
from ddp_lab.show import CollectivesExplorer, DdpTimeline, RingPlayer, ScalingCurves, ServerTimeline
from ddp_lab.show import DistributionOptions, Lineage, Roofline, TrainingCurves, explore, watch
from minitorch.show import both_ways, compare_passes, follow_tokens, map_memory
from minitorch.show import step_through

def loss(model):
    return (model(mt.ones(8, 16)) ** 2).mean()

def run(comm):
    net = mt.nn.Sequential(mt.nn.Linear(16, 16), mt.nn.Linear(16, 16))
    profile = profile_backward(net, loss)
    ddp = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=0.001)
    steps = measure(ddp, loss, mt.optim.SGD(net.parameters(), lr=1e-3))
    return profile, typical(steps)

profile, step = launch(run, 2, transport="threads")[0]
timeline = DdpTimeline.of(profile, ranks=2, recorded=step, bucket_mib=0.25)
timeline""",
    'CollectivesExplorer(explore([2, 3], {"all_reduce": ("ring", "tree")}))',
    'ServerTimeline(consistency="ssp")',
    "ScalingCurves()",
    "Lineage()",
    "Roofline()",
    """shares = {"1": 0.9, "2": 0.8, "4": 0.7, "8": 0.6}
DistributionOptions(dict.fromkeys(("copies", "end", "each", "model"), shares))""",
    'TrainingCurves({"ring": [3, 2, 1], "tree": [3, 1, 0.5]}, log_y=True)',
    """ring = lambda comm, x: comm.all_reduce(x, algorithm="ring")
RingPlayer(watch(ring, [np.arange(8.0) + 1] * 2).story("Two ranks"))""",
    """x = mt.tensor([1.0, 2.0], requires_grad=True)
step_through((x * x).sum(), names={"x": x})""",
    """a = tf.placeholder("float32", (), name="a")
follow_tokens(tf.cond(a > 0.0, lambda: a * 2.0, lambda: -a), {a: 1.0})""",
    """b = tf.placeholder("float32", (2, 2), name="b")
compare_passes(tf.exp(b) + tf.exp(b), passes=["cse"])""",
    "map_memory(tf.matmul(tf.exp(b), b))",
    'both_ways("x = mt.tensor([1.0])", "x = tf.constant([1.0])")',
]  # fmt: skip


def test_in_jupyterlab_every_widget_owes_nothing_in_the_dark(in_lab: Any, audit: Any) -> None:
    browser, page = in_lab(CELLS, theme="Dark", height=11000, reduced_motion="reduce")
    expect(page.locator(WIDGETS)).to_have_count(len(CELLS))
    papers = page.locator(WIDGETS).evaluate_all(
        "(nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert set(papers) == {"rgb(20, 24, 29)"}
    assert audit(page, WIDGETS) == []
    assert browser.hosts <= {"127.0.0.1", ""}


# Voila


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_index_leads_to_every_demo(voila: str, visit: Any, audit: Any, scheme: str) -> None:
    browser = visit(color_scheme=scheme)
    page = browser.open(voila)
    links = page.get_by_role("main").get_by_role("link")
    found = links.evaluate_all("(nodes) => nodes.map((node) => node.getAttribute('href'))")
    assert sorted(found) == [f"/voila/render/{name}/{name}.ipynb" for name in sorted(PAGES)]
    page.evaluate("() => document.querySelector('main').setAttribute('aria-label', 'Demos')")
    problems = [p for p in audit(page, "main") if "what it says now" not in p and "whole" not in p]
    assert problems == []
    assert browser.hosts == {"127.0.0.1"}
