"""A GPT trained, saved, resumed and read from, as PyTorch does it."""

from pathlib import Path
from typing import Any

import pytest


def test_a_gpt_trains_as_with_pytorch_and_writes_the_same_text(
    both: Any, copy_weights: Any, same_losses: Any
) -> None:
    theirs, ours = both("gpt")
    (a, a_optimizer), (b, b_optimizer) = theirs.begin(), ours.begin()
    copy_weights(a, b)
    assert a.get_num_params() == b.get_num_params()
    assert [len(g["params"]) for g in a_optimizer.param_groups] == [
        len(g["params"]) for g in b_optimizer.param_groups
    ]
    # layer norms sum in another order than PyTorch's, and twenty steps of float32 let it grow
    losses = theirs.train(a, a_optimizer, 0, 20), ours.train(b, b_optimizer, 0, 20)
    same_losses(*losses, rtol=1e-5)
    theirs.train(a, a_optimizer, 20, 80)
    ours.train(b, b_optimizer, 20, 80)
    for how in ({}, {"temperature": 0.7}, {"top_k": 3}):
        for prompt in ("The ", "and up"):
            text = theirs.greedy(a, prompt, 60, **how)
            assert ours.greedy(b, prompt, 60, **how) == text
            assert len(set(text[len(prompt) :])) > 2


def test_tied_weights_are_one_parameter_before_and_after_a_checkpoint(
    both: Any, tmp_path: Path
) -> None:
    _, ours = both("gpt")
    model, optimizer = ours.begin()
    ours.save(tmp_path / "ckpt.pt", model, optimizer, 0)
    resumed, *_ = ours.resume(tmp_path / "ckpt.pt")
    for gpt in (model, resumed):
        assert gpt.transformer.wte.weight is gpt.lm_head.weight
        assert sum(p is gpt.lm_head.weight for p in gpt.parameters()) == 1


@pytest.mark.parametrize("which", [0, 1], ids=["torch", "minitorch"])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(
    both: Any, tmp_path: Path, which: int
) -> None:
    gpt = both("gpt")[which]
    model, optimizer = gpt.begin()
    gpt.train(model, optimizer, 0, 8)
    gpt.save(tmp_path / "ckpt.pt", model, optimizer, 8)
    straight = gpt.train(model, optimizer, 8, 16)
    resumed, its_optimizer, it = gpt.resume(tmp_path / "ckpt.pt")
    assert it == 8
    assert gpt.train(resumed, its_optimizer, it, 16) == straight
