"""The labs, and the queue of what is to be graded."""
