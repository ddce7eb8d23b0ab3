"""The pieces that kernels are made of."""
