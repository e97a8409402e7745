"""What a lab says of CUDA at its top: the device, or what its cells would show on one.

Where pages of devices lie in `docs/results/`, the tables measured there are told too; a folder
with notebooks alone has none, and then nothing is told.
"""

import re
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs/results"
SECTION = re.compile(r"^## `make bench-gpu`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def device_note(device: str, shows: str, results: Path = RESULTS) -> str:
    """Return the line about CUDA, and below it what was measured elsewhere.

    Args:
        device: its name; "" where there is none.
        shows: what the lab's cells show on a device, such as "section 4 times the step there too".
        results: the folder with a page for each device that was measured.
    """
    if device:
        return f"CUDA {device}: {shows}"
    lines = [f"CUDA none: everything runs on the CPU. On a GPU {shows}."]
    for page in sorted(results.glob("*.md")):
        text = page.read_text("utf-8")
        if section := SECTION.search(text):
            lines.append(f"Measured on {text.partition(chr(10))[0].removeprefix('# ')}:")
            lines += [line for line in section[1].splitlines() if line.startswith("|")]
    return "\n".join(lines)
