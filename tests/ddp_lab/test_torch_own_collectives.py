"""torch's own tests of collectives, over the backend; see torch_collectives.py.

By default a part of them; `python tests/ddp_lab/torch_collectives.py ddp_lab` runs all. The four
that gloo passes and this backend cannot ask for gloo by its name, in torch's Python code:
test_get_backend and test_monitored_barrier_gloo{,_rank_0_timeout,_subgroup}.
"""

import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("torch_collectives.py")
SOME = [
    "test_all_gather_coalesced_simple",
    "test_all_gather_complex",
    "test_all_gather_object_default_pg",
    "test_all_reduce_coalesced_full_group_product",
    "test_all_reduce_full_group_min",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast_full_group",
    "test_destroy_group",
    "test_gather_full_group",
    "test_reduce_full_group_max",
    "test_scatter_object_list",
    "test_send_recv_any_source",
    "test_send_recv_with_tag",
]


def outcomes(*arguments: str) -> dict[str, str]:
    """Return how each test went."""
    command = [sys.executable, str(DRIVER), "ddp_lab", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=250)
    lines = [tuple(line.split()) for line in found.stdout.splitlines() if line.startswith("test_")]
    assert lines, found.stderr
    return dict(lines)


def test_torchs_own_tests_of_collectives_pass() -> None:
    found = outcomes(*SOME)
    assert found == dict.fromkeys(SOME, "ok")


def test_they_notice_results_that_are_slightly_wrong() -> None:
    spoilt = ["test_all_gather", "test_broadcast", "test_send_recv"]
    assert outcomes("--spoil", *spoilt) == dict.fromkeys(spoilt, "failed")
