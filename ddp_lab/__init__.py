"""Messages, collectives, and data-parallel training."""
