"""The pieces of top-k kernels.

Their kernels have addresses in common: `x`, of the first element; `values` and `indices`, of the results; and `plan`.
"""
