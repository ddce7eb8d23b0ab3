"""The calls: what Python does around a kernel, for one descriptor and one memory layout."""
