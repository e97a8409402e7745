"""Torch's names for what lies elsewhere, or does nothing here.

`minitorch` has this folder on its path: a module `amp` in it is imported as `minitorch.amp`.
"""
