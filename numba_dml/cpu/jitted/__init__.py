"""The functions inside users' jitted code."""

from ..._jit import compat

with compat.explained():
    from ..._jit import emission_late  # noqa: F401
