"""What the service's commands share: parsers, the server that is asked, files that are read."""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from autograder.service.errors import ServerError

if TYPE_CHECKING:
    from autograder.service.client import Connection

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Command = Callable[[argparse.Namespace], int | None]  # an exit status; None is 0


# Arguments that several commands take.
_SHARED: dict[str, dict[str, Any]] = {
    "file": {"metavar": "FILE", "type": Path},
    "lab": {"metavar": "LAB"},
    "login": {"metavar": "LOGIN"},
    "question": {"metavar": "QUESTION"},
    "--course": {"metavar": "NAME", "default": "", "help": "with --data: one of several courses"},
    "--dry-run": {"action": "store_true", "help": "only say what would change"},
    "--lab": {"metavar": "LAB", "default": "", "help": "this lab alone"},
}


def command(
    subparsers: Subparsers, name: str, run: Command, says: str, *shared: str
) -> argparse.ArgumentParser:
    """Return the parser of a command that `run` carries out, with these of the shared arguments."""
    parser = subparsers.add_parser(name, help=says, description=says[0].upper() + says[1:] + ".")
    parser.set_defaults(run=run)
    for argument in shared:
        parser.add_argument(argument, **_SHARED[argument])
    return parser


def asking(
    subparsers: Subparsers, name: str, run: Command, says: str, *shared: str
) -> argparse.ArgumentParser:
    """Return the parser of a command that asks a server; see `command`."""
    parser = command(subparsers, name, run, says, *shared)
    parser.add_argument("--server", metavar="URL", help="default: $AUTOGRADER_SERVER")
    parser.add_argument("--token", metavar="T", help="default: $AUTOGRADER_TOKEN")
    return parser


def group(subparsers: Subparsers, name: str, says: str) -> Subparsers:
    """Return where the commands `NAME ACTION` are added."""
    parser = subparsers.add_parser(name, help=says)
    return parser.add_subparsers(metavar="ACTION", required=True, dest="action")


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return what reads an argument that is a whole number of `least` to `most`."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {least} to {most}")

    return read


def connection(arguments: argparse.Namespace) -> "Connection":
    """Return the server that is named, and by whose token it is asked."""
    from autograder.service.client import Connection

    chosen = Connection.choose(arguments.server, arguments.token, os.environ)
    return replace(chosen, operation=arguments.command)


def read_file(path: Path, what: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        ServerError: there is no such file, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServerError(f"{what}: {path}: {error.strerror}.") from error


@contextmanager
def write_atomically(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give what becomes the file `path` once it is whole; what is no file, as a pipe, is kept."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def require_data(arguments: argparse.Namespace) -> None:
    """Refuse the name of a course to a command that asks a server, whose address names it.

    Raises:
        ServerError: it has one.
    """
    if arguments.course and arguments.data is None:
        address = f"--server URL/courses/{arguments.course}"
        raise ServerError(f"{arguments.command}: --course needs --data. Of a server say {address}.")
