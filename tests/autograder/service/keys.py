"""The keys that platforms and providers sign with, in the tests of launches and of signing in."""

import functools

from joserfc.jwk import RSAKey


@functools.cache  # made by the first test that signs, in no process that only collects the tests
def signing_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one"})


@functools.cache
def foreign_key() -> RSAKey:
    """Return a key that says the id of the other."""
    return RSAKey.generate_key(2048, {"kid": "one"})
