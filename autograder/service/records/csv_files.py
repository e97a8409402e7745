"""CSV as spreadsheets write it: between commas, semicolons or tabs, in UTF-8.

Excel's "Unicode Text" is UTF-16, and says so at its beginning.
"""

import codecs
import csv
import io

from autograder.service.errors import Refused

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Lines = list[tuple[int, list[str]]]  # the number of each in the file, and its cells


def decoded(data: bytes) -> str:
    """Return the text of a file that a spreadsheet wrote.

    Raises:
        UnicodeDecodeError: it is neither UTF-8 nor UTF-16 that says so.
    """
    return data.decode("utf-16" if data[:2] in _UTF_16 else "utf-8-sig")


def separator(text: str) -> str:
    """Return what stands between the cells of a CSV, by its first line.

    Excel's own first line says it: `sep=;`.
    """
    head = text.lstrip("\r\n").partition("\n")[0]
    return max(",;\t", key=head.count)


def describe_fault(error: UnicodeDecodeError | csv.Error) -> str:
    """Return what is wrong with a file that is no CSV, and what to do; "this" comes before it."""
    if isinstance(error, csv.Error):
        return f"is no CSV: {error}. Look for a quotation mark that is alone in its cell."
    return f"is no CSV in UTF-8: {error}. In a spreadsheet, save it as CSV UTF-8."


def table(data: bytes, what: str) -> tuple[list[str], Lines]:
    """Return the head of a CSV in lower case, and its lines; those that are empty are left out.

    Raises:
        Refused: 422, it is not a CSV; the message says `what` it should have been.
    """
    try:
        text = decoded(data).replace("\u00a0", " ")  # the space of text that was copied from a page
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator(text), strict=True)
        lines = [(rows.line_num, row) for row in rows if row and row != ["sep=", ""]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(422, f"{what}: this {describe_fault(error)}") from error
    names = [name.strip().lower() for name in lines[0][1]] if lines else []
    return names, lines[1:]
