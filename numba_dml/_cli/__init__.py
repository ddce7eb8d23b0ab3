"""The commands of the command line, one module each, imported on use.

A module has ``add_arguments(parser)`` and ``run(args)``, which returns the exit code.
"""
