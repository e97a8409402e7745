"""Probability distributions of tensors: draws, densities, entropies, divergences."""

from minitorch.distributions.bernoulli import Bernoulli
from minitorch.distributions.categorical import Categorical
from minitorch.distributions.distribution import Distribution
from minitorch.distributions.independent import Independent
from minitorch.distributions.kl import kl_divergence
from minitorch.distributions.normal import Normal

__all__ = ["Bernoulli", "Categorical", "Distribution", "Independent", "Normal", "kl_divergence"]
