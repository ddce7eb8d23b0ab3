"""What the package needs of numba-cuda and of the driver: the only folder that knows their inside."""
