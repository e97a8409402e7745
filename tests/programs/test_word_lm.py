"""A recurrent language model of words, as with PyTorch."""

from typing import Any

import pytest


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"])
def test_a_recurrent_language_model_is_as_with_pytorch(
    kind: str, both: Any, copy_weights: Any, same_losses: Any
) -> None:
    theirs, ours = both("word_lm")
    a, b = theirs.begin(kind), ours.begin(kind)
    copy_weights(a, b)
    same_losses(theirs.train(a, 20), ours.train(b, 20))
    assert ours.perplexity(b) == pytest.approx(theirs.perplexity(a), rel=1e-6)
    assert ours.generate(b, "the", 12) == theirs.generate(a, "the", 12)
