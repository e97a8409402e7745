"""Rewrites found by machine: terms enumerated, fingerprinted, proved, pruned."""
