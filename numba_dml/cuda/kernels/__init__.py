"""The kernels of the GPU, one way to compute a family of operators in each file."""
