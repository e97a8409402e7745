"""Ranks of one machine over shared memory."""
