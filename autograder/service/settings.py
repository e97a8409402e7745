"""What the operator of a course server may turn. Every number has its reason beside it."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from autograder.service.errors import StartError

MIB = 1 << 20

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8000

_ADDRESS = re.compile(r"(\w+://)?[^\s/]+:\d{1,5}")  # of a Dask scheduler


@dataclass(frozen=True)
class Settings:
    """One server's settings. `data` holds the database, the instructor's token and the lock."""

    data: Path
    labs: Path
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    database_url: str = ""  # empty: SQLite in `data`
    public_url: str = ""  # as learners reach it; empty: the address that it listens on
    allowed_hosts: tuple[str, ...] = ()  # names that clients may call it by; none: any
    openid_issuer: str = ""  # sign-in by OpenID Connect, with ...
    jupyterhub: str = ""  # ... or by the JupyterHub at this address, with ...
    client_id: str = ""  # ... what it calls us, and ...
    client_secret: str = ""
    openid_claim: str = "preferred_username"  # ... what of the ID token is the login
    lti: Path | None = None  # a file that describes learning platforms
    passback_look_s: float = 2.0  # how soon a grade begins its way to a platform
    passback_again_s: float = 10.0  # the pause after a failure; it doubles, up to an hour
    scheduler: str = ""  # of a Dask cluster that grades; empty: this machine
    cluster: str = ""  # a class of Dask's that starts its workers as the queue needs them
    workers: int = 1
    unsandboxed: bool = False  # grade even where there is no sandbox
    log_format: str = "text"  # or "json", with a line for each request
    judge_s: float = 900.0  # a lab's own limit ends a submission long before; this, a stuck judge
    upload_bytes: int = 16 * MIB  # a notebook full of plots is 2 to 5 MiB
    kept_bytes: int = 1024 * MIB  # of one learner's notebooks: hundreds, full of plots
    upload_s: float = 60.0  # 16 MiB over a slow home line
    connections: int = 640  # with 80 of the database fewer than 1,024 descriptors; ...
    of_one_address: int = 160  # ... of which one address may have a quarter
    headers_s: float = 15.0  # a browser sends them in one packet
    burst: int = 60  # submissions that one learner may make at once ...
    per_minute: float = 30.0  # ... and then steadily: more than a person can
    lease_s: float = 30.0  # how soon another server takes over from one that is gone
    wrong_logins: int = 20  # that one address may send at once: a classroom that mistypes ...
    wrong_per_minute: float = 10.0  # ... and then steadily
    bearer_s: float = 180 * 86400.0  # a learner's token lives for a term and its exams
    session_s: float = 14 * 86400.0  # a browser stays logged in for two weeks
    code_s: float = 600.0  # a link from the notebook is followed now or never

    def verify(self) -> None:
        """Raise unless a server can start with these settings.

        Raises:
            StartError: an address is not valid, or options do not go together.
        """
        elsewhere = {"--openid-issuer": self.openid_issuer, "--jupyterhub": self.jupyterhub}
        for option, url in ({"--public-url": self.public_url} | elsewhere).items():
            parts = urlsplit(url)
            whole = parts.scheme in ("http", "https") and parts.netloc
            if url and (not whole or parts.query or parts.fragment):
                raise StartError(f"serve: {option}: got {url!r}, expected https://HOST.")
        named = [option for option, url in elsewhere.items() if url]
        if len(named) > 1:
            raise StartError(f"serve: {' and '.join(named)}: expected one of them.")
        if named and not (self.client_id and self.client_secret):
            raise StartError(f"serve: {named[0]} needs --client-id and --client-secret-file.")
        if self.scheduler and self.cluster:
            raise StartError("serve: --scheduler and --cluster: expected one of them.")
        if self.scheduler and not _ADDRESS.fullmatch(self.scheduler):
            got = f"got {self.scheduler!r}, expected tcp://HOST:PORT"
            raise StartError(f"serve: --scheduler: {got}, as the scheduler prints it.")
