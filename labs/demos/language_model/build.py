"""Write the demo of a language model's layers as a page that plays without a kernel or a network.

python labs/demos/language_model/build.py         writes language_model.html beside it
python labs/demos/language_model/build.py PATH    writes it there
"""

import json
import sys
from pathlib import Path

from lessons.language.stack import see_stack
from minitorch.show import Scene, page

PAGE = Path(__file__).with_name("language_model.html")
RECORDED = PAGE.with_name("recorded.json")  # written by recorded.py
TITLE = "A language model of one's own, from an operator to a reply (recorded)"


def scenes() -> list[Scene]:
    """Return the layers of lab 18."""
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [see_stack(rows, title=TITLE)]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
