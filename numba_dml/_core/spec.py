"""What an operator is, said once: the targets, the command line, the adapters and the tests read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import Signature
from typing import Any, NamedTuple

from .config import BOUNDS
from .lowering import REDUCTIONS


class Parameter(NamedTuple):
    """An argument of a function that is no array."""

    name: str
    #: REQUIRED, or what holds when it is absent.
    default: Any
    help: str
    #: int, bool, str, "dtype", "sizes", "axes": None, an int or a tuple of them; or what makes a value of a text.
    kind: Any = str
    #: The words that it takes, if these are all.
    choices: tuple[str, ...] = ()


#: Stands for the default of a parameter that has none, as in a function's signature.
REQUIRED: Any = Signature.empty


@dataclass
class Spec:
    """One operator; making it registers it.

    Attributes
    ----------
    name : str
        The function's name.
    family : str
        Operators of a family share the way from a lowering to a call: ``numba_dml.<target>.calls.<family>``.
    summary : str
        What it does, for the command line.
    inputs, outputs : tuple of str
        The arguments that are arrays, and the results; several results are a named tuple. Where the size of the last
        result is known only after the call, that one is all that is returned.
    parameters : tuple of Parameter
        In the order in which `build` takes them.
    addressing : int
        How indices address the data: `shapes.SLICES`, `ELEMENTS`, `TUPLES`, or 0 for an operator without indices.
    mask_function : str
        The NumPy function that makes indices of a mask.
    compares : bool
        It compares elements, so that their bits alone are not enough.
    operands : tuple of str
        The inputs of its compiled operator, if it has more than the function.
    examples, explain_examples : tuple of str
        Command lines, without the name of the program.
    build : callable
        ``build(*layouts, parameters, target)`` returns the call: set by `ops._function.builds`.
    describe : callable
        ``describe(shapes, dtypes, parameters)`` returns the descriptor, and the shapes of the results, in which None
        stands for a size that is known only after the call; set there too.
    """

    name: str
    family: str
    summary: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    addressing: int = 0
    mask_function: str = ""
    compares: bool = False
    operands: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    explain_examples: tuple[str, ...] = ()
    build: Callable[..., Any] = field(init=False, repr=False)
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


#: All operators, by name, in the order in which `numba_dml.ops` imports them.
OPERATORS: dict[str, Spec] = {}


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
