"""The pieces of top-k kernels."""
