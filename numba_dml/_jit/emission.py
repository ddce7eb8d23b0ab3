"""What kernels emit LLVM's code with: names of Numba's and llvmlite's inside, which other folders import from here."""

from llvmlite import ir
from llvmlite.binding import add_symbol
from numba.core import cgutils
from numba.core.extending import NativeValue, intrinsic, models, overload, register_model, unbox
from numba.np.numpy_support import as_dtype

__all__ = ["add_symbol", "ir"]
__all__ += ["NativeValue", "as_dtype", "cgutils", "intrinsic", "models", "overload", "register_model", "unbox"]
