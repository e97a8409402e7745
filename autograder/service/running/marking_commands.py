"""What `autograder marking` says: who marks what, and what those who mark agree on."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from autograder.printable import printable
from autograder.service.client import Connection


def _list(connection: Connection, _arguments: Namespace) -> int:
    state = connection.grading()
    for p in state["piles"]:
        print(f"{p['lab']}: {p['question']}: {p['waiting']} of {p['written']} answers wait")
    for m in state["markers"]:
        parts = (", ".join(filter(None, a.values())) for a in m["assigned"])
        what = "; ".join(parts) or "nothing is assigned"
        waits = f"{m['waiting']} of {m['written']} answers wait, {m['marked']} marked"
        print(printable(f"{m['login']}: {waits}: {what}"))
    return 0


def _assign(connection: Connection, arguments: Namespace) -> int:
    body = {name: getattr(arguments, name) for name in ("login", "lab", "question", "section")}
    done = connection.grading("/assignments", body, "DELETE" if arguments.remove else "PUT")
    what = ", ".join(done[name] for name in ("lab", "question", "section") if done[name])
    print(f"{done['login']} {'no longer marks' if arguments.remove else 'marks'} {what}.")
    return 0


def _about(connection: Connection, arguments: Namespace, body: Any = None) -> dict[str, Any]:
    names = (arguments.lab, arguments.question, arguments.action)
    return connection.grading("/" + "/".join(quote(name, safe="") for name in names), body)


def _groups(connection: Connection, arguments: Namespace) -> int:
    for group in _about(connection, arguments)["groups"]:
        print(printable(f"{group['number']} answers: {' '.join(group['text'].split())[:200]}"))
    return 0


def _comments(connection: Connection, arguments: Namespace) -> int:
    for c in _about(connection, arguments)["comments"]:
        print(printable(f"{c['uses']} x {c['item'] or 'the whole answer'}: {c['text']}"))
    return 0


def _sample(connection: Connection, arguments: Namespace) -> int:
    if arguments.draw is not None:
        drawn = _about(connection, arguments, {"size": arguments.draw})["drawn"]
        print(f"{drawn} answers drawn.")
    state = _about(connection, arguments)
    twice, mean = len(state["pairs"]), state["mean_difference"]
    difference = "" if mean is None else f", mean absolute difference {mean:g}"
    print(f"{twice} of {state['sampled']} are marked twice{difference}")
    for p in state["pairs"]:
        first = "none" if p["first_points"] is None else f"{p['first_points']:g}"
        both = f"{p['first_by']} {first}, {p['second_by']} {p['second_points']:g}"
        print(f"submission {p['submission_id']}: {both}{', decided' if p['decided'] else ''}")
    return 0


ACTIONS: dict[str, Callable[[Connection, Namespace], int]] = {
    "list": _list,
    "assign": _assign,
    "groups": _groups,
    "comments": _comments,
    "sample": _sample,
}
