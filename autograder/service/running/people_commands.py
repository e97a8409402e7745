"""Commands about who is in a course: the roster, staff, and everybody's tokens."""

import argparse
import sys
from pathlib import Path

from autograder.printable import printable
from autograder.service.errors import Refused, ServerError, StartError
from autograder.service.running.commands import (
    Subparsers,
    asking,
    connection,
    group,
    read_file,
    require_data,
    write_atomically,
)
from autograder.service.settings import Settings


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands, all of which ask a server."""
    tokens = asking(subparsers, "tokens", _make_tokens, "give all learners a token, in a CSV")
    tokens.add_argument("-o", "--output", type=Path, metavar="FILE", required=True)
    tokens.add_argument("--section", metavar="NAME", default="", help="this section alone")
    tokens.add_argument("--renew", action="store_true", help="those too who have one: it ends")
    tokens.add_argument("--links", action="store_true", help="links that log in once, instead")
    actions = group(subparsers, "roster", "take over who takes the course")
    says = "take over a CSV: login,name,email,..."
    asking(actions, "import", _import_roster, says, "file", "--dry-run")
    says = "take over a platform's people (LTI)"
    asking(actions, "platform", _import_roster, says, "--dry-run").set_defaults(file=None)
    says = "let somebody leave; their work stays"
    asking(actions, "remove", _change_roster, says, "login").set_defaults(factor=None)
    says = "give a learner a factor on all labs' time"
    time = asking(actions, "time", _change_roster, says, "login")
    time.add_argument("factor", metavar="FACTOR", type=float)
    actions = group(subparsers, "staff", "add somebody who runs the course")
    says = "add a member of staff and print their token"
    staff = asking(actions, "add", _add_to_staff, says, "login", "--course")
    staff.add_argument("--role", choices=("instructor", "assistant"), required=True)
    staff.add_argument("--renew", action="store_true", help="replace the token of one added")
    staff.add_argument("--data", type=Path, metavar="DIR", help="write here, without a server")


def _make_tokens(arguments: argparse.Namespace) -> None:
    """Write the tokens to a file that its owner alone can read."""
    from autograder.service.reports.exports import csv_lines

    kind, path = "link" if arguments.links else "token", arguments.output
    if path.exists():
        raise ServerError(f"tokens: {path} is there already. Name another file.")
    people: list[dict[str, str]] = []
    try:
        with write_atomically(path, 0o600) as file:
            body = {"kind": kind, "section": arguments.section, "renew": arguments.renew}
            people = connection(arguments).send("POST", "tokens", body=body)["people"]
            columns = ("login", "name", "email", "section", kind)
            rows = ([person[name] for name in columns] for person in people)
            file.write("".join(csv_lines([columns, *rows])).encode())
    except OSError as error:
        lost = f" {len(people)} were given: then say --renew." if people else ""
        problem = f"tokens: cannot write {path}: {error.strerror}"
        raise ServerError(f"{problem}. Make room, or name another file.{lost}") from error
    print(f"{path}: {len(people)} {kind}{'' if len(people) == 1 else 's'}.")


def _import_roster(arguments: argparse.Namespace) -> int:
    """Take over a roster; the exit code is 1 where some lines could not be taken."""
    data = None if arguments.file is None else read_file(arguments.file, "roster")
    changes = connection(arguments).roster(data, dry_run=arguments.dry_run)
    counts = ", ".join(f"{changes[x]} {x}" for x in ("added", "changed", "unchanged", "removed"))
    print(f"{'Would be: ' if arguments.dry_run else ''}{counts}.")
    for problem in changes["problems"]:
        line = problem["line"]
        where = f"line {line}" if isinstance(line, int) else printable(line)
        print(f"{where}: {problem['reason']}", file=sys.stderr)
    for login in changes.get("gone", ()):
        print(f"{printable(login)}: the platform lists them no more; they stay until removed")
    return 1 if changes["problems"] else 0


def _change_roster(arguments: argparse.Namespace) -> None:
    server, person, factor = connection(arguments), ("people", arguments.login), arguments.factor
    if factor is None:
        server.do("DELETE", *person)
        print(f"{arguments.login} is removed.")
    else:
        server.send("PUT", *person, "time", body={"factor": factor})
        print(f"{arguments.login} has {factor:g} times the time.")


def _add_to_staff(arguments: argparse.Namespace) -> None:
    require_data(arguments)
    body = {"login": arguments.login, "role": arguments.role, "renew": arguments.renew}
    token = (
        connection(arguments).send("POST", "staff", body=body)["token"]
        if arguments.data is None
        else _add_staff_here(arguments.data, arguments.course, body)
    )
    print(f"{arguments.login} is {arguments.role}. The token, shown this once: {token}")


def _add_staff_here(data: Path, course: str, asked: dict[str, str]) -> str:
    from autograder.service.records.roster.enrolment import enroll
    from autograder.service.running import courses

    with courses.open_course(data, "", course) as store:
        try:
            lives_s = Settings(data, data).bearer_s
            return enroll(store.roster, asked, lives_s, role=asked["role"], by="command line")[1]
        except Refused as error:
            raise StartError(str(error)) from error
