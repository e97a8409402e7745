"""The operators, by family, each a row of compute, infer and gradient."""
