"""What workers of a cluster do before their first task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from distributed import WorkerPlugin

from ..__main__ import main, warmed
from .._core.shapes import ELEMENTS, TUPLES
from .._core.spec import OPERATORS
from .calls import takes


class WarmUp(WorkerPlugin):  # type: ignore[misc]
    """Compile kernels when a worker starts, so that no task waits for it: ``client.register_plugin(WarmUp())``.

    Kernels that are in the worker's cache on disk are only loaded; workers on one machine share it.

    Parameters
    ----------
    *operators : str
        Names of functions that ``numba-dml warmup`` compiles; all when absent.
    dtypes : sequence of str
        The dtypes of the data.
    target : {"cpu", "cuda"}
        What chunks are computed on.

    Raises
    ------
    ValueError
        If an operator is unknown; on the worker, if a dtype is, or if a kernel does not compile.

    Examples
    --------
    >>> from numba_dml.dask import WarmUp
    >>> WarmUp("top_k", dtypes=["float32"])
    WarmUp('top_k', dtypes=['float32'], target='cpu')
    """

    def __init__(
        self, *operators: str, dtypes: Sequence[str] = ("float32", "float64", "int32", "int64"), target: str = "cpu"
    ) -> None:
        known = [name for name in warmed() if takes(OPERATORS[name])]
        for name in operators:
            if name not in known:
                raise ValueError(f"WarmUp: found {name!r}, expected one of {', '.join(known)}")
        self.operators, self.dtypes, self.target = operators, list(dtypes), target
        self.name = f"numba_dml {self!r}"  # a plugin replaces one of the same name

    def __repr__(self) -> str:
        shown = [*map(repr, self.operators), f"dtypes={self.dtypes}", f"target={self.target!r}"]
        return f"WarmUp({', '.join(shown)})"

    def _parts(self) -> list[tuple[Sequence[str], Sequence[str]]]:
        """Return what else tasks call where the data have several chunks along an axis."""
        found: list[tuple[Sequence[str], Sequence[str]]] = []
        for name in self.operators:
            spec = OPERATORS[name]
            if spec.family in ("top_k", "argextreme"):  # what was selected is merged
                found.append((_operators("gather", ELEMENTS), ["int64"] if spec.family == "top_k" else self.dtypes))
            elif spec.addressing == ELEMENTS:
                found.append((_operators(spec.family, TUPLES), self.dtypes))
        return found

    async def setup(self, worker: Any) -> None:
        """Compile, in a thread: the worker goes on answering the scheduler."""
        for names, dtypes in ((self.operators, self.dtypes), *self._parts()):
            commands = [name.replace("_", "-") for name in names]
            arguments = ["warmup", *commands, "--dtypes", *dtypes, "--target", self.target, "--quiet"]
            if not await asyncio.to_thread(_run, arguments):
                continue
            raise ValueError(f"{self!r}: kernels could not be compiled; the worker's log says why")


def _operators(family: str, addressing: int) -> list[str]:
    """Return the operators of a family whose indices address the data in a way."""
    return [spec.name for spec in OPERATORS.values() if (spec.family, spec.addressing) == (family, addressing)]


def _run(arguments: list[str]) -> Any:
    """Run a command, and return its exit status: to leave a thread as a program would stop the worker."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return stop.code
