"""What the operators and both targets build on: descriptors, lowerings, arrays, defaults; no kernel, and no Numba."""
