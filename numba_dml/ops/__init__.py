"""The operators, one per file: descriptors, shape rule (the only validator), lowering and NumPy-style function."""

from .._core.lowering import Nonzero, TopK
from .argmax import ArgmaxDesc, argmax
from .argmin import ArgminDesc, argmin
from .cumulative_prod import CumulativeProductDesc, cumulative_prod
from .cumulative_sum import CumulativeSummationDesc, cumulative_sum
from .gather import GatherDesc, gather
from .gather_elements import GatherElementsDesc, gather_elements
from .gather_nd import GatherND1Desc, GatherNDDesc, gather_nd
from .max_unpool import MaxUnpoolingDesc, max_unpool
from .nonzero_coordinates import NonzeroCoordinatesDesc, nonzero_coordinates
from .one_hot import OneHotDesc, one_hot
from .reverse_subsequences import ReverseSubsequencesDesc, reverse_subsequences
from .scatter_elements import ScatterDesc, ScatterElementsDesc, scatter_elements
from .scatter_nd import ScatterNDDesc, scatter_nd
from .top_k import TopK1Desc, TopKDesc, top_k

__all__ = [
    "ArgmaxDesc",
    "ArgminDesc",
    "CumulativeProductDesc",
    "CumulativeSummationDesc",
    "GatherDesc",
    "GatherElementsDesc",
    "GatherND1Desc",
    "GatherNDDesc",
    "MaxUnpoolingDesc",
    "Nonzero",
    "NonzeroCoordinatesDesc",
    "OneHotDesc",
    "ReverseSubsequencesDesc",
    "ScatterDesc",
    "ScatterElementsDesc",
    "ScatterNDDesc",
    "TopK",
    "TopK1Desc",
    "TopKDesc",
    "argmax",
    "argmin",
    "cumulative_prod",
    "cumulative_sum",
    "gather",
    "gather_elements",
    "gather_nd",
    "max_unpool",
    "nonzero_coordinates",
    "one_hot",
    "reverse_subsequences",
    "scatter_elements",
    "scatter_nd",
    "top_k",
]
