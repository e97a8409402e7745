"""The command `serve`: a course server in the foreground, with its log on standard error."""

import logging
import shutil
import sys

from autograder.service.errors import StartError
from autograder.service.server import TOKEN_FILE, Server, opened
from autograder.service.settings import Settings

_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM; print the address once it answers."""
    if not settings.unsandboxed and not shutil.which("bwrap"):
        raise StartError(
            "serve: no sandbox: bubblewrap is not installed. `sudo apt-get install bubblewrap`, "
            "or --unsandboxed where you trust every learner with this machine."
        )
    log_to_stderr()
    with opened(settings) as server:
        server.run(lambda: _say_ready(server, settings))
    return 0


def log_to_stderr() -> None:
    """Send the log of the service, and warnings of the rest, to standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING
    )
    logging.getLogger("autograder").setLevel(logging.INFO)


def _say_ready(server: Server, settings: Settings) -> None:
    if settings.host not in _LOCAL:
        print("Others on the network can reach this server. Put a proxy with TLS in front of it.")
    print(f"Labs: {', '.join(server.course.shelf.names)}")
    print(f"The instructor's token is in {settings.data / TOKEN_FILE}")
    print(f"Course server: {server.url}", flush=True)
