"""A mixture of experts in three ways of sending tokens, as with PyTorch."""

from typing import Any

import numpy as np
import pytest

KINDS = ["index", "mask", "capacity"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_of_experts_trains_as_with_pytorch(
    kind: str, both: Any, copy_weights: Any, same_losses: Any
) -> None:
    theirs, ours = both("experts")
    a, b = theirs.begin(kind), ours.begin(kind)
    copy_weights(a, b)
    same_losses(theirs.train(a, 20), ours.train(b, 20))


def test_three_ways_of_sending_tokens_are_one_mixture(both: Any) -> None:
    _, ours = both("experts")
    models = [ours.begin(kind) for kind in KINDS]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    losses = [ours.train(model, 10) for model in models]
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=1e-4)
