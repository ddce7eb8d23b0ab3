"""The steps of the kernel by which a warp chooses the best of a line."""
