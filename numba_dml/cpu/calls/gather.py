"""The calls of gathers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.lowering import Move
from ..._core.operands import check_out
from ..._core.regions import first
from ..._jit.memory import ANY, UNSIGNED_REFS
from ..dispatch.gather import TABLE, facts_of, plan_gather
from ..drivers import OVERLAP
from ..launch import launcher
from ..primitives.moves import plan as moves_plan
from ..tuning.gather import TUNING
from .move_call import MoveCall


class GatherCall(MoveCall):
    """A gather of one layout."""

    regions = TABLE

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(lowering, dtype, shape)
        unit = self.unit()
        self.plan[moves_plan.RUN] = self.run // unit
        self.facts = facts = facts_of(self.plan)
        self.tuning = TUNING
        self.region = region = first(self.regions, facts, self.tuning)
        plan_gather(self.plan, facts, self.tuning)
        data = UNSIGNED_REFS[unit]
        self.launch, driver = launcher(region.kernel, (data, ANY, data, ANY), self.effort, prepare=self.set_finder)
        self.finish_plan()
        self.kernel = f"gather {self.moves_by(unit)} {driver}"

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        result = self.empty(self.shape, self.dtype) if out is None else out
        if out is None or check_out(self.function, "out", out, self.shape, self.dtype):
            status = self.launch(a, indices, result, indices, self.plan)
            if status == 0:
                return result
            if status != OVERLAP:
                raise self.lowering.error_at(a, indices, status - 1)
        out[...] = self(a, indices, None)
        return out
