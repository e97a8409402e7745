"""Values that a browser keeps for us and cannot change: signed, for one purpose, for a while.

A sign-in that leads to another site has nobody to ask yet, so what it has to remember goes with the
browser, as a JSON Web Token under a key of this course (HS256; joserfc does it).

Source: RFC 7519.
"""

import time
from collections.abc import Mapping

from autograder.service.errors import Refused

_ALGORITHM = "HS256"


def sealed(values: Mapping[str, str], key: str, purpose: str, lives_s: float) -> str:
    """Return the values as a text for a cookie, which `unsealed` reads for `lives_s`."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    claims = {"values": dict(values), "aud": purpose, "exp": int(time.time() + lives_s)}
    return jwt.encode({"alg": _ALGORITHM}, claims, OctKey.import_key(key))


def unsealed(text: str, key: str, purpose: str) -> dict[str, str]:
    """Return what `sealed` was given.

    Raises:
        Refused: 403, it was sealed elsewhere, for something else, or too long ago.
    """
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import OctKey

    try:
        claims = jwt.decode(text, OctKey.import_key(key), algorithms=[_ALGORITHM]).claims
        registry = jwt.JWTClaimsRegistry(
            aud={"essential": True, "value": purpose}, exp={"essential": True}
        )
        registry.validate(claims)
        return dict(claims["values"])
    except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
        problem = "this browser did not ask for that, or too long ago"
        raise Refused(403, f"log in: {problem}. Start again.") from error
