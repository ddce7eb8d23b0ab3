"""The steps of the kernel by which a block chooses the best of a line."""
