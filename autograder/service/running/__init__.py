"""A course server that runs, and the commands that start one."""
