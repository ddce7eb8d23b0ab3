"""The calls: which kernels run for one descriptor and one memory layout, and what Python does around them."""
