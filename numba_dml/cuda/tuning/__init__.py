"""Thresholds of the GPU, as data: one file per family of operators."""
