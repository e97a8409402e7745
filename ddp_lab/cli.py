"""python -m ddp_lab run script.py --ranks 4 [arguments of the script ...]

python -m ddp_lab hosts 2 --rate 400mbit -- torchrun --nproc-per-node 2 train.py

python -m ddp_lab calibrate --transport tcp
"""

import argparse
import runpy
import sys
from pathlib import Path

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError
from ddp_lab.launch.launcher import PROCESSES, launch


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments_parser = parser()
    words = sys.argv[1:] if arguments is None else arguments
    at = words.index("--") if "--" in words else len(words)
    if words[:1] == ["hosts"]:
        return on_hosts(arguments_parser, words[:at], words[at + 1 :])
    options, rest = arguments_parser.parse_known_args(words[:at])
    rest += words[
        at if rest else at + 1 :
    ]  # it is the script's own if other arguments stand before
    if options.command == "calibrate":
        if rest:
            arguments_parser.error(f"unrecognized arguments: {' '.join(rest)}")
        from ddp_lab.costs.calibrate import calibrate

        try:
            print(calibrate(options.transport, options.rounds).table())
        except DdpLabError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    script = Path(options.script)
    if not script.is_file():
        print(f"run: no such script: {options.script}. Check the path.", file=sys.stderr)
        return 2
    limits = {"transport": options.transport, "timeout_s": options.timeout_s}
    try:
        launch(run_script, options.ranks, str(script), rest, **limits)
    except DdpLabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m ddp_lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    run = commands.add_parser(
        "run", help="run a script on several ranks of this machine", allow_abbrev=False
    )
    run.add_argument("script", help="each rank runs it; ddp_lab.init() gives it its communicator")
    run.add_argument("--ranks", type=int, default=2)
    run.add_argument("--transport", default="shm", choices=PROCESSES)
    run.add_argument("--timeout-s", type=float, default=86_400.0)
    run.epilog = "All other arguments, and those after --, are the script's own."
    fit = commands.add_parser(
        "calibrate", help="fit alpha, beta and gamma here, and hold them against measurements"
    )
    fit.add_argument("--transport", default="shm", choices=["shm", "tcp", "threads"])
    fit.add_argument("--rounds", type=int, default=36)
    hosts = commands.add_parser(
        "hosts", help="run a command on each of several hosts inside this machine"
    )
    hosts.add_argument("hosts", nargs="?", default="", metavar="N", help="how many")
    hosts.add_argument("--rate", help="what each link carries each way, such as 400mbit")
    hosts.add_argument("--latency", help="from host to host, such as 1ms, if the kernel has netem")
    hosts.epilog = "After -- comes the command, such as torchrun with its arguments."
    return parser


def on_hosts(
    arguments_parser: argparse.ArgumentParser, words: list[str], command: list[str]
) -> int:
    """Run what stands after -- on each host."""
    options, rest = arguments_parser.parse_known_args(words)
    if rest:
        print(f"hosts: this is no option: got {rest[0]}. The command follows --.", file=sys.stderr)
        return 2
    from ddp_lab.launch.hosts.command import run_on_hosts

    return run_on_hosts(options.hosts, options.rate, options.latency, command)


def run_script(comm: Communicator, script: str, arguments: list[str]) -> None:
    """Run a script as the main program of this rank."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")
