"""What the drop-ins for NumPy's functions share: when NumPy answers, and which types the kernels cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from ._core.devices.libraries import library_of

P = ParamSpec("P")

#: The types, by NumPy's letters, that have an order, and those that can be moved. Letters also tell ``longlong`` from
#: an ``int64`` of the same size: which one comes in must come out.
ORDERED = frozenset(np.dtype(f"{kind}{2**n}").char for n in range(4) for kind in "iuf" if (kind, n) != ("f", 0))
MOVED = ORDERED | set("?FDMm")


def or_numpy(theirs: Callable[..., Any]) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Let NumPy's function answer where ours returns NotImplemented or fails, with the arguments just as they came."""

    def decorate(ours: Callable[P, Any]) -> Callable[P, Any]:
        @wraps(ours)
        def function(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                result = ours(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            except (IndexError, OverflowError, TypeError, ValueError):
                # The error shall be NumPy's own, if it is one there. What is on a device does not go there.
                if any(map(library_of, (*args, *kwargs.values()))):
                    raise
            return theirs(*args, **kwargs)

        return function

    return decorate


def covered(dtype: np.dtype[Any], letters: frozenset[str]) -> bool:
    """Tell whether a dtype is one of these, and whether results would have it just as it is."""
    return dtype.char in letters and dtype.isnative and dtype.metadata is None


def reworded(text: str | None, words: Mapping[str, str]) -> str:
    """Return the docstring of a function for its counterpart; the page on NumPy's functions shows both."""
    text = text or ""
    for one, other in words.items():
        text = text.replace(one, other)
    return text
