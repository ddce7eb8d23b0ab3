"""The functions inside users' jitted code."""

from ..._jit import compat

compat.probe(compat.REQUIRED_IN_JITTED_CODE)
