"""Pipelines: a model's layers on several ranks, and who does what in which order."""
