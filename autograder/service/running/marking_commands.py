"""What `autograder marking` says: who marks what, and what those who mark agree on."""

from argparse import ArgumentParser, Namespace
from typing import Any

from autograder.printable import printable
from autograder.service.running.commands import Subparsers, command, connection, group, whole


def add_commands(subparsers: Subparsers) -> list[ArgumentParser]:
    """Add the commands, all of which ask a server, and return them."""
    actions = group(subparsers, "marking", "who marks what, and what they agree on")
    listing = command(actions, "list", _list_markers, "say what waits, and how far everybody is")
    assign = command(actions, "assign", _assign, "let somebody of the staff mark something")
    assign.add_argument("login", metavar="LOGIN")
    for name in ("lab", "question", "section"):
        assign.add_argument(f"--{name}", metavar="NAME", default="", help=f"this {name} alone")
    assign.add_argument("--remove", action="store_true", help="no longer")
    groups = command(actions, "groups", _print_groups, "list the answers that are alike and wait")
    comments = command(actions, "comments", _print_comments, "list the comments that markers share")
    sample = command(actions, "sample", _draw_sample, "say how far two markers differ")
    says = "put N more answers into it"
    sample.add_argument("--draw", type=whole(1, 256), metavar="N", help=says)
    for parser in (groups, comments, sample):
        parser.add_argument("lab", metavar="LAB")
        parser.add_argument("question", metavar="QUESTION")
    return [listing, assign, groups, comments, sample]


def _list_markers(arguments: Namespace) -> None:
    state = connection(arguments).get("grading")
    for p in state["piles"]:
        print(f"{p['lab']}: {p['question']}: {p['waiting']} of {p['written']} answers wait")
    for m in state["markers"]:
        parts = (", ".join(filter(None, a.values())) for a in m["assigned"])
        assigned = "; ".join(parts) or "nothing is assigned"
        waits = f"{m['waiting']} of {m['written']} answers wait, {m['marked']} marked"
        print(printable(f"{m['login']}: {waits}: {assigned}"))


def _assign(arguments: Namespace) -> None:
    body = {name: getattr(arguments, name) for name in ("login", "lab", "question", "section")}
    method = "DELETE" if arguments.remove else "PUT"
    done = connection(arguments).send(method, "grading", "assignments", body=body)
    pile = ", ".join(done[name] for name in ("lab", "question", "section") if done[name])
    print(f"{done['login']} {'no longer marks' if arguments.remove else 'marks'} {pile}.")


def _about(arguments: Namespace, body: Any = None) -> dict[str, Any]:
    where = ("grading", arguments.lab, arguments.question, arguments.action)
    server = connection(arguments)
    return server.get(*where) if body is None else server.send("POST", *where, body=body)


def _print_groups(arguments: Namespace) -> None:
    for alike in _about(arguments)["groups"]:
        print(printable(f"{alike['number']} answers: {' '.join(alike['text'].split())[:200]}"))


def _print_comments(arguments: Namespace) -> None:
    for c in _about(arguments)["comments"]:
        print(printable(f"{c['uses']} x {c['item'] or 'the whole answer'}: {c['text']}"))


def _draw_sample(arguments: Namespace) -> None:
    if arguments.draw is not None:
        drawn = _about(arguments, {"size": arguments.draw})["drawn"]
        print(f"{drawn} answers drawn.")
    state = _about(arguments)
    twice, mean = len(state["pairs"]), state["mean_difference"]
    difference = "" if mean is None else f", mean absolute difference {mean:g}"
    print(f"{twice} of {state['sampled']} are marked twice{difference}")
    for p in state["pairs"]:
        first = "none" if p["first_points"] is None else f"{p['first_points']:g}"
        both = f"{p['first_by']} {first}, {p['second_by']} {p['second_points']:g}"
        print(f"submission {p['submission_id']}: {both}{', decided' if p['decided'] else ''}")
