"""What the package needs of numba-cuda and of the driver: docs/design.md names what else knows their inside."""
