"""Tensors, reverse-mode autodiff, and dataflow graphs."""
