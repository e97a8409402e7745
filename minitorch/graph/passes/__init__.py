"""Graph rewrites, one a file; `optimize` runs them in order."""
