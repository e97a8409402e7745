"""Tokens: how they look, and how they are kept. Pure functions, standard library only.

A token is `<key>.<secret>`: the key finds the row, the secret proves the right to it. Only the
SHA-256 of the whole is stored. A plain hash is enough because the secret has 192 random bits:
there is nothing to guess, so nothing that a slow password hash would slow down. Both parts are
hexadecimal, so that a token never starts with `-` on a command line.
"""

import hashlib
import hmac
import re
import secrets

LOOKS_LIKE = r"[0-9a-f]{8}\.[0-9a-f]{48}"

_TOKEN = re.compile(LOOKS_LIKE)


def new_token() -> str:
    """Return a fresh token of 192 random bits."""
    return f"{secrets.token_hex(4)}.{secrets.token_hex(24)}"


def is_token(text: str) -> bool:
    """Return whether `text` has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def key_of(token: str) -> str:
    """Return the part that finds the row."""
    return token.partition(".")[0]


def digest(token: str) -> str:
    """Return what is stored in place of `token`."""
    return hashlib.sha256(token.encode()).hexdigest()


def matches(token: str, stored_digest: str) -> bool:
    """Return whether `token` is the one whose digest was stored, in constant time."""
    return hmac.compare_digest(digest(token), stored_digest)
