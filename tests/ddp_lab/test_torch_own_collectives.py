"""torch's own tests of collectives, over the backend; see torch_collectives.py.

Of those that gloo passes all must pass here, but for the exempted.
"""

from pathlib import Path
from typing import Any

import pytest

LONGEST_S = 900  # a minute where nothing else runs
DRIVER = Path(__file__).with_name("torch_collectives.py")
LEAST = 58  # of the tests that a backend in Python can run, however many torch ships

# Asks torch for gloo by its name, in torch's own Python code, which no other backend can be.
EXEMPT = {
    "test_get_backend": "compares the name of the group's backend with BACKEND, which is gloo",
}
SOME = [  # of each kind one and all of monitored barriers; none of them may be skipped
    "test_all_gather_coalesced_simple",
    "test_all_reduce_full_group_min",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_destroy_group",
    "test_monitored_barrier_gloo",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_monitored_barrier_gloo_subgroup",
    "test_scatter_object_list",
    "test_send_recv_any_source",
]


def outcomes(python: Any, *arguments: str, ranks: int = 3) -> dict[str, str]:
    """Return how each test went."""
    (ended,) = python(DRIVER, ["ddp_lab", *arguments], environments=[{"WORLD_SIZE": str(ranks)}])
    lines = [tuple(line.split()) for line in ended.output.splitlines() if line.startswith("test_")]
    assert lines, ended.errors
    return dict(lines)


@pytest.mark.slow
@pytest.mark.timeout(LONGEST_S + 10)
def test_all_of_torchs_own_tests_of_collectives_pass_but_those_that_ask_for_gloo_by_name(
    python: Any,
) -> None:
    found = outcomes(python)
    failed = {name for name, how in found.items() if how == "failed"}
    assert failed <= EXEMPT.keys()
    assert sum(how == "ok" for how in found.values()) >= LEAST
    assert {name: found[name] for name in SOME} == dict.fromkeys(SOME, "ok")
    assert not [name for name in EXEMPT if found.get(name) == "ok"]  # then it needs no exemption


def test_a_monitored_barrier_names_the_ranks_that_are_missing(python: Any) -> None:
    """The two that torch skips with fewer ranks; the others are among `SOME`."""
    names = [f"test_monitored_barrier_{kind}" for kind in ("failure_order", "wait_all_ranks")]
    assert outcomes(python, *names, ranks=8) == dict.fromkeys(names, "ok")


def test_they_notice_results_that_are_slightly_wrong(python: Any) -> None:
    spoilt = ["test_all_gather", "test_broadcast", "test_send_recv"]
    assert outcomes(python, "--spoil", *spoilt) == dict.fromkeys(spoilt, "failed")
