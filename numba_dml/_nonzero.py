"""Drop-in versions of NumPy's functions for what is not zero; users find them in `numba_dml.numpy`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ._core.devices.libraries import library_of
from ._drop_ins import ORDERED, covered, or_numpy
from .ops.nonzero_coordinates import nonzero_coordinates

#: Elements from which on NumPy's functions run here, and those of one dimension of bools, for which NumPy has a loop of
#: its own.
ELEMENTS, BOOLS = 1 << 11, 1 << 16
_NUMBERS = ORDERED | set("?FD")


def _coordinates(a: Any) -> Any:
    """Return the coordinates of the elements that are not zero, or NotImplemented."""
    if a.__class__ is not ndarray:
        return nonzero_coordinates(a) if library_of(a) else NotImplemented
    least = BOOLS if a.ndim == 1 and a.dtype.char == "?" else ELEMENTS
    if a.ndim == 0 or a.size < least or not covered(a.dtype, _NUMBERS):
        return NotImplemented
    return nonzero_coordinates(a)


@or_numpy(np.nonzero)
def nonzero(a: Any) -> Any:
    """Return the indices of the elements that are not zero, an array for each dimension.

    As `numpy.nonzero`.

    Parameters
    ----------
    a : array_like
        The input, with one dimension or more.

    Returns
    -------
    tuple of ndarray of intp
        The positions along each axis, in row-major order: ``a[nonzero(a)]`` are the elements. They may be views of one
        array.

    Raises
    ------
    ValueError
        If `a` has no dimension.

    See Also
    --------
    numba_dml.nonzero_coordinates : The kernels' own function, which also returns a count, and takes `out`.

    Notes
    -----
    -0 is zero, a NaN is not. Goes to the kernels when `a` is a plain array of native bools or numbers with 2048
    elements or more; of bools with one dimension, 64k. Arrays on a CUDA device run there.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.nonzero(np.array([[3, 0, 0], [0, 4, 0], [5, 6, 0]]))
    (array([0, 1, 2, 2]), array([0, 1, 0, 1]))
    """
    found = _coordinates(a)
    return found if found is NotImplemented else tuple([found[:, d] for d in range(found.shape[1])])


@or_numpy(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """Return the positions of the elements that are not zero in the flattened array.

    As `numpy.flatnonzero`.

    Parameters
    ----------
    a : array_like
        The input.

    Returns
    -------
    ndarray of intp
        The positions in ``a.ravel()``, in order.

    Raises
    ------
    TypeError
        If an element cannot be tested.

    See Also
    --------
    numba_dml.nonzero_coordinates : The kernels' own function, which also returns a count, and takes `out`.

    Notes
    -----
    -0 is zero, a NaN is not. Goes to the kernels when `a` is a plain array of native bools or numbers with 2048
    elements or more; of bools, 64k. Arrays on a CUDA device run there.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.flatnonzero(np.arange(-2, 3))
    array([0, 1, 3, 4])
    """
    found = _coordinates(a.reshape(-1) if a.__class__ is ndarray or library_of(a) else a)
    return found if found is NotImplemented else found[:, 0]


@or_numpy(np.argwhere)
def argwhere(a: Any) -> Any:
    """Return the indices of the elements that are not zero, a row for each.

    As `numpy.argwhere`.

    Parameters
    ----------
    a : array_like
        The input.

    Returns
    -------
    ndarray of intp, shape ``(count, a.ndim)``
        The rows, in row-major order.

    Raises
    ------
    TypeError
        If an element cannot be tested.

    See Also
    --------
    numba_dml.nonzero_coordinates : The kernels' own function, which also returns a count, and takes `out`.

    Notes
    -----
    -0 is zero, a NaN is not. Goes to the kernels when `a` is a plain array of native bools or numbers with 2048
    elements or more; of bools with one dimension, 64k. Arrays on a CUDA device run there.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.argwhere(np.arange(6).reshape(2, 3) > 1)
    array([[0, 2],
           [1, 0],
           [1, 1],
           [1, 2]])
    """
    return _coordinates(a)
