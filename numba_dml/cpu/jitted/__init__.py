"""The functions inside users' jitted code."""
