"""Recurrent cells, and what runs them over sequences."""
