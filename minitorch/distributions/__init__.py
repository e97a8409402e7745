"""Probability distributions of tensors: draws, densities, entropies, divergences."""

from minitorch.distributions.categorical import Categorical
from minitorch.distributions.distribution import Distribution, kl_divergence
from minitorch.distributions.normal import Normal

__all__ = ["Categorical", "Distribution", "Normal", "kl_divergence"]
