"""Kernels of cumulative sums and products."""
