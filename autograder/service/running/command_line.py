"""The service's commands: those of a learner, and those of whoever runs a course.

`add_commands` imports nothing heavy; each command imports what it needs when it runs, and raises
what `autograder.cli` turns into one line on standard error.
"""

import argparse
import gc
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from autograder.printable import printable
from autograder.service.errors import StartError
from autograder.service.running import data_commands, people_commands, staff_commands
from autograder.service.running.commands import (
    Subparsers,
    asking,
    command,
    connection,
    read_file,
    require_data,
    whole,
    write_atomically,
)
from autograder.service.settings import Settings

FORMATS = ("csv", "canvas", "moodle", "gradescope", "totals")
FINAL = ("canvas", "moodle")  # those that get a score once nobody has to mark any more
LOG_FORMATS = ("text", "json")


def add_commands(subparsers: Subparsers) -> None:
    """Add the service's commands; each sets `run`, a `Command`."""
    _add_start(subparsers)
    _add_serve(subparsers)
    data_commands.add_commands(subparsers)
    enroll = asking(subparsers, "enroll", _enroll, "enrol a learner and print their token")
    enroll.add_argument("name", metavar="NAME", help="the learner's name or login")
    enroll.add_argument("--renew", action="store_true", help="replace the token of one enrolled")
    submit = asking(subparsers, "submit", _submit, "hand in a notebook; prints its number")
    submit.add_argument("lab", metavar="LAB", help="the lab's name, with or without its number")
    submit.add_argument("notebook", metavar="NOTEBOOK", type=Path)
    status = asking(subparsers, "status", _show_status, "show the state and grade of a submission")
    status.add_argument("id", metavar="ID")
    standing = asking(subparsers, "standing", _print_standing, "say how you stand in every lab")
    standing.add_argument("--calendar", type=Path, metavar="FILE", help="write your dates, .ics")
    says = "write the gradebook for another program"
    add = asking(subparsers, "export", _export, says, "--course", "--lab").add_argument
    add("--format", choices=FORMATS, default="csv", help="default: csv")
    add("-o", "--output", type=Path, metavar="FILE", help="instead of printing it")
    add("--data", type=Path, metavar="DIR", help="read this directory, no server")
    add("--template", type=Path, metavar="FILE", help="what the platform exported, to be filled in")
    says = "list the re-grade requests that wait"
    requests = asking(subparsers, "requests", _list_open, says, "--lab")
    requests.add_argument("--answered", action="store_true", help="those that were answered")
    asking(subparsers, "today", _print_today, "say what waits for staff, and what is due")
    people_commands.add_commands(subparsers)
    staff_commands.add_commands(subparsers)


def _add_start(subparsers: Subparsers) -> None:
    add = command(
        subparsers, "start", _start, "open the labs in JupyterLab, with a server"
    ).add_argument
    add("--port", type=_port, help="of the course server; default: 8000 or near")
    add("--lab-port", type=_port, help="of JupyterLab; default: 8888 or near")
    add("--labs", type=Path, metavar="DIR", help="default: labs")
    add("--work", type=Path, metavar="DIR", default=Path("work"), help="your copies")
    add("--data", type=Path, metavar="DIR", help="default: WORK/.course")
    add("--name", default=None, help="the learner; default: your login name")
    add("--no-browser", action="store_true", help="open no browser")


def _add_serve(subparsers: Subparsers) -> None:
    """Add `serve`; what it takes is called as in `Settings`, which also says what holds else."""
    parser = command(subparsers, "serve", _serve, "run the course server")
    parser.set_defaults(**{field.name: field.default for field in fields(Settings)})

    def add(flag: str, takes: str, help: str, **how: Any) -> None:
        parser.add_argument(flag, metavar=takes, help=help, **how)

    add("--port", "PORT", "0: any free one", type=_port)
    add("--host", "HOST", "default: this machine alone")
    add("--data", "DIR", "kept here", type=Path, required=True)
    add("--labs", "DIR", "default: labs", type=Path, default=None)
    add("--workers", "N", "graded at once; default: 1", type=_count)
    add("--scheduler", "ADDR", "grade on a Dask cluster, or ...")
    add("--cluster", "CLASS", "... on one of this class that grows with the queue to --workers")
    parser.add_argument("--unsandboxed", action="store_true", help="grade without a sandbox")
    add("--database", "URL", "default: SQLite in DIR", dest="database_url")
    add("--public-url", "URL", "of the server, as learners reach it")
    says = "a name that clients may call the server by; may be given several times"
    add("--allowed-host", "HOST", says, action="append", dest="allowed_hosts", default=[])
    says = "connections that one address may have, 0: any; default: 160"
    add("--of-one-address", "N", says, type=_connections)
    add("--openid-issuer", "URL", "sign in there, or ...")
    add("--jupyterhub", "URL", "... at this JupyterHub")
    add("--client-id", "ID", "of this server, there")
    add("--client-secret-file", "FILE", "with what was agreed on there", type=Path)
    add("--openid-claim", "NAME", "that is the login")
    add("--lti", "FILE", "the learning platforms that launch this course", type=Path)
    says = "json: one object a line"
    parser.add_argument("--log-format", choices=LOG_FORMATS, help=says)


_port, _connections, _count = whole(0, 65535), whole(0, 100_000), whole(1, 256)


def labs_directory(named: Path | None) -> Path:
    """Return the labs that were named, or `labs` here, or those of the checkout or the wheel."""
    package = Path(__file__).resolve().parents[2]
    places = (Path("labs"), package.parent / "labs", package / "course")
    return named or next((place for place in places if place.is_dir()), places[0])


def _start(arguments: argparse.Namespace) -> int:
    from autograder.service.running.start import StartSettings, start

    return start(
        StartSettings(
            labs=labs_directory(arguments.labs),
            work=arguments.work,
            data=arguments.data or arguments.work / ".course",
            port=arguments.port,
            lab_port=arguments.lab_port,
            name=arguments.name,
            browser=not arguments.no_browser,
        )
    )


def _serve(arguments: argparse.Namespace) -> None:
    gc.disable()  # what is imported stays: to look for garbage in it is a seventh of the start
    from autograder.service.running.server import serve

    gc.freeze()
    gc.enable()
    values = {field.name: getattr(arguments, field.name) for field in fields(Settings)}
    values |= {
        "labs": labs_directory(arguments.labs),
        "allowed_hosts": tuple(arguments.allowed_hosts),
        "client_secret": _read_secret(arguments.client_secret_file),
    }
    serve(Settings(**values))


def _read_secret(path: Path | None) -> str:
    try:
        text = "" if path is None else path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StartError(f"serve: --client-secret-file: cannot read {path}: {why}.") from error
    if path is not None and not text:
        raise StartError(f"serve: --client-secret-file: {path} is empty. Write the secret into it.")
    return text


def _enroll(arguments: argparse.Namespace) -> None:
    learner = connection(arguments).enroll(arguments.name, renew=arguments.renew)
    print(f"{learner['name']} is enrolled. The token, shown this once: {learner['token']}")


def _submit(arguments: argparse.Namespace) -> None:
    from autograder.learner.answer_files import with_files

    server = connection(arguments)
    data = read_file(arguments.notebook, "submit: cannot read the notebook")
    notebook = with_files(data, arguments.notebook.parent)
    lab = Path(arguments.lab).resolve().name if os.sep in arguments.lab else arguments.lab
    receipt = server.submit(lab, notebook, arguments.notebook.name)
    print(f"{receipt['lab']}: stored. {receipt['url']}")
    checks = receipt.get("checks")  # null where the server cannot read the lab's
    if checks:
        count, noun = checks["here"], "check runs" if checks["here"] == 1 else "checks run"
        print(f"{count} {noun} in the notebook, {checks['at_submission']} more at submission.")
    print(f"submission {receipt['id']}")


def _show_status(arguments: argparse.Namespace) -> None:
    submission = connection(arguments).submission(arguments.id)
    line = f"submission {submission['id']}: {submission['lab']}: {submission['state']}"
    if submission["score"] is not None:
        line += f": {_points(submission)}"
    elif submission.get("held_back"):
        line += ": grades are held back"
    print(line if not submission["reason"] else f"{line}. {submission['reason']}")


def _points(grade: dict[str, Any]) -> str:
    """Return a score in words, with what people still have to mark."""
    count = grade["pending"]
    waits = "1 answer waits" if count == 1 else f"{count} answers wait"
    later = f", {waits} for a person" if count else ""
    return f"{grade['score']:g} of {grade['max_score']:g} points{later}"


def _export(arguments: argparse.Namespace) -> int:
    """Write the gradebook; the exit code is 1 where not every line could be filled in."""
    require_data(arguments)
    if arguments.output is None:
        notes = _write_export(arguments, sys.stdout.buffer)
    else:
        with write_atomically(arguments.output) as file:
            notes = _write_export(arguments, file)
    is_final = arguments.template is not None or arguments.format in FINAL
    for line in (*notes["problems"], *notes["skipped"], *(notes["not_final"] if is_final else ())):
        print(f"export: {line}", file=sys.stderr)
    return 1 if notes["problems"] else 0


def _write_export(arguments: argparse.Namespace, file: BinaryIO) -> dict[str, Any]:
    """Write the gradebook to `file`; return what is to be said of it."""
    template = None if arguments.template is None else read_file(arguments.template, "export")
    if arguments.data is None:
        server, lab = connection(arguments), arguments.lab
        server.export_to(arguments.format, file, lab=lab, template=template)
        notes = {"format": arguments.format, "lab": lab}
        if template is not None:
            return server.send("POST", "export", "notes", body=template, **notes)
        if arguments.format not in FINAL:
            return {"problems": [], "skipped": [], "not_final": []}
        return server.get("export", "notes", **notes)
    from autograder.service.reports.exports import Book, chunks, export, not_final
    from autograder.service.reports.platforms import fill_template
    from autograder.service.running import courses

    with courses.open_course(arguments.data, "", arguments.course) as store:
        book = Book(store.roster, store.submissions, arguments.lab)
        problems, skipped = list[str](), list[str]()
        if template is None:
            _, pieces = export(arguments.format, store.roster, store.submissions, lab=arguments.lab)
        else:
            done = fill_template(arguments.format, template, book)
            pieces, problems, skipped = done.lines(), done.problems, done.skipped
        for piece in chunks(pieces):
            file.write(piece.encode())
        return {"problems": problems, "skipped": skipped, "not_final": not_final(book)}


def _print_standing(arguments: argparse.Namespace) -> None:
    server = connection(arguments)
    if arguments.calendar is not None:
        with write_atomically(arguments.calendar) as file:
            file.write(server.text("calendar").encode())
        print(f"{arguments.calendar}: your dates.")
        return
    now = server.get("standing")
    for lab in now["labs"]:
        points = "" if lab["score"] is None else f", {_points(lab)}"
        points = ", grades held back" if lab["held_back"] else points
        points += ", dropped" if lab["dropped"] else ""
        due = f", due {lab['due']}" if lab["due"] else ""
        print(f"{lab['lab']}: {lab['state']}{points}{due}")
    print(f"{now['score']:g} of {now['max_score']:g} points, {now['missing']} missing.")
    if now["total"] is not None:
        print(f"Course total: {now['total']:.1%}. {now['rule']}")


def _print_today(arguments: argparse.Namespace) -> None:
    now = connection(arguments).get("today")
    for lab in now["labs"]:
        print(f"{lab['name']}: {lab['came_in']} came in, {lab['to_mark']} learners to mark")
    for requests in now["requests"]:
        print(f"{requests['lab']}: {requests['waiting']} re-grade requests wait")
    for date in now["deadlines"]:
        print(f"{date['lab']}: {date['what']} {date['at']}")
    for s in now["stumbles"]:
        print(f"{s['lab']}: {s['question']}: {s['failed']} of {s['tried']} failed: {s['check']}")
    if now["my_marking"] is not None:
        print(f"my marking: {now['my_marking']} answers wait")
    queue = now["queue"]
    print(f"{queue['waiting'] + queue['grading']} wait, {len(queue['parked'])} put aside")
    if queue["paused"]:
        print(f"grading is paused: {queue['reason']}")


def _list_open(arguments: argparse.Namespace) -> None:
    server = connection(arguments)
    for r in server.requests(lab=arguments.lab, answered=arguments.answered):
        where = f"submission {r['submission_id']}: {r['question']}: {r['learner']}"
        print(printable(f"{r['asked_at']} {r['lab']}: {where}: {' '.join(r['text'].split())}"))
