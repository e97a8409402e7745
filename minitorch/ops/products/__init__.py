"""Sums of products: matrices, Einstein's summation, convolutions, matrices taken apart."""
