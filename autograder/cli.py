"""The command `autograder`. Parsing is cheap; each command imports what it needs when it runs.

Exit status: 0 done; 1 done, and the answer is no (a stale notebook, a wrong answer); 2 not done,
with a message on standard error.
"""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from autograder.errors import AutograderError
from autograder.extras import explain_import_error
from autograder.service.running.command_line import add_commands
from autograder.service.running.commands import Subparsers, whole

MAX_SECONDS = 7 * 24 * 3600


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows "?"
    arguments = parser().parse_args(argv)
    try:
        status: int | None = arguments.run(arguments)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        message = explain_import_error(f"autograder {arguments.command}", error)
        if message is None:
            raise
        print(message, file=sys.stderr)
        return 2
    except AutograderError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except UnicodeEncodeError as error:  # of a terminal that writes another encoding
        print(f"autograder: {arguments.command}: an argument is no UTF-8: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        cause = error.strerror or error
        what = f"{cause}: {error.filename}" if error.filename else f"{cause}"
        print(f"autograder: {arguments.command}: {what}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: stopped.", file=sys.stderr)
        return 130
    return status or 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="autograder", description="Labs released, graded, run.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    _add_release(commands)
    _add_check(commands)
    _add_grade(commands)
    _add_audit(commands)
    _add_exchange(commands)
    _add_learner(commands)
    doctor = commands.add_parser("doctor", help="say what this machine's sandbox can do")
    doctor.set_defaults(run=_doctor)
    add_commands(commands)
    return parser


def _add_release(commands: Subparsers) -> None:
    parser = commands.add_parser("release", help="make the learners' notebooks from the sources")
    parser.add_argument("labs", metavar="LABS", help="a lab's directory, or a directory of labs")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--out", metavar="DIR", type=Path, help="write DIR/<lab>/lab.ipynb")
    where.add_argument(
        "--in-place", action="store_true", help="write lab.ipynb beside lab.py, unproved"
    )
    where.add_argument("--check", action="store_true", help="say which lab.ipynb is stale")
    parser.add_argument("--solutions", action="store_true", help="with -o: solution.ipynb too")
    words = "with -o: colab.ipynb and the zip to upload there too"
    parser.add_argument("--colab", action="store_true", help=words)
    words = "with -o: do not try answers that do nothing, which takes seconds a lab"
    parser.add_argument("--no-audit", action="store_true", help=words)
    parser.set_defaults(run=_late("commands", "release"))


def _add_check(commands: Subparsers) -> None:
    parser = commands.add_parser("check", help="run a lab's public checks on a notebook")
    parser.add_argument("lab", metavar="LAB", type=Path, help="a directory with checks.py")
    parser.add_argument("notebook", metavar="NOTEBOOK", type=Path)
    parser.set_defaults(run=_late("commands", "check"))


def _add_grade(commands: Subparsers) -> None:
    parser = commands.add_parser("grade", help="grade submissions and write their reports")
    parser.add_argument("lab", metavar="LAB", type=Path, help="a directory: lab.py and checks.py")
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="notebooks, archives, directories"
    )
    parser.add_argument("-o", "--out", metavar="OUT", type=_path, required=True)
    parser.add_argument("--json", action="store_true", help="print each report as a line of JSON")
    parser.add_argument("--jobs", metavar="N", type=whole(1, 1024), help="default: all cores")
    parser.add_argument(
        "--timeout-s", metavar="S", type=_seconds, help="wall time of one submission"
    )
    parser.add_argument("--scheduler", metavar="ADDR", help="spread over a Dask cluster")
    parser.add_argument("--resume", action="store_true", help="leave what has a report already")
    parser.add_argument("--staff", action="store_true", help="details of failures in the JSON")
    parser.add_argument("--similarity", action="store_true", help="say which answers are alike")
    parser.set_defaults(run=_late("commands", "grade"))


def _add_audit(commands: Subparsers) -> None:
    parser = commands.add_parser("audit", help="break the solution in many ways: what is caught?")
    parser.add_argument("lab", metavar="LAB", type=Path)
    parser.add_argument("--json", action="store_true", help="print mutants, killed and survivors")
    parser.add_argument("--jobs", metavar="N", type=whole(1, 1024), help="default: all cores")
    parser.set_defaults(run=_late("commands", "audit"))


def _add_exchange(commands: Subparsers) -> None:
    for other in ("nbgrader", "otter"):
        name, words = f"import-{other}", f"make a lab of an {other} source"
        parser = commands.add_parser(name, help=words)
        parser.add_argument("notebook", metavar="NOTEBOOK", type=Path)
        parser.add_argument("-o", "--out", metavar="DIR", type=Path, required=True)
        parser.set_defaults(run=_import, other=other)
        name, words = f"export-{other}", f"make an {other} source of a lab"
        parser = commands.add_parser(name, help=words)
        parser.add_argument("lab", metavar="LAB", type=Path)
        parser.add_argument("-o", "--out", metavar="FILE", type=Path, required=True)
        parser.set_defaults(run=_export, other=other)


def _add_learner(commands: Subparsers) -> None:
    progress = commands.add_parser("progress", help="how far you are in every lab, in one table")
    reset = commands.add_parser("reset", help="begin a lab anew; your notebook is kept beside")
    reset.add_argument("lab", metavar="LAB", help="its name, with or without its number")
    words = "say which of your pieces a later lab uses, and where the course's own stand in"
    catch_up = commands.add_parser("catch-up", help=words)
    catch_up.add_argument("lab", metavar="LAB", nargs="?", help="default: every lab")
    named = ((progress, "show_progress"), (reset, "reset"), (catch_up, "catch_up"))
    for parser, function in named:
        parser.add_argument("--work", metavar="DIR", type=_path, help="the folder of your labs")
        parser.set_defaults(run=_late("learner.commands", function))


def _late(module: str, function: str) -> Callable[[argparse.Namespace], int | None]:
    """Return what a command does, whose module is imported once it runs."""

    def run(arguments: argparse.Namespace) -> int | None:
        work = getattr(importlib.import_module(f"autograder.{module}"), function)
        status: int | None = work(arguments)
        return status

    return run


def _import(arguments: argparse.Namespace) -> None:
    paths = _other(arguments.other).import_notebook(arguments.notebook, arguments.out)
    print("\n".join(map(str, paths)))


def _export(arguments: argparse.Namespace) -> None:
    from autograder.authoring.source import load_lab

    text = _other(arguments.other).export_notebook(load_lab(arguments.lab))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(arguments.out)


def _other(name: str) -> ModuleType:
    return importlib.import_module(f"autograder.formats.{name}")


def _doctor(arguments: argparse.Namespace) -> int:
    from autograder.sandbox.doctor import report

    lines, status = report()
    print("\n".join(lines))
    return status


def _path(text: str) -> Path:
    if not text:  # such as from a variable that is not set: it would mean this directory
        raise argparse.ArgumentTypeError("got '', expected a path.")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_SECONDS:
        expected = f"seconds, more than 0 and at most {MAX_SECONDS} (a week)"
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}.")
    return value
