"""The command `serve`: a course server in the foreground, with its log on standard error."""

import shutil

from autograder.service.errors import StartError
from autograder.service.logs import log_to_stderr
from autograder.service.server import TOKEN_FILE, Server, opened
from autograder.service.settings import Settings

_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM; print the address once it answers."""
    if not (settings.unsandboxed or settings.scheduler or shutil.which("bwrap")):
        raise StartError(
            "serve: no sandbox: bubblewrap is not installed. `sudo apt-get install bubblewrap`, "
            "or --unsandboxed where you trust every learner with this machine. "
            "Help: when_it_does_not_work.html#no-sandbox"
        )
    log_to_stderr(settings.log_format)
    with opened(settings) as server:
        server.run(lambda: _say_ready(server, settings))
    return 0


def _say_ready(server: Server, settings: Settings) -> None:
    if settings.host not in _LOCAL:
        print("Others on the network can reach this server. Put a proxy with TLS in front of it.")
    print(f"Labs: {', '.join(server.course.catalog.names)}")
    print(f"The instructor's token is in {settings.data / TOKEN_FILE}")
    print(f"Course server: {server.url}", flush=True)
