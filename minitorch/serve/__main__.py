"""Serve the models of a file over HTTP: `python -m minitorch.serve APP.py --port P`.

APP.py defines `async def setup(server)`, which deploys and links, and may define `options`, a dict
of arguments for `Server`.

May import: errors, extras, server; uvicorn, connections, http inside functions.
"""

import argparse
import asyncio
import inspect
import logging
import runpy
import signal
import socket
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.errors import MinitorchError, ServeError
from minitorch.extras import describe_missing
from minitorch.serve.server import Server

if TYPE_CHECKING:
    import uvicorn

GRACE_S = 20  # for requests under way, once told to end


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; print the address once it answers.

    Requests under way have `GRACE_S` to end; a second signal ends them now.
    """
    options = parser().parse_args(arguments)
    try:
        asyncio.run(serve(load_app(options.app), options.host, options.port))
    except (MinitorchError, ModuleNotFoundError, OSError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m minitorch.serve", description=__doc__)
    parser.add_argument("app", type=Path, metavar="APP.py")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    return parser


def load_app(path: Path) -> dict[str, object]:
    """Return the names of a file, under a module that is sent with its code: none can import it."""
    sys.path.insert(0, str(path.resolve().parent))
    if not path.is_file():
        raise ServeError(f"{path}: no such file")
    try:
        names = runpy.run_path(str(path), run_name="served_app")
    except Exception as error:
        raise ServeError(f"{path}: {type(error).__name__}: {error}") from error
    if not inspect.iscoroutinefunction(names.get("setup")):
        raise ServeError(f"{path}: defines no `async def setup(server)`")
    return names


def listen(host: str, port: int) -> socket.socket:
    """Return a listener whose connections send at once: Nagle's delay is 40 ms, twice the goal."""
    if not 0 <= port < 2**16:
        raise ServeError(f"cannot listen on port {port}: expected 0 to 65535, and 0 for any.")
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise ServeError(
            f"cannot listen on port {port} of {host}: {error.strerror}. Choose another with "
            "--port, or --port 0 for any. Help: when_it_does_not_work.html#ports-in-use"
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def serve(app: dict[str, Any], host: str, port: int) -> None:
    """Open a server as the file says, and answer HTTP until told to end."""
    try:
        import uvicorn

        from minitorch.serve.connections import AT_ONCE, connection
        from minitorch.serve.http import application
    except ImportError as error:
        raise ModuleNotFoundError(describe_missing("serve", "serve", error)) from error
    try:
        server = Server(**app.get("options", {}))
    except TypeError as error:
        raise ServeError(f"{app['__file__']}: options: {error}") from error
    config = uvicorn.Config(
        application(server), http=connection(), ws="none", backlog=AT_ONCE, log_level="warning",
        access_log=False,
    )  # fmt: skip
    front = uvicorn.Server(config)
    front.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    end_by_signal(front, server)
    with listen(host, port) as listener, suppress(asyncio.CancelledError):
        async with server:
            await app["setup"](server)
            print(f"Serving at http://{host}:{listener.getsockname()[1]}", flush=True)
            await front.serve([listener])


def end_by_signal(front: "uvicorn.Server", server: Server) -> None:
    """Have the first SIGINT or SIGTERM end the front in order, and the second one at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def end() -> None:
        if front.should_exit:
            cut()
        else:
            loop.call_later(GRACE_S, cut)
        front.should_exit = True
        if not front.started and task is not None:
            task.cancel()

    def cut() -> None:
        """Tell all who wait that this is the end; do not wait for those who never read or send."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # they are cut on purpose
        server.close()
        loop.call_later(1.0, leave)

    def leave() -> None:
        front.force_exit = True
        for held in list(front.server_state.connections):  # Python 3.12 would wait for them
            held.transport.abort()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)


if __name__ == "__main__":
    sys.exit(main())
