"""Write the demo of attention as a page that plays without a kernel or a network.

python labs/demos/attention/build.py         writes attention.html beside it
python labs/demos/attention/build.py PATH    writes it there
"""

import json
import sys
from pathlib import Path

from minitorch.show import Scene, page, see_attention
from minitorch.show.autodiff_scene import draggable

PAGE = Path(__file__).with_name("attention.html")
RECORDED = PAGE.with_name("recorded.json")  # written by recorded.py
PROMPT = 6  # words


def scenes() -> list[Scene]:
    """Return a tab for each head, in which the temperature can be dragged."""
    runs = json.loads(RECORDED.read_text(encoding="utf-8"))

    def at(head: int, temperature: float) -> Scene:
        found = runs[str(temperature)]
        return see_attention(
            found["words"], found["heads"][head], prompt=PROMPT, temperature=temperature,
            title=f"Attention, head {head + 1} of 2 (recorded)", tab=f"Head {head + 1}",
        )  # fmt: skip

    values = [float(temperature) for temperature in runs]
    return [draggable(lambda t, h=head: at(h, t), "temperature", values) for head in (0, 1)]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
