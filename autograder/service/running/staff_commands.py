"""Commands about a course: dates, grades of whole labs and of the course, announcements."""

import argparse
import sys
from pathlib import Path
from typing import Any

from autograder.service.running.commands import Subparsers, command, connection, group, read_file


def add_commands(subparsers: Subparsers) -> list[argparse.ArgumentParser]:
    """Add the commands; return those that ask a server."""
    actions = group(subparsers, "teams", "who works with whom on a lab, in a CSV")
    show = command(actions, "show", _print_teams, "print them")
    put = command(actions, "set", _set_teams, "let people be in the teams that a CSV says")
    for parser in (show, put):
        parser.add_argument("lab", metavar="LAB")
    put.add_argument("file", metavar="FILE", type=Path)
    put.add_argument("--dry-run", action="store_true", help="only say what would change")
    numbers = command(subparsers, "numbers", _print_numbers, "print how a lab went, a CSV")
    numbers.add_argument("lab", metavar="LAB")
    others = (*_add_schedule(subparsers), *_add_announcements(subparsers), *_add_term(subparsers))
    return [*_add_grades(subparsers), *others, show, put, numbers]


def _add_schedule(subparsers: Subparsers) -> list[argparse.ArgumentParser]:
    actions = group(subparsers, "schedule", "the dates of all labs, in one CSV")
    show = command(actions, "show", _print_schedule, "print it")
    put = command(actions, "set", _change_schedule, "let the dates of a CSV hold")
    shift = command(actions, "shift", _change_schedule, "move all dates by weeks")
    hold = command(actions, "hold", _change_schedule, "hold a lab's grades back from learners")
    release = command(actions, "release", _change_schedule, "release the grades of a lab")
    for parser in (hold, release):
        parser.add_argument("lab", metavar="LAB")
    put.add_argument("file", metavar="FILE", type=Path)
    shift.add_argument("weeks", metavar="WEEKS", type=int)
    for parser in (put, shift, hold, release):
        parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    return [show, put, shift, hold, release]


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


def _add_term(subparsers: Subparsers) -> list[argparse.ArgumentParser]:
    actions = group(subparsers, "term", "take the last term's dates, rule and comments over")
    show = command(actions, "show", _show_term, "print the plan of this course, for the next term")
    take = command(actions, "import", _import_term, "let a plan, or that of a backup, hold here")
    take.add_argument("file", metavar="ARCHIVE", type=Path, help="a backup, or what `show` printed")
    when = take.add_mutually_exclusive_group(required=True)
    when.add_argument("--start", metavar="DAY", help="on which the first lab opens")
    when.add_argument("--weeks", metavar="N", type=int, help="by which all dates move")
    zone = "whose clocks keep their time, such as Europe/Zurich"
    take.add_argument("--zone", metavar="ZONE", required=True, help=zone)
    take.add_argument("--of", metavar="NAME", default="", help="of a backup: its course NAME")
    take.add_argument("--dry-run", action="store_true", help="only say what would change")
    return [show, take]


def _show_term(arguments: argparse.Namespace) -> None:
    import json

    print(json.dumps(connection(arguments).get("term"), indent=1))


def _import_term(arguments: argparse.Namespace) -> int:
    """Take a term over; the exit code is 1 where something had to be left out."""
    from autograder.printable import printable
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


def _add_announcements(subparsers: Subparsers) -> list[argparse.ArgumentParser]:
    actions = group(subparsers, "news", "announcements: read them, write them")
    show = command(actions, "show", _print_announcements, "print them; what is unread has a star")
    write = command(actions, "write", _announce, "announce what a file says, in Markdown")
    write.add_argument("file", metavar="FILE", type=Path)
    write.add_argument("--section", metavar="NAME", default="", help="this section alone")
    write.add_argument("--starts", metavar="TIME", help="with its zone; default: now")
    write.add_argument("--ends", metavar="TIME", help="with its zone; default: never")
    withdraw = command(actions, "withdraw", _withdraw, "remove one")
    withdraw.add_argument("number", metavar="N", type=int)
    return [show, write, withdraw]


def _print_announcements(arguments: argparse.Namespace) -> None:
    from autograder.printable import printable

    for news in connection(arguments).announcements():
        star = "* " if news["unread"] else ""
        to = f" to {news['section']}" if news["section"] else ""
        print(printable(f"{star}{news['id']}: {news['starts']}, {news['by']}{to}"))
        for line in news["text"].splitlines():
            print(printable(f"    {line}"))


def _announce(arguments: argparse.Namespace) -> None:
    from autograder.service.errors import ServerError

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


def _add_grades(subparsers: Subparsers) -> list[argparse.ArgumentParser]:
    actions = group(subparsers, "grades", "decide about whole labs and the course total")
    points = command(actions, "set", _decide, "set what a learner has in a lab")
    excuse = command(actions, "excuse", _decide, "let a lab not count for a learner")
    reset = command(actions, "reset", _decide, "take back what was decided")
    for parser in (points, excuse, reset):
        parser.add_argument("login", metavar="LOGIN")
        parser.add_argument("lab", metavar="LAB")
    points.add_argument("points", metavar="POINTS", type=float)
    points.add_argument("--of", type=float, metavar="MOST", help="default: what the lab gives")
    for parser in (points, excuse):
        parser.add_argument("--comment", default="", metavar="TEXT", help="why, for staff")
    rule = command(
        actions, "rule", _set_rule, "say how labs make up the course total, or change it"
    )
    rule.add_argument("--drop", type=int, metavar="N", help="the N lowest labs do not count")
    rule.add_argument(
        "--weight", action="append", metavar="LAB=W", help="may be given several times"
    )
    rule.add_argument("--by-points", action="store_true", help="no weights: points are added")
    return [points, excuse, reset, rule]


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
    from autograder.service.errors import ServerError

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
