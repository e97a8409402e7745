"""Record a ring all-reduce and write it as a page that plays without a kernel or a network.

python labs/demos/ring_player/build.py            writes ring_player.html beside this file
python labs/demos/ring_player/build.py PATH       writes it there
python labs/demos/ring_player/build.py --record   takes the times of a run over a link anew

The times in recorded.json are of four hosts on a link of 20 ms a message and 1,600 bytes a second.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from ddp_lab import Link
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.show import RingPlayer, Story, watch

RANKS = 4
LINK = Link(20e-3, 1 / 1600)
PAGE = Path(__file__).with_name("ring_player.html")
KEPT = Path(__file__).with_name("recorded.json")


def ring(comm: Communicator, x: np.ndarray) -> np.ndarray:
    return comm.all_reduce(x, algorithm="ring")


def told(**where: object) -> Story:
    """Return a recorded run; digit r of a sum tells whether rank r is in it."""
    inputs = [np.arange(1.0, 2 * RANKS + 1) * 10**rank for rank in range(RANKS)]
    return watch(ring, inputs, **where).story(f"Ring all-reduce over {RANKS} ranks, a host each")


def record() -> None:
    """Keep the times of the quickest of some runs over the link."""
    runs = [told(hosts=RANKS, link=LINK).ended_s for _ in range(9)]
    ended_s = [round(seconds, 4) for seconds in min(runs, key=max)]
    KEPT.write_text(json.dumps(ended_s) + "\n", encoding="utf-8")


def story() -> Story:
    """Return a run with the times that were kept."""
    return replace(told(), ended_s=tuple(json.loads(KEPT.read_text(encoding="utf-8"))))


def main(arguments: list[str]) -> None:
    if arguments == ["--record"]:
        record()
        arguments = []
    path = Path(arguments[0]) if arguments else PAGE
    print(RingPlayer(story()).save(path))


if __name__ == "__main__":
    main(sys.argv[1:])
