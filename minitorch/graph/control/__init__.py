"""Branches, loops and lists, structured: one node each, with gradients of any order."""
