"""Messages about what does not work end with a place of the page that says more."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import autograder.extras
import ddp_lab.extras
import minitorch.extras
from autograder.errors import AutograderError
from autograder.service.client import Connection
from ddp_lab.errors import DdpLabError
from ddp_lab.launch.hosts.hosts import find_tool, refusal
from minitorch.errors import ServeError
from minitorch.serve.__main__ import listen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "when_it_does_not_work.md"
PLACE = re.compile(r"when_it_does_not_work\.html#([\w-]*\w)")


def places(text: str) -> set[str]:
    """Return the places of a page: its headings, as the site names them."""
    heads = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", head).strip().lower().replace(" ", "-") for head in heads}


def test_every_place_that_a_message_names_is_on_the_page() -> None:
    packages = ("autograder", "ddp_lab", "minitorch")
    texts = [p.read_text() for name in packages for p in (ROOT / name).rglob("*.py")]
    named = {place for text in texts for place in PLACE.findall(text)}
    assert len(named) >= 8
    assert named - places(PAGE.read_text()) == set()


def test_every_line_of_the_doctor_is_explained() -> None:
    source = (ROOT / "autograder" / "sandbox" / "doctor.py").read_text()
    names = set(re.findall(r'Finding\(\s*"([a-z ]+)"', source))
    table = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(), re.MULTILINE)
    explained = {name for row in table for name in re.findall(r"`([a-z ]+)`", row)}
    assert len(names) > 10 and names - explained - {"worker"} == set()


def test_links_inside_the_page_lead_to_its_places() -> None:
    text = PAGE.read_text()
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) - places(text) == set()
    assert places("## Ports in use\n### q.check does nothing\n") == {
        "ports-in-use",
        "qcheck-does-nothing",
    }


def taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen("127.0.0.1", taken.getsockname()[1])


def no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    Connection(address, "token").submit("lab", b"{}")


def no_tool() -> None:
    find_tool("no-such-tool")


@pytest.mark.parametrize(
    "fails, place",
    [
        (taken_port, "ports-in-use"),
        (no_server, "the-server-cannot-be-reached"),
        (no_tool, "hosts-cannot-be-made"),
    ],
)
def test_what_goes_wrong_says_what_to_do_and_where_more_stands(
    fails: Callable[[], None], place: str
) -> None:
    with pytest.raises((AutograderError, DdpLabError, ServeError)) as caught:
        fails()
    assert str(caught.value).endswith(f"Help: when_it_does_not_work.html#{place}")


def test_the_line_of_an_extra_and_of_refused_namespaces_end_with_their_places() -> None:
    for package in (autograder.extras, ddp_lab.extras, minitorch.extras):
        line = package.describe_missing("work", "torch", ImportError("no torch"))  # type: ignore[arg-type]
        assert line.endswith("Help: when_it_does_not_work.html#something-is-not-installed")
    assert refusal("bridge", "Operation not permitted").endswith("#hosts-cannot-be-made")
