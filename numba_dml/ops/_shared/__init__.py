"""What operators of a kind share: their parameters, the rules of their descriptors, and their lowering."""
