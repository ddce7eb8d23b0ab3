"""How kernels are compiled for the host, and kept on disk: the only folder with Numba's private API."""
