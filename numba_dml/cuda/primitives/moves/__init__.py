"""The pieces of gathers and scatters."""
