"""A running course server: data directory, store, queue, application and socket, put together.

`serve` is the command of that name: a server in the foreground, its log on standard error.
"""

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from sqlalchemy.exc import IntegrityError

from autograder.service.errors import Refused, StartError
from autograder.service.grading.catalog import LabCatalog
from autograder.service.grading.process import Grader, ProcessGrader
from autograder.service.grading.queue import Queue
from autograder.service.records.people import INSTRUCTOR, Roster
from autograder.service.records.store import Store, sqlite_url
from autograder.service.reports.everybodys_totals import TotalsWorker
from autograder.service.running import courses
from autograder.service.running.data_directory import claim_directory, data_directory, write_secret
from autograder.service.settings import Settings
from autograder.service.tokens import is_token, new_token
from autograder.service.web.app import create_app
from autograder.service.web.course import Course
from autograder.service.web.limits import Limits, protocol
from autograder.service.web.logs import log_to_stderr

if TYPE_CHECKING:
    from autograder.service.identity.lti.tool import LtiTool
    from autograder.service.identity.sign_in import SignIn

TOKEN_FILE = "instructor.token"
LTI_KEY_FILE = "lti.key"

_GRACE_S = 3
_LOCAL = ("127.0.0.1", "localhost", "::1")

log = logging.getLogger(__name__)


class Server:
    """A course server on a socket of its own; `run` serves until told to stop.

    `make_grader` is the seam for tests; without it each worker grades in a process of its own.
    """

    def __init__(self, course: Course, listener: socket.socket) -> None:
        self.course = course
        self._queue = course.queue
        self._listener = listener
        config = uvicorn.Config(
            create_app(course),
            http=protocol(course.settings.headers_s, course.settings.of_one_address),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=course.settings.connections,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._uvicorn = _Uvicorn(config)

    @property
    def url(self) -> str:
        """The address, such as "http://127.0.0.1:8000"."""
        return address(self._listener)

    def run(self, ready: Callable[[], None]) -> None:
        """Serve and grade until `stop`, SIGINT or SIGTERM; call `ready` once it answers."""
        self._uvicorn.ready = ready
        others = self.course.others.values()
        tools = [each.lti for each in (self.course, *others) if each.lti]
        self._queue.start(other.queue for other in others)
        threads = [self.course.totals, *(tool.passback for tool in tools)]
        for thread in threads:
            thread.start()
        try:
            self._uvicorn.run(sockets=[self._listener])
        finally:
            self._queue.stop()
            for thread in threads:
                thread.stop()

    def stop(self) -> None:
        """Ask `run` to return; may be called from any thread."""
        self._uvicorn.should_exit = True


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it answers, and leaves a stop signal's meaning to its caller."""

    ready: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def stop(_signal: int, _frame: FrameType | None) -> None:
            self.should_exit = True

        try:
            before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
        except ValueError:  # not the main thread, which keeps its own handlers
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def open_server(
    settings: Settings, make_grader: Callable[[], Grader] | None = None
) -> Iterator[Server]:
    """Open everything that a server needs, in order, and close it in reverse.

    Raises:
        StartError: a port, a directory or the database is not to be had; nothing is left open, nor
            behind where there was no course.
    """
    settings.verify()
    LabCatalog(settings.labs).require()
    with (
        listen(settings.host, settings.port) as listener,
        claim_directory(settings.data) as (data, undo),
        contextlib.ExitStack() as stack,
    ):
        if settings.cluster:
            from autograder.service.grading.dask import run_growing_cluster

            cluster = run_growing_cluster(settings.cluster, settings.workers)
            settings = replace(settings, scheduler=stack.enter_context(cluster))
        url = settings.public_url.rstrip("/") or address(listener)
        totals = TotalsWorker()
        first = stack.enter_context(_open_course(settings, data, url, totals, make_grader))
        others = {
            entry.name: stack.enter_context(_open_other_course(settings, data, url, totals, entry))
            for entry in courses.entries(first.store.database)
        }
        server = Server(replace(first, others=others), listener)
        undo.pop_all()
        yield server


@contextlib.contextmanager
def _open_course(
    settings: Settings,
    data: Path,
    url: str,
    totals: TotalsWorker,
    make_grader: Callable[[], Grader] | None = None,
    entry: courses.CourseEntry = courses.FIRST,
) -> Iterator[Course]:
    """Open a course whose files lie in `data`; only the one without a name has graders."""
    catalog = LabCatalog(settings.labs)
    catalog.require()
    opened_store = contextlib.closing(Store(settings.database_url or sqlite_url(data)))
    with opened_store as store, totals.serving(store.submissions):
        instructor_token(data, store.roster)
        node = node_name(data)
        freed = store.claims.free_orphans(node)
        if freed:
            log.info("%d submissions were being graded when the server ended: again", freed)
        queue = Queue(
            store.claims,
            make_grader or partial(_grader, settings, catalog.directory),
            owner=f"{node}/{os.getpid()}",
            solution=catalog.solution,
            workers=0 if entry.name else settings.workers,
            lease_s=settings.lease_s,
            labs=catalog.directory if entry.name else Path(),
        )
        yield Course(
            settings,
            url,
            store,
            catalog,
            queue,
            Limits(settings),
            _sign_in(settings, url),
            _lti(settings, data, store, url, catalog),
            entry.name,
            entry.title,
            totals=totals,
        )


def _open_other_course(
    settings: Settings, data: Path, url: str, totals: TotalsWorker, entry: courses.CourseEntry
) -> contextlib.AbstractContextManager[Course]:
    """Open a course beside the one at `/`."""
    own = replace(
        settings,
        database_url=courses.address(settings.database_url, entry.name),
        labs=Path(entry.labs) if entry.labs else settings.labs,
        lti=Path(entry.lti) if entry.lti else None,
        jupyterhub="",  # a hub leads its people back to one address of a service
    )
    try:
        LabCatalog(own.labs).require()
    except StartError as error:
        raise StartError(f"course {entry.name}: {error}") from error
    folder = data_directory(courses.folder(data, entry.name))
    path = f"{url}/{courses.FOLDER}/{entry.name}"
    return _open_course(own, folder, path, totals, entry=entry)


def _sign_in(settings: Settings, url: str) -> "SignIn | None":
    """Return the way to sign in elsewhere, if there is one."""
    if not (settings.openid_issuer or settings.jupyterhub):
        return None
    from autograder.service.identity.sign_in import Client, Hub, OpenId, SignIn

    client = Client(settings.client_id, settings.client_secret, f"{url}/signin/return")
    if settings.jupyterhub:
        return SignIn(Hub(settings.jupyterhub), client, "identify")
    provider = OpenId(settings.openid_issuer, client.id, settings.openid_claim)
    return SignIn(provider, client, "openid profile email")


def _lti(
    settings: Settings, data: Path, store: Store, url: str, catalog: LabCatalog
) -> "LtiTool | None":
    """Return this server as a tool of learning platforms, if it is one."""
    if settings.lti is None:
        return None
    from autograder.service.identity.lti.tool import lti_tool, new_key

    path = data / LTI_KEY_FILE
    if not path.exists():
        write_secret(path, new_key().decode())
    return lti_tool(settings, store, url, path.read_bytes(), catalog.title)


def _grader(settings: Settings, labs: Path) -> Grader:
    wall = None if settings.unsandboxed else "bubblewrap"
    if settings.scheduler:
        from autograder.service.grading.dask import ClusterGrader

        return ClusterGrader(labs, settings.scheduler, timeout_s=settings.judge_s, wall=wall)
    return ProcessGrader.behind(wall, labs, timeout_s=settings.judge_s)


def address(listener: socket.socket) -> str:
    """Return the URL of what listens here; where it listens everywhere, by the machine's name."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host`; port 0 takes any free one.

    Raises:
        StartError: the port is taken or not allowed, or the host is not one of this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1024)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no 40 ms of Nagle's
        return listener
    except OverflowError as error:
        raise StartError(f"serve: port: got {port}, expected 0 to 65535.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} is taken. Choose another with --port, or --port 0 for any. "
            problem += "Help: when_it_does_not_work.html#ports-in-use"
        elif error.errno == errno.EACCES:
            problem = f"port {port} is not allowed to you. Choose one above 1023"
        else:
            problem = f"cannot listen on {host}:{port}: {error.strerror}"
        raise StartError(f"serve: {problem}.") from error


def node_name(data: Path) -> str:
    """Return a name for "the server of this directory on this machine", the same every time."""
    return hashlib.sha256(f"{socket.gethostname()}:{data}".encode()).hexdigest()[:16]


def instructor_token(data: Path, roster: Roster) -> str:
    """Return the instructor's token, and let the file and the database agree on it.

    The file decides: it is written (mode 0600) when it is not there or holds no token, so a lost
    or leaked token is replaced by deleting the file and starting again.
    """
    path = data / TOKEN_FILE
    token = path.read_text(errors="replace").strip() if path.exists() else ""
    if not is_token(token):
        token = new_token()
        write_secret(path, token + "\n")
    try:
        _give_to_instructor(roster, token)
    except (Refused, IntegrityError):  # another server that starts now was first
        _give_to_instructor(roster, token)
    return token


def _give_to_instructor(roster: Roster, token: str) -> None:
    person = roster.find(INSTRUCTOR) or roster.add(INSTRUCTOR, INSTRUCTOR)
    if roster.owner(token, "bearer") is None:
        roster.give_token(person, "bearer", token=token)


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; print the address once it answers."""
    elsewhere = settings.scheduler or settings.cluster
    if not (settings.unsandboxed or elsewhere or shutil.which("bwrap")):
        raise StartError(
            "serve: no sandbox: bubblewrap is not installed. `sudo apt-get install bubblewrap`, "
            "or --unsandboxed where you trust every learner with this machine. "
            "Help: when_it_does_not_work.html#no-sandbox"
        )
    log_to_stderr(settings.log_format)
    with open_server(settings) as server:
        server.run(lambda: _say_ready(server, settings))


def _say_ready(server: Server, settings: Settings) -> None:
    if settings.host not in _LOCAL:
        print("Others on the network can reach this server. Put a proxy with TLS in front of it.")
    print(f"Labs: {', '.join(server.course.catalog.names)}")
    print(f"The instructor's token is in {settings.data / TOKEN_FILE}")
    for course in server.course.others.values():
        token = courses.folder(settings.data, course.name) / TOKEN_FILE
        print(f"{course.title}: {course.url}. The instructor's token is in {token}")
    print(f"Course server: {server.url}", flush=True)
