"""torch's own DDP tests with our class in torch's place; see torch_ddp_suite.py for all of them."""

import json
from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).with_name("torch_ddp_suite.py")
SAMPLE = [
    "test_DistributedDataParallelCPU",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync_allreduce_hook",
    "test_ddp_broadcast_buffer_via_hook",
    "test_ddp_control_flow_different_across_ranks",
    "test_ddp_grad_div_uneven_inputs",
    "test_ddp_hook_parity_powerSGD",
    "test_ddp_ignore_params_arg",
    "test_ddp_join_model_equivalence",
    "test_ddp_comm_hook_logging",
    "test_ddp_namedtuple",
    "test_ddp_native_mixed_precision_ignored_params",
    "test_ddp_shared_grad_acc_unused_params",
    "test_ddp_static_graph_nested_types",
    "test_ddp_uneven_input_exception",
    "test_static_graph_multi_forward",
    "test_undefined_grad_parity_unused_parameters",
]
# Passed by torch's class, but not by ours, and why.
LEFT_OUT = {
    "test_ddp_logging_data_cpu": "asks for the times and the environment that torch's C++ logs",
    "test_ddp_logging_data_gpu": "the same",
    "test_compute_bucket_assignment_by_size_sparse_error_with_logger": "hands torch our logger",
    "test_ddp_sink_noclone": "asks for a private switch that leaves outputs uncopied",
    "test_invalid_static_graph": "asks for four sentences of torch's, word for word",
}
PASSED_BY_TORCH = 73  # torch 2.13, two ranks


def outcomes(python: Any, tmp_path: Path, *arguments: str) -> dict[str, str]:
    report = tmp_path / "report.json"
    (ended,) = python(SUITE, ["--json", report, *arguments])
    assert report.exists(), ended.errors
    found: dict[str, str] = json.loads(report.read_text())
    return found


def test_a_sample_of_torchs_tests_passes(python: Any, tmp_path: Path) -> None:
    found = outcomes(python, tmp_path, "--names", *SAMPLE)
    assert {name: text for name, text in found.items() if text != "passed"} == {}


@pytest.mark.wide
@pytest.mark.timeout(1200)
def test_all_that_torchs_class_passes_ours_passes_but_five(python: Any, tmp_path: Path) -> None:
    theirs, ours = outcomes(python, tmp_path, "--native"), outcomes(python, tmp_path)
    passed = {name for name, text in theirs.items() if text == "passed"}
    failed = {name for name in passed if ours[name] != "passed"}
    assert failed <= set(LEFT_OUT)
    assert len(passed - failed) >= PASSED_BY_TORCH - len(LEFT_OUT)
