"""Shapes not known when a graph is built: what is known, what waits, what a run computes."""
