"""Which kernels run a call: one table per family of operators."""
