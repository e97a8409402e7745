"""The public keys of those who sign tokens for us, kept for a while."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_KEPT_S = 600.0  # a key that was taken back is trusted no longer than this


class KeySets:
    """JSON Web Key Sets by address; `fetch` gives the JSON object that is at one."""

    def __init__(
        self, fetch: Callable[[str], dict[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: dict[str, tuple[float, KeySet]] = {}

    def claims(self, url: str, token: str, algorithms: list[str]) -> dict[str, Any]:
        """Return what a token says that a key of this address has signed.

        A key that is not among those kept is looked for once at the address: it may be new.

        Raises:
            JoseError: no key there has signed it.
        """
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError

        until, keys = self._kept.get(url, (0.0, None))
        if keys is not None and self._clock() < until:
            try:
                return dict(jwt.decode(token, keys, algorithms=algorithms).claims)
            except InvalidKeyIdError:
                pass
        return dict(jwt.decode(token, self._fetched(url), algorithms=algorithms).claims)

    def _fetched(self, url: str) -> "KeySet":
        from joserfc.jwk import KeySet

        keys = KeySet.import_key_set({"keys": self._fetch(url)["keys"]})
        self._kept[url] = self._clock() + _KEPT_S, keys
        return keys
