"""This server as a tool of learning platforms: launches, people, grades sent, and its own key."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from autograder.service.errors import StartError
from autograder.service.identity.lti.launches import Launches, read_platforms
from autograder.service.identity.lti.links import Links
from autograder.service.identity.lti.passback import Passback
from autograder.service.identity.lti.people import LtiPeople, Members
from autograder.service.identity.lti.sessions import Sessions
from autograder.service.records.outbox import Outbox
from autograder.service.records.store import Store
from autograder.service.settings import Settings


@dataclass(frozen=True)
class LtiTool:
    """What platforms talk to; `keys` is the public half of the key, as a JSON Web Key Set."""

    launches: Launches
    people: LtiPeople
    members: Members
    links: Links
    passback: Passback
    keys: dict[str, Any]


def lti_tool(
    settings: Settings, store: Store, url: str, private_key: bytes, title_of: Callable[[str], str]
) -> LtiTool:
    """Return the tool at the address `url`, with the platforms of `settings.lti`.

    `title_of` says how a lab is called there.

    Raises:
        StartError: the file of the platforms, or the key, cannot be read.
    """
    import authlib  # noqa: F401  (missed now, not by the first grade that is sent)
    from joserfc.jwk import RSAKey

    assert settings.lti is not None
    platforms, clock = read_platforms(settings.lti), store.clock
    try:
        key = RSAKey.import_key(private_key)
    except ValueError as error:
        problem = "the key in the data directory, lti.key, cannot be read"
        raise StartError(f"serve: --lti: {problem}. Delete it, and there is another.") from error
    key.ensure_kid()
    public = key.as_dict(private=False, use="sig", alg="RS256")
    outbox = Outbox(store.database, clock, settings.passback_again_s)
    look_s, shown = settings.passback_look_s, store.submissions.for_learners()
    people, launch = LtiPeople(store.database, clock), f"{url}/lti/launch"
    return LtiTool(
        Launches(platforms, launch, store.cookie_key, settings.code_s),
        people,
        Members(people, platforms, partial(Sessions, platforms, private_key)),
        Links(platforms, launch, key, store.cookie_key, settings.session_s, title_of),
        Passback(outbox, shown, platforms, private_key, title_of, clock=clock, look_s=look_s),
        {"keys": [public]},
    )


def new_key() -> bytes:
    """Return a private key as PEM."""
    from joserfc.jwk import RSAKey

    pem: bytes = RSAKey.generate_key(2048).as_pem(private=True)
    return pem
