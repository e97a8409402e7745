"""A rank that is a process reached by TCP, on this machine or another."""
