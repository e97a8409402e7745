"""Serve the models of a file over HTTP: `python -m minitorch.serve APP.py --port P`.

APP.py defines `async def setup(server)`, which deploys and links, and may define `options`, a dict
of arguments for `Server`.

May import: everything of minitorch.serve; uvicorn.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from minitorch.errors import MinitorchError, ServeError
from minitorch.extras import missing
from minitorch.serve.server import Server


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; print the address once it answers."""
    parser = argparse.ArgumentParser(prog="python -m minitorch.serve", description=__doc__)
    parser.add_argument("app", type=Path, metavar="APP.py")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    told = parser.parse_args(arguments)
    try:
        asyncio.run(serve(loaded(told.app), told.host, told.port))
    except (MinitorchError, ModuleNotFoundError, OSError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return 1
    return 0


def loaded(path: Path) -> ModuleType:
    """Return the module of a file, under a name that no container can import.

    Raises:
        ServeError: no such file, it raises, or it has no `setup`.
    """
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location("served_app", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ServeError(f"{path}: no such file, or no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["served_app"] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ServeError(f"{path}: {type(error).__name__}: {error}") from error
    if not asyncio.iscoroutinefunction(getattr(module, "setup", None)):
        raise ServeError(f"{path}: defines no `async def setup(server)`")
    return module


async def serve(module: ModuleType, host: str, port: int) -> None:
    """Open a server as the module says, and answer HTTP until told to end."""
    try:
        import uvicorn

        from minitorch.serve.http import application
    except ImportError as error:
        raise ModuleNotFoundError(missing("serve", "serve", error)) from error

    class Answering(uvicorn.Server):
        """Says its address once it answers, and leaves signals to us."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            at = f"[{host}]" if ":" in host else host
            print(f"Serving at http://{at}:{listener.getsockname()[1]}", flush=True)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        try:
            server = Server(**getattr(module, "options", {}))
        except TypeError as error:
            raise ServeError(f"{module.__file__}: options: {error}") from error
        on_signal(asyncio.current_task().cancel)  # type: ignore[union-attr]
        with contextlib.suppress(asyncio.CancelledError):
            async with server:
                await module.setup(server)
                config = uvicorn.Config(application(server), log_level="warning", access_log=False)
                answering = Answering(config)
                on_signal(lambda: setattr(answering, "should_exit", True))
                await answering.serve([listener])


def on_signal(call: Callable[[], object]) -> None:
    """Have Ctrl-C and SIGTERM call this."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, call)


if __name__ == "__main__":
    sys.exit(main())
