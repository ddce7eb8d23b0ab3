"""The kernels of the CPU, one way to compute a family of operators in each file."""
