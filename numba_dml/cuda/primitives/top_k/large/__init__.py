"""The steps of the kernels for a large k."""
