"""Kernels for convolutions of any shape: windows and lines of images, and copies of these."""
