"""From nodes to arrays: the executors, and what they say of a node that failed."""
