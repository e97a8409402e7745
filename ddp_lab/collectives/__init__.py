"""The collectives, one algorithm family a file."""
