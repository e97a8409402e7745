"""Axes brought to one value or in order: sums, statistics, sorting."""
