"""Calls that are made again: launches are recorded, and repeated for arrays that are alike."""
