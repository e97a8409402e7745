"""A variational autoencoder, as with PyTorch."""

from typing import Any

import numpy as np


def test_a_vae_trains_as_with_pytorch_when_it_draws_the_same_noise(
    both: Any, copy_weights: Any, same_losses: Any
) -> None:
    theirs, ours = both("vae")
    a, b = theirs.VAE(), ours.VAE()
    copy_weights(a, b)
    noises = np.random.default_rng(0).normal(size=(20, 32, 4)).astype(np.float32)
    same_losses(theirs.train(a, 20, noises), ours.train(b, 20, noises))
    np.testing.assert_allclose(
        ours.reconstructed(b).numpy(), theirs.reconstructed(a).numpy(), rtol=1e-5
    )


def test_a_vae_learns_from_noise_of_its_own(both: Any) -> None:
    _, ours = both("vae")
    losses = ours.train(ours.VAE(), 400)
    assert np.mean(losses[-20:]) < 0.85 * losses[0]
