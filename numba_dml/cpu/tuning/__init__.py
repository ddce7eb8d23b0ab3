"""Thresholds of the CPU, as data: one file per family of operators."""
