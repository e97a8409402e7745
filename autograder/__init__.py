"""A judge for notebooks that stands outside the process it judges."""
