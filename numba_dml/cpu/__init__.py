"""The CPU target."""

from __future__ import annotations

from typing import Any

from .._jit import compat
from .._jit.waiting import require_jit

require_jit()
with compat.explained():
    from .._jit import compile  # noqa: F401


def call(*args: Any) -> Any:
    """Build the call for a descriptor and a layout; see `numba_dml._core.calls.build_call`."""
    from .calls.build import build  # with the kernels, which `import numba_dml.cpu` alone does not need

    return build(*args)
