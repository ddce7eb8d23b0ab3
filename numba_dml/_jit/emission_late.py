"""What is emitted with modules that Numba loads only with its compiler: beside `emission`, and imported when needed."""

from numba.core.environment import Environment
from numba.core.errors import TypingError
from numba.core.runtime.context import NRTContext
from numba.cpython.unicode import PY_UNICODE_1BYTE_KIND, _empty_string, _set_code_point
from numba.np.arrayobj import _empty_nd_impl, populate_array

__all__ = ["PY_UNICODE_1BYTE_KIND", "Environment", "NRTContext", "TypingError", "populate_array"]
__all__ += ["_empty_nd_impl", "_empty_string", "_set_code_point"]
