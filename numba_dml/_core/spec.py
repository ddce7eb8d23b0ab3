"""What an operator is, said once: the targets, the command line, the adapters and the tests read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple

from .config import BOUNDS
from .lowering import REDUCTIONS

REQUIRED: Any = Signature.empty  #: stands for the default of a parameter that has none, as in a function's signature


class Parameter(NamedTuple):
    """An argument of a function that is no array."""

    name: str
    default: Any  #: REQUIRED, or what holds when it is absent
    help: str
    kind: Any = str  #: int, bool, str, "dtype", "sizes", "axes" (None, one or several), or what makes a value of a text
    choices: tuple[str, ...] = ()  #: the words that it takes, if these are all


@dataclass
class Spec:
    """One operator; making it registers it.

    Several results are a named tuple. Where the size of the last one is known only after the call, that one is all that
    is returned.
    """

    name: str  #: of the function
    family: str  #: those of a family share the way from a lowering to a call: ``numba_dml.<target>.calls.<family>``
    summary: str  #: what it does, for the command line
    inputs: tuple[str, ...]  #: the arguments that are arrays
    outputs: tuple[str, ...]  #: the results
    parameters: tuple[Parameter, ...]  #: in the order in which `build` takes them
    addressing: int = 0  #: how indices address the data: `shapes.SLICES`, `ELEMENTS`, `TUPLES`, or 0 without indices
    mask_function: str = ""  #: the NumPy function that makes indices of a mask
    compares: bool = False  #: it compares elements, so that their bits alone are not enough
    operands: tuple[str, ...] = ()  #: the inputs of its compiled operator, if it has more than the function
    examples: tuple[str, ...] = ()  #: command lines, without the name of the program
    explain_examples: tuple[str, ...] = ()
    #: ``build(*layouts, parameters, target)`` returns the call: set by `ops._shared.function.builds`.
    build: Callable[..., Any] = field(init=False, repr=False)
    #: ``describe(shapes, dtypes, parameters)`` returns the descriptor, and the shapes of the results, in which None
    #: stands for a size that is known only after the call; set there too.
    describe: Callable[..., Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.name in OPERATORS:
            raise ValueError(f"{self.name}: found two operators of this name, expected one")
        self.operands = self.operands or self.inputs
        OPERATORS[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    @property
    def command(self) -> str:
        """The name of its command."""
        return self.name.replace("_", "-")

    @property
    def writes(self) -> bool:
        """Whether it updates a copy of its input, or the input itself."""
        return "updates" in self.inputs

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default, which are given by position."""
        return tuple(one.name for one in self.parameters if one.default is REQUIRED)

    def named_results(self, found: Any) -> dict[str, Any]:
        """Return what a call returned by the names of the outputs; a single array is the last of them."""
        results = found if isinstance(found, tuple) else (found,)
        return dict(zip(self.outputs[-len(results) :], results, strict=True))


OPERATORS: dict[str, Spec] = {}  #: all operators, by name, in the order in which `numba_dml.ops` imports them


def named(name: str) -> Spec:
    """Return an operator; a Spec is pickled as its name."""
    return OPERATORS[name]


BATCH_DIMS = Parameter("batch_dims", 0, "dimensions that arrays and indices share", int)
READ_BOUNDS = Parameter("bounds", None, "what to do with an index out of range (default: raise)", str, BOUNDS)
WRITE_BOUNDS = READ_BOUNDS._replace(choices=tuple(word for word in BOUNDS if word != "clamp"))
REDUCTION = Parameter("reduction", "none", "how an update meets what is there", str, REDUCTIONS)
UNIQUE = Parameter("unique", False, "promise that no element is updated twice", bool)


def number(text: str) -> int | float:
    """Return a number from the command line."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def axis(default: int) -> Parameter:
    """Return the parameter for an axis."""
    return Parameter("axis", default, "the axis", int)
