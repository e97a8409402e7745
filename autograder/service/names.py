"""What a login and a name may be."""

import re
import unicodedata

from autograder.service.errors import Refused

# Letters and digits of any script, and what stands inside names; first and last a letter, digit
# or dot. So no login is a spreadsheet formula, an option of a command, or markup.
_LOGIN = re.compile(r"\w(?:[\w .,'@+-]{0,98}[\w.])?")


def login_of(text: str) -> str:
    """Return a login, its spaces and signs in their usual form.

    Raises:
        Refused: 422, it cannot be one.
    """
    login = unicodedata.normalize("NFC", " ".join(text.split()))
    if not _LOGIN.fullmatch(login):
        raise Refused(
            422,
            f"enroll: this cannot be a name: got {login[:100]!r}, expected 1 to 100 letters, "
            "digits, spaces and . , ' @ + -, the first and last of them a letter or digit.",
        )
    return login


def as_given(text: str, what: str, most: int) -> str:
    """Return a text that is kept as it was given; exports see to it that it is no formula.

    Raises:
        Refused: 422, it is empty, too long, or has signs that cannot be shown.
    """
    text = text.strip()
    if 0 < len(text) <= most and text.isprintable():
        return text
    expected = f"1 to {most} characters that can be shown"
    raise Refused(422, f"{what}: got {text[:60]!r}, expected {expected}.")
