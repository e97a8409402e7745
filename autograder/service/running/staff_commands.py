"""Commands about a course: who marks what, dates, grades, announcements."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from autograder.printable import printable
from autograder.service.errors import ServerError
from autograder.service.running.commands import (
    Subparsers,
    asking,
    connection,
    group,
    read_file,
    whole,
)


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands, all of which ask a server."""
    _add_marking(subparsers)
    actions = group(subparsers, "teams", "who works with whom on a lab, in a CSV")
    asking(actions, "show", _print_teams, "print them", "lab")
    says = "let people be in the teams that a CSV says"
    asking(actions, "set", _set_teams, says, "lab", "file", "--dry-run")
    asking(subparsers, "numbers", _print_numbers, "print how a lab went, a CSV", "lab")
    _add_schedule(subparsers)
    _add_announcements(subparsers)
    _add_term(subparsers)
    _add_grades(subparsers)


def _add_schedule(subparsers: Subparsers) -> None:
    actions = group(subparsers, "schedule", "the dates of all labs, in one CSV")
    asking(actions, "show", _print_schedule, "print it")
    asking(actions, "set", _change_schedule, "let the dates of a CSV hold", "file", "--dry-run")
    shift = asking(actions, "shift", _change_schedule, "move all dates by weeks", "--dry-run")
    shift.add_argument("weeks", metavar="WEEKS", type=int)
    says = "hold a lab's grades back from learners"
    asking(actions, "hold", _change_schedule, says, "lab", "--dry-run")
    says = "release the grades of a lab"
    asking(actions, "release", _change_schedule, says, "lab", "--dry-run")


def _print_schedule(arguments: argparse.Namespace) -> None:
    print(connection(arguments).text("schedule"), end="")


def _change_schedule(arguments: argparse.Namespace) -> None:
    action, dry_run = arguments.action, arguments.dry_run
    method, names = "PUT", ["schedule"]
    body: Any
    if action == "set":
        body = read_file(arguments.file, "schedule")
    elif action == "shift":
        method, names, body = "POST", ["schedule", "shift"], {"weeks": arguments.weeks}
    else:
        names, body = ["labs", arguments.lab, "held"], {"held": action == "hold"}
    changes = connection(arguments).send(method, *names, body=body, dry_run=dry_run)["changes"]
    for change in changes:
        for name, before in change["before"].items():
            print(f"{change['lab']}: {name}: {before} -> {change['after'][name]}")
    labs = f"{len(changes)} lab{'s' * (len(changes) != 1)}"
    print(f"{labs} {'would change' if dry_run else 'changed'}.")


def _add_term(subparsers: Subparsers) -> None:
    actions = group(subparsers, "term", "take the last term's dates, rule and comments over")
    asking(actions, "show", _show_term, "print the plan of this course, for the next term")
    says = "let a plan, or that of a backup, hold here"
    take = asking(actions, "import", _import_term, says, "--dry-run")
    take.add_argument("file", metavar="ARCHIVE", type=Path, help="a backup, or what `show` printed")
    when = take.add_mutually_exclusive_group(required=True)
    when.add_argument("--start", metavar="DAY", help="on which the first lab opens")
    when.add_argument("--weeks", metavar="N", type=int, help="by which all dates move")
    zone = "whose clocks keep their time, such as Europe/Zurich"
    take.add_argument("--zone", metavar="ZONE", required=True, help=zone)
    take.add_argument("--of", metavar="NAME", default="", help="of a backup: its course NAME")


def _show_term(arguments: argparse.Namespace) -> None:
    print(json.dumps(connection(arguments).get("term"), indent=1))


def _import_term(arguments: argparse.Namespace) -> int:
    """Take a term over; the exit code is 1 where something had to be left out."""
    from autograder.service.records.terms.plans import plan_of

    body = {"term": plan_of(arguments.file, arguments.of), "zone": arguments.zone}
    body |= {"weeks": arguments.weeks} if arguments.start is None else {"start": arguments.start}
    taken = connection(arguments).send("POST", "term", body=body, dry_run=arguments.dry_run)
    rule = [{"lab": "course total", **taken["rule"]}] if taken["rule"] else []
    for change in (*taken["changes"], *rule):
        for name, before in change["before"].items():
            if (after := change["after"][name]) != before:
                print(printable(f"{change['lab']}: {name}: {before} -> {after}"))
    for problem in taken["problems"]:
        print(printable(f"{problem['lab']}: {problem['reason']}"), file=sys.stderr)
    counts = ", ".join(f"{taken[name]} {name}" for name in ("added", "changed", "unchanged"))
    would = "Would be: " if arguments.dry_run else ""
    print(f"{would}labs: {counts}; comments: {taken['comments']} added.")
    return 1 if taken["problems"] else 0


def _print_teams(arguments: argparse.Namespace) -> None:
    print(connection(arguments).text("labs", arguments.lab, "teams"), end="")


def _set_teams(arguments: argparse.Namespace) -> None:
    data, dry_run = read_file(arguments.file, "teams"), arguments.dry_run
    teams = ("labs", arguments.lab, "teams")
    changes = connection(arguments).send("PUT", *teams, body=data, dry_run=dry_run)["changes"]
    for change in changes:
        before, after = (change[when] or "no team" for when in ("before", "after"))
        print(f"{change['login']}: {before} -> {after}")
    print(f"{len(changes)} {'would change' if dry_run else 'changed'}.")


def _print_numbers(arguments: argparse.Namespace) -> None:
    print(connection(arguments).text("labs", arguments.lab, "numbers", format="csv"), end="")


def _add_announcements(subparsers: Subparsers) -> None:
    actions = group(subparsers, "news", "announcements: read them, write them")
    asking(actions, "show", _print_announcements, "print them; what is unread has a star")
    write = asking(actions, "write", _announce, "announce what a file says, in Markdown", "file")
    write.add_argument("--section", metavar="NAME", default="", help="this section alone")
    write.add_argument("--starts", metavar="TIME", help="with its zone; default: now")
    write.add_argument("--ends", metavar="TIME", help="with its zone; default: never")
    withdraw = asking(actions, "withdraw", _withdraw, "remove one")
    withdraw.add_argument("number", metavar="N", type=int)


def _print_announcements(arguments: argparse.Namespace) -> None:
    for news in connection(arguments).announcements():
        star = "* " if news["unread"] else ""
        to = f" to {news['section']}" if news["section"] else ""
        print(printable(f"{star}{news['id']}: {news['starts']}, {news['by']}{to}"))
        for line in news["text"].splitlines():
            print(printable(f"    {line}"))


def _announce(arguments: argparse.Namespace) -> None:
    try:
        text = read_file(arguments.file, "news").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ServerError(f"news: {arguments.file}: this is no text in UTF-8.") from error
    body = {"text": text, "section": arguments.section}
    body |= {name: getattr(arguments, name) for name in ("starts", "ends")}
    number = connection(arguments).send("POST", "announcements", body=body)["id"]
    print(f"announcement {number}")


def _withdraw(arguments: argparse.Namespace) -> None:
    connection(arguments).do("DELETE", "announcements", str(arguments.number))
    print(f"announcement {arguments.number} is withdrawn.")


def _add_grades(subparsers: Subparsers) -> None:
    actions = group(subparsers, "grades", "decide about whole labs and the course total")
    whose = ("login", "lab")
    points = asking(actions, "set", _decide, "set what a learner has in a lab", *whose)
    excuse = asking(actions, "excuse", _decide, "let a lab not count for a learner", *whose)
    asking(actions, "reset", _decide, "take back what was decided", *whose)
    points.add_argument("points", metavar="POINTS", type=float)
    points.add_argument("--of", type=float, metavar="MOST", help="default: what the lab gives")
    for parser in (points, excuse):
        parser.add_argument("--comment", default="", metavar="TEXT", help="why, for staff")
    says = "say how labs make up the course total, or change it"
    add = asking(actions, "rule", _set_rule, says).add_argument
    add("--drop", type=int, metavar="N", help="the N lowest labs do not count")
    add("--weight", action="append", metavar="LAB=W", help="may be given several times")
    add("--by-points", action="store_true", help="no weights: points are added")


def _decide(arguments: argparse.Namespace) -> None:
    decision: dict[str, Any] = {}
    if arguments.action == "set":
        decision = {"points": arguments.points, "comment": arguments.comment}
        decision |= {} if arguments.of is None else {"max_score": arguments.of}
    elif arguments.action == "excuse":
        decision = {"excused": True, "comment": arguments.comment}
    grade = ("labs", arguments.lab, "grades", arguments.login)
    now = connection(arguments).send("PUT", *grade, body=decision)
    counts = "is excused" if now["excused"] else "counts as it is graded"
    if now.get("points") is not None:
        counts = f"counts {now['points']:g} of {now['max_score']:g} points"
    print(f"{now['login']}: {now['lab']} {counts}.")


def _set_rule(arguments: argparse.Namespace) -> None:
    server, changes = connection(arguments), dict[str, Any]()
    if arguments.drop is not None:
        changes["drop_lowest"] = arguments.drop
    if arguments.by_points:
        changes["weights"] = {}
    elif arguments.weight:
        changes["weights"] = server.get("rule")["weights"]
        for text in arguments.weight:
            lab, _, weight = text.partition("=")
            try:
                changes["weights"][lab] = float(weight)
            except ValueError:
                raise ServerError(f"rule: --weight: got {text!r}, expected LAB=NUMBER.") from None
    rule = server.send("PUT", "rule", body=changes) if changes else server.get("rule")
    print(rule["words"])


def _add_marking(subparsers: Subparsers) -> None:
    actions = group(subparsers, "marking", "who marks what, and what they agree on")
    asking(actions, "list", _list_markers, "say what waits, and how far everybody is")
    assign = asking(actions, "assign", _assign, "let somebody of the staff mark something", "login")
    for name in ("lab", "question", "section"):
        assign.add_argument(f"--{name}", metavar="NAME", default="", help=f"this {name} alone")
    assign.add_argument("--remove", action="store_true", help="no longer")
    about = ("lab", "question")
    asking(actions, "groups", _print_groups, "list the answers that are alike and wait", *about)
    asking(actions, "comments", _print_comments, "list the comments that markers share", *about)
    sample = asking(actions, "sample", _draw_sample, "say how far two markers differ", *about)
    says = "put N more answers into it"
    sample.add_argument("--draw", type=whole(1, 256), metavar="N", help=says)


def _list_markers(arguments: argparse.Namespace) -> None:
    state = connection(arguments).get("grading")
    for p in state["piles"]:
        print(f"{p['lab']}: {p['question']}: {p['waiting']} of {p['written']} answers wait")
    for m in state["markers"]:
        parts = (", ".join(filter(None, a.values())) for a in m["assigned"])
        assigned = "; ".join(parts) or "nothing is assigned"
        waits = f"{m['waiting']} of {m['written']} answers wait, {m['marked']} marked"
        print(printable(f"{m['login']}: {waits}: {assigned}"))


def _assign(arguments: argparse.Namespace) -> None:
    body = {name: getattr(arguments, name) for name in ("login", "lab", "question", "section")}
    if not (arguments.lab or arguments.question or arguments.section):
        problem = f"nothing is named that {arguments.login} marks"
        raise ServerError(f"marking: {problem}. Say --lab, --question or --section.")
    method = "DELETE" if arguments.remove else "PUT"
    done = connection(arguments).send(method, "grading", "assignments", body=body)
    pile = ", ".join(done[name] for name in ("lab", "question", "section") if done[name])
    print(f"{done['login']} {'no longer marks' if arguments.remove else 'marks'} {pile}.")


def _about(arguments: argparse.Namespace, body: Any = None) -> dict[str, Any]:
    where = ("grading", arguments.lab, arguments.question, arguments.action)
    server = connection(arguments)
    return server.get(*where) if body is None else server.send("POST", *where, body=body)


def _print_groups(arguments: argparse.Namespace) -> None:
    for alike in _about(arguments)["groups"]:
        print(printable(f"{alike['number']} answers: {' '.join(alike['text'].split())[:200]}"))


def _print_comments(arguments: argparse.Namespace) -> None:
    for c in _about(arguments)["comments"]:
        print(printable(f"{c['uses']} x {c['item'] or 'the whole answer'}: {c['text']}"))


def _draw_sample(arguments: argparse.Namespace) -> None:
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
