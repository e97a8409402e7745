"""The service's commands: those of a learner, and those of whoever runs a course.

`add_commands` imports nothing heavy; each command imports what it needs when it runs, and raises
what `autograder.cli` turns into one line on standard error.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from autograder.service.client import Connection

Command = Callable[[argparse.Namespace], int]

FORMATS = ("csv", "canvas", "moodle", "gradescope")
LOG_FORMATS = ("text", "json")
DEFAULT_PORT = 8000


def add_commands(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the service's commands; each sets `run`, a function of the arguments to an exit code."""
    _add_start(subparsers)
    _add_serve(subparsers)
    enroll = _command(subparsers, "enroll", _enroll, "enrol a learner and print their token")
    enroll.add_argument("name", metavar="NAME", help="the learner's name or login")
    enroll.add_argument("--renew", action="store_true", help="replace the token of one enrolled")
    submit = _command(subparsers, "submit", _submit, "hand in a notebook; prints its number")
    submit.add_argument("lab", metavar="LAB", help="the lab's name, with or without its number")
    submit.add_argument("notebook", metavar="NOTEBOOK", type=Path)
    status = _command(subparsers, "status", _status, "show the state and grade of a submission")
    status.add_argument("id", metavar="ID")
    export = _command(subparsers, "export", _export, "write the gradebook for another program")
    export.add_argument("--format", choices=FORMATS, default="csv", help="default: csv")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of printing it")
    export.add_argument("--data", type=Path, metavar="DIR", help="read this directory, no server")
    export.add_argument("--lab", metavar="LAB", default="", help="this lab alone")
    export.add_argument(
        "--template", type=Path, metavar="FILE", help="what the platform exported, to be filled in"
    )
    for parser in (enroll, submit, status, export, _add_roster(subparsers), _add_staff(subparsers)):
        parser.add_argument("--server", metavar="URL", help="default: $AUTOGRADER_SERVER")
        parser.add_argument("--token", metavar="T", help="default: $AUTOGRADER_TOKEN")


def _add_roster(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    roster = subparsers.add_parser("roster", help="take over who takes the course")
    actions = roster.add_subparsers(metavar="ACTION", required=True, dest="action")
    found = _command(actions, "import", _roster_import, "take over a CSV: login,name,email,...")
    found.add_argument("file", metavar="FILE", type=Path)
    found.add_argument("--dry-run", action="store_true", help="only say what would change")
    return found


def _add_staff(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    staff = subparsers.add_parser("staff", help="add somebody who runs the course")
    actions = staff.add_subparsers(metavar="ACTION", required=True, dest="action")
    found = _command(actions, "add", _staff_add, "add a member of staff and print their token")
    found.add_argument("login", metavar="LOGIN")
    found.add_argument("--role", choices=("instructor", "assistant"), required=True)
    found.add_argument("--renew", action="store_true", help="replace the token of one added")
    found.add_argument(
        "--data", type=Path, metavar="DIR", help="write to this directory, no server"
    )
    return found


def _add_start(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(subparsers, "start", _start, "open the labs in JupyterLab, with a server")
    parser.add_argument("--port", type=_port, help="of the course server; default: 8000 or near")
    parser.add_argument("--lab-port", type=_port, help="of JupyterLab; default: 8888 or near")
    parser.add_argument("--labs", type=Path, metavar="DIR", help="default: labs")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", default=Path("work"), help="your copies"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="default: WORK/.course")
    parser.add_argument("--name", default=None, help="the learner; default: your login name")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")


def _add_serve(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _command(subparsers, "serve", _serve, "run the course server")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="0: any free one")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine alone")
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="kept here")
    parser.add_argument("--labs", type=Path, metavar="DIR", help="default: labs")
    parser.add_argument("--workers", type=_count, default=1, help="graded at once; default: 1")
    parser.add_argument("--scheduler", metavar="ADDR", default="", help="grade on a Dask cluster")
    parser.add_argument("--unsandboxed", action="store_true", help="grade without a sandbox")
    parser.add_argument("--database", metavar="URL", default="", help="default: SQLite in DIR")
    parser.add_argument(
        "--public-url", metavar="URL", default="", help="of the server, as learners reach it"
    )
    parser.add_argument(
        "--allowed-host",
        metavar="HOST",
        action="append",
        default=[],
        help="a name that clients may call the server by; may be given several times",
    )
    parser.add_argument(
        "--of-one-address",
        metavar="N",
        type=_connections,
        default=160,
        help="connections that one address may have, 0: any; default: 160",
    )
    parser.add_argument("--openid-issuer", metavar="URL", default="", help="sign in there, or ...")
    parser.add_argument("--jupyterhub", metavar="URL", default="", help="... at this JupyterHub")
    parser.add_argument("--client-id", metavar="ID", default="", help="of this server, there")
    parser.add_argument(
        "--client-secret-file", metavar="FILE", type=Path, help="with what was agreed on there"
    )
    parser.add_argument(
        "--openid-claim", metavar="NAME", default="preferred_username", help="that is the login"
    )
    parser.add_argument(
        "--lti", metavar="FILE", type=Path, help="the learning platforms that launch this course"
    )
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default="text", help="json: one object a line"
    )
    migrate = _command(subparsers, "migrate", _migrate, "bring a course's database up to date")
    backup = _command(subparsers, "backup", _backup, "write a course to a file, while it runs")
    backup.add_argument("file", metavar="FILE", type=Path)
    restore = _command(subparsers, "restore", _restore, "put a backup into an empty directory")
    restore.add_argument("file", metavar="FILE", type=Path)
    for found in (migrate, backup, restore):
        found.add_argument("--data", type=Path, metavar="DIR", required=True, help="the course's")
    migrate.add_argument("--database", metavar="URL", default="", help="default: SQLite in DIR")


def _command(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Command,
    says: str,
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=says, description=says[0].upper() + says[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected 0 to 65535")


def _connections(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 100_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected 0 to 100000")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 256:
        return int(text)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected 1 to 256")


def _connection(arguments: argparse.Namespace) -> "Connection":
    from autograder.service.client import Connection

    return Connection.found(arguments.server, arguments.token, os.environ)


def labs_directory(named: Path | None) -> Path:
    """Return the labs that were named, or `labs` here, or `labs` beside the package."""
    beside = Path(__file__).resolve().parents[2] / "labs"
    here = Path("labs")
    return named or (beside if beside.is_dir() and not here.is_dir() else here)


def _start(arguments: argparse.Namespace) -> int:
    from autograder.service.start import StartSettings, start

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


def _serve(arguments: argparse.Namespace) -> int:
    from autograder.service.serve import serve
    from autograder.service.settings import Settings

    return serve(
        Settings(
            data=arguments.data,
            labs=labs_directory(arguments.labs),
            host=arguments.host,
            port=arguments.port,
            database_url=arguments.database,
            public_url=arguments.public_url,
            workers=arguments.workers,
            scheduler=arguments.scheduler,
            unsandboxed=arguments.unsandboxed,
            allowed_hosts=tuple(arguments.allowed_host),
            of_one_address=arguments.of_one_address,
            openid_issuer=arguments.openid_issuer,
            jupyterhub=arguments.jupyterhub,
            client_id=arguments.client_id,
            client_secret=_secret(arguments.client_secret_file),
            openid_claim=arguments.openid_claim,
            lti=arguments.lti,
            log_format=arguments.log_format,
        )
    )


def _secret(path: Path | None) -> str:
    return "" if path is None else path.read_text().strip()


def _enroll(arguments: argparse.Namespace) -> int:
    found = _connection(arguments).enroll(arguments.name, renew=arguments.renew)
    print(f"{found['name']} is enrolled. The token, shown this once: {found['token']}")
    return 0


def _submit(arguments: argparse.Namespace) -> int:
    from autograder.learner.answer_files import with_files

    connection = _connection(arguments)
    notebook = with_files(read_notebook(arguments.notebook), arguments.notebook.parent)
    lab = Path(arguments.lab).resolve().name if os.sep in arguments.lab else arguments.lab
    found = connection.submit(lab, notebook, arguments.notebook.name)
    print(f"{found['lab']}: stored. {found['url']}")
    checks = found.get("checks")  # null where the server cannot read the lab's
    if checks:
        count, noun = checks["here"], "check runs" if checks["here"] == 1 else "checks run"
        print(f"{count} {noun} in the notebook, {checks['at_submission']} more at submission.")
    print(f"submission {found['id']}")
    return 0


def read_notebook(path: Path) -> bytes:
    """Return the bytes of a notebook's file.

    Raises:
        ServerError: there is no such file, or it cannot be read.
    """
    from autograder.service.errors import ServerError

    try:
        return path.read_bytes()
    except OSError as error:
        raise ServerError(f"submit: cannot read the notebook: {path}: {error.strerror}.") from error


def _status(arguments: argparse.Namespace) -> int:
    found = _connection(arguments).submission(arguments.id)
    said = f"submission {found['id']}: {found['lab']}: {found['state']}"
    if found["score"] is not None:
        said += f": {found['score']:g} of {found['max_score']:g} points{_pending(found['pending'])}"
    print(said if not found["reason"] else f"{said}. {found['reason']}")
    return 0


def _pending(count: int) -> str:
    waits = "1 answer waits" if count == 1 else f"{count} answers wait"
    return f", {waits} for a person" if count else ""


def _export(arguments: argparse.Namespace) -> int:
    if arguments.output is None:
        _write_export(arguments, sys.stdout.buffer)
        return 0
    partial = arguments.output.with_name(f"{arguments.output.name}.part")
    try:
        with partial.open("wb") as file:
            _write_export(arguments, file)
        partial.replace(arguments.output)  # so that a file of this name is whole
    finally:
        partial.unlink(missing_ok=True)
    return 0


def _write_export(arguments: argparse.Namespace, file: BinaryIO) -> None:
    if arguments.data is None:
        template = None if arguments.template is None else arguments.template.read_bytes()
        asked = {"lab": arguments.lab, "template": template}
        _connection(arguments).export_to(arguments.format, file, **asked)
        return
    from autograder.service.exports import book_of, chunks, export
    from autograder.service.platforms import filled
    from autograder.service.store import existing

    with existing(arguments.data) as store:
        if arguments.template is None:
            pieces = export(arguments.format, store.roster, store.ledger, lab=arguments.lab)
        else:
            book = book_of(store.roster, store.ledger, arguments.lab)
            pieces = filled(arguments.format, arguments.template.read_bytes(), book)
        for piece in chunks(pieces):
            file.write(piece.encode())


def _roster_import(arguments: argparse.Namespace) -> int:
    """Take over a roster; the exit code is 1 where some lines could not be taken."""
    from autograder.service.errors import ServerError

    try:
        data = arguments.file.read_bytes()
    except OSError as error:
        raise ServerError(f"roster: {arguments.file}: {error.strerror}.") from error
    found = _connection(arguments).roster(data, dry_run=arguments.dry_run)
    counts = ", ".join(f"{found[x]} {x}" for x in ("added", "changed", "unchanged", "removed"))
    print(f"{'Would be: ' if arguments.dry_run else ''}{counts}.")
    for problem in found["problems"]:
        print(f"line {problem['line']}: {problem['reason']}", file=sys.stderr)
    return 1 if found["problems"] else 0


def _staff_add(arguments: argparse.Namespace) -> int:
    asked = {"login": arguments.login, "role": arguments.role, "renew": arguments.renew}
    token = (
        _connection(arguments).add_staff(asked)["token"]
        if arguments.data is None
        else _add_staff_here(arguments.data, asked)
    )
    print(f"{arguments.login} is {arguments.role}. The token, shown this once: {token}")
    return 0


def _add_staff_here(data: Path, asked: dict[str, str]) -> str:
    from autograder.service.auth import Enrolment, enroll
    from autograder.service.errors import Refused, StartError
    from autograder.service.settings import Settings
    from autograder.service.store import existing

    with existing(data) as store:
        try:
            lives_s = Settings(data, data).bearer_s
            enrolment = Enrolment.read(asked, lives_s)
            by = "command line"
            return enroll(store.roster, enrolment, role=asked["role"], by=by)[1]
        except Refused as error:
            raise StartError(str(error)) from error


def _backup(arguments: argparse.Namespace) -> int:
    from autograder.service.backups import backup

    size = backup(arguments.data, arguments.file)
    print(f"{arguments.file}: {size} bytes, read back and whole.")
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    from autograder.service.backups import restore
    from autograder.service.server import data_directory, locked

    data = data_directory(arguments.data)
    with locked(data):
        restore(arguments.file, data)
    print(f"The course of {arguments.file} is in {data}.")
    return 0


def _migrate(arguments: argparse.Namespace) -> int:
    from autograder.service.server import locked
    from autograder.service.store import Store, existing

    with locked(arguments.data):
        if arguments.database:
            Store(arguments.database).close()
        else:
            with existing(arguments.data, migrate=True):
                pass
    print(f"The database of {arguments.data} is up to date.")
    return 0
