"""Six character models trained, judged and read from, as with PyTorch."""

from typing import Any

import pytest


@pytest.mark.parametrize("name", ["Bigram", "MLP", "CNN", "RNN", "GRU", "Transformer"])
def test_a_character_model_is_as_with_pytorch(
    name: str, both: Any, copy_weights: Any, same_losses: Any
) -> None:
    theirs, ours = both("characters")
    a, b = theirs.begin(name), ours.begin(name)
    copy_weights(a, b)
    same_losses(theirs.train(a, 20), ours.train(b, 20))
    assert ours.evaluate(b) == pytest.approx(theirs.evaluate(a), rel=1e-6)
    assert ours.generate(b, "abjm", 8) == theirs.generate(a, "abjm", 8)
