"""This server as a tool of learning platforms (LTI 1.3)."""
