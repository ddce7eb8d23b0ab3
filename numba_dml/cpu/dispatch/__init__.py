"""Which kernel runs a call: one table per family of operators."""
