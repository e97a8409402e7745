"""The reading path in the documentation: its files are linked, and it stays as short as it says."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| \S+ \| \[`([^`]+)`\]\(\.\./\1\) \| (.+) \|$", re.MULTILINE)


def test_the_reading_path_is_4000_lines_of_files_that_are_there() -> None:
    rows = ROW.findall((ROOT / "docs/reading_path.md").read_text())
    assert len({file for file, _ in rows}) == len(rows) >= 15
    lines = sum((ROOT / file).read_text().count("\n") for file, _ in rows)
    assert 3700 <= lines <= 4300, f"{lines} lines: change the path, or what it says of its length"
    assert all(40 <= len(say) <= 240 for _, say in rows)  # two lines each
