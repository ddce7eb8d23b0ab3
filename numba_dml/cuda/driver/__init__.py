"""What the package needs of numba-cuda and of the driver: all that knows their inside, but for top_k/tuples.py."""
