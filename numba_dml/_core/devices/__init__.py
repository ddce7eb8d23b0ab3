"""Arrays in device memory, and the libraries that they are from."""
