"""From nodes to arrays: the executors, the memory plan, and their clocks."""
