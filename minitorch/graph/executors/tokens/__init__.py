"""Loops taken apart into Switch, Merge, Enter, Exit and NextIteration, run by tagged tokens."""
