"""The speed of numba_dml, next to its peers: `asv run` in the folder above."""
