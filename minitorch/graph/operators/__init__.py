"""Operators by TensorFlow's names, each a few lines over `minitorch.ops`."""
