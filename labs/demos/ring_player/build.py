"""Record a ring all-reduce and write it as a page that plays without a kernel or a network.

python labs/demos/ring_player/build.py            writes ring_player.html beside this file
python labs/demos/ring_player/build.py PATH       writes it there
"""

import sys
from pathlib import Path

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.show import Story, page, watch

RANKS = 4
PAGE = Path(__file__).with_name("ring_player.html")


def ring(comm: Communicator, x: np.ndarray) -> np.ndarray:
    return comm.all_reduce(x, algorithm="ring")


def story() -> Story:
    """Return a recorded run; digit r of a sum tells whether rank r is in it."""
    inputs = [np.arange(1.0, 2 * RANKS + 1) * 10**rank for rank in range(RANKS)]
    return watch(ring, inputs).story(f"Ring all-reduce over {RANKS} ranks")


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(story()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
