"""Defaults of calls: `config`, and the environment variables behind it.

A default is what an absent argument stands for. An argument beats the innermost `config`, which beats the environment.
Most processes set none: `used` is False then, and that is all that a call looks at.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ContextDecorator
from contextvars import ContextVar
from functools import lru_cache, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, NamedTuple

from .errors import integer
from .targets import TARGETS

BOUNDS = ("raise", "clamp", "drop", "deferred")
_CHOICES = {"target": TARGETS, "bounds": BOUNDS}
PREFIX = "NUMBA_DML_"  #: what an environment variable is called, before the name of the default

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Settings(NamedTuple):
    """The defaults that hold; None (False) is what holds without any."""

    target: str | None = None
    bounds: str | None = None
    threads: int | None = None
    quiet: bool = False


class _Unset:
    """Tells an argument that is absent from None."""

    def __repr__(self) -> str:
        return "<unset>"


_UNSET: Any = _Unset()


def _one_of(choices: tuple[str, ...]) -> str:
    return "one of " + ", ".join(map(repr, choices))


def _checked(field: str, value: Any, name: str) -> Any:
    """Return the value of a default, which an error calls by a name."""
    choices = _CHOICES.get(field)
    if choices and (not isinstance(value, str) or value not in choices):
        raise ValueError(f"{name}: found {value!r}, expected {_one_of(choices)}")
    if field == "quiet" and not isinstance(value, bool):
        raise TypeError(f"{name}: found {value!r}, expected True or False")
    if field == "threads":
        value = integer(name, value)
        if value < 1:
            raise ValueError(f"{name}: found {value}, expected 1 or more")
    return value


def from_environment(variables: Mapping[str, str]) -> Settings:
    """Return what environment variables say; an empty one counts as absent."""
    found: dict[str, Any] = {}
    for field in Settings._fields:
        name = PREFIX + field.upper()
        text = variables.get(name, "").strip()
        if not text:
            continue
        if field == "threads":
            if not text.isdecimal() or not int(text):
                raise ValueError(f"{name}: found {text!r}, expected a number of threads, 1 or more")
            found[field] = int(text)
        elif field == "quiet":
            if text.lower() not in (*_TRUE, *_FALSE):
                raise ValueError(f"{name}: found {text!r}, expected {_one_of((*_TRUE, *_FALSE))}")
            found[field] = text.lower() in _TRUE
        else:
            found[field] = _checked(field, text, name)
    return Settings(**found)


#: Some default was set in this process, now or before. Calls look here first: it is faster than a context variable.
used = any(os.environ.get(PREFIX + field.upper()) for field in Settings._fields)

#: The defaults of the blocks around, the innermost last.
_blocks: ContextVar[tuple[Settings, ...]] = ContextVar("numba_dml.config", default=())


@lru_cache(maxsize=1)
def _environment() -> Settings:
    """Read the environment, once: at the first call, so that an error does not break the import."""
    return from_environment(os.environ)


def current() -> Settings:
    """Return the defaults that hold here."""
    blocks = _blocks.get()
    return blocks[-1] if blocks else _environment()


def defaults(target: str | None, bounds: str | None, clamps: bool = True) -> tuple[str | None, str | None]:
    """Return the target and bounds of a call: its arguments, where they are given."""
    here = current()
    if bounds is None and (clamps or here.bounds != "clamp"):  # a scatter has no "clamp"
        bounds = here.bounds
    return here.target if target is None else target, bounds


class _Config(ContextDecorator):
    """What `config` returns. One may be entered again, and by several threads."""

    def __init__(self, changes: dict[str, Any]) -> None:
        self.changes = changes

    def __enter__(self) -> None:
        global used
        _blocks.set((*_blocks.get(), current()._replace(**self.changes)))
        used = True

    def __exit__(self, *_: Any) -> None:
        _blocks.set(_blocks.get()[:-1])

    def __call__(self, function: Any) -> Any:
        """Decorate a function, which may be a coroutine; a generator would leave its block to whoever goes on."""
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(f"config: found {function!r}, a generator, expected a function that returns")
        if not iscoroutinefunction(function):
            return super().__call__(function)

        @wraps(function)
        async def inside(*args: Any, **keywords: Any) -> Any:
            with self:
                return await function(*args, **keywords)

        return inside

    def __repr__(self) -> str:
        return f"config({', '.join(f'{name}={value!r}' for name, value in self.changes.items())})"


def config(
    *, target: str | None = _UNSET, bounds: str | None = _UNSET, threads: int | None = _UNSET, quiet: bool = _UNSET
) -> _Config:
    """Set defaults for the calls of a block, or of a function.

    Parameters
    ----------
    target : {"cpu", "cuda"}, optional
        What `target` stands for where it is absent, in functions and in `compile_operator`. None: it follows the
        arrays. The environment variable is ``NUMBA_DML_TARGET``.
    bounds : {"raise", "clamp", "drop", "deferred"}, optional
        What `bounds` stands for where it is absent, in functions; descriptors say it themselves. Functions without that
        rule raise: scatters and `max_unpool` for ``"clamp"``, `reverse_subsequences` for ``"drop"``. None: raise.
        ``NUMBA_DML_BOUNDS``.
    threads : int, optional
        How many threads a call on the CPU may use; never more than Numba has. None: as many as Numba has. Results do
        not depend on it. ``NUMBA_DML_THREADS``.
    quiet : bool, optional
        Do not say on the standard error stream that a call has been compiling for two seconds. ``NUMBA_DML_QUIET``.

    Returns
    -------
    context manager
        To enter with ``with``, as often as one likes; it decorates functions and coroutines too.

    Raises
    ------
    TypeError
        If `threads` is no integer, or `quiet` no bool.
    ValueError
        If `target` or `bounds` is unknown, or `threads` is less than 1.

    Notes
    -----
    What is absent here stays as it was around the block. A default belongs to the thread, or the asyncio task, that
    sets it: other threads go by the environment, which is read once. An argument of a call beats any default. A
    compiled operator has the target that it was compiled for.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> with dml.config(bounds="drop", threads=1):
    ...     dml.gather(np.array([1, 2, 3]), np.array([2, 7]))
    array([3, 0])
    """
    given = {"target": target, "bounds": bounds, "threads": threads, "quiet": quiet}
    changes = {field: value for field, value in given.items() if value is not _UNSET}
    for field, value in changes.items():
        if value is not None or field == "quiet":
            changes[field] = _checked(field, value, f"config: {field}")
    return _Config(changes)
