"""Curriculum terms in the step of a Warp environment."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from lab_core.capability import Capability, all_capable
from lab_core.managers import CurriculumTermCfg, CurriculumTerms
from lab_warp.env import WarpEnv
from lab_warp.managers.terms import WarpTerms
from lab_warp.twins import find_twin
from lab_warp.views import Shared


class CurriculumManagerWarp(WarpTerms, CurriculumTerms):
    """Runs the curriculum terms; those without a twin, such as changes of other terms' settings, run in torch."""

    def __init__(self, cfg: Mapping[str, CurriculumTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._slots = self.scratch(
            {
                name: Shared(*env.log.reserve([f"Curriculum/{name}"]))
                for name, term in self._cfgs.items()
                if find_twin(term.func) is not None
            }
        )
        self._fix_terms()

    def set_term_cfg(self, name: str, cfg: CurriculumTermCfg) -> None:
        super().set_term_cfg(name, cfg)
        if name not in self._slots and self._twin(name) is not None:
            self._slots[name] = Shared(*self._env.log.slot(f"Curriculum/{name}"))

    @property
    def capturable(self) -> Capability:
        return all_capable([super().capturable, *(self._capability(name) for name in self._cfgs)])

    def compute(self, mask: Shared) -> None:
        """Evaluates the terms for the environments of ``mask``, which are about to be reset."""
        for name in self._cfgs:
            slot = self._slots[name].warp if name in self._slots else None
            self._call_twin(name, (mask.warp, slot), (mask.torch,))

    def reset(self, mask: Shared) -> None:
        """Tells class terms about the reset of the environments in ``mask``."""
        self._reset_class_terms(mask)

    def _call_torch(self, name: str, mask: torch.Tensor, /) -> None:
        """Calls a term without a twin and logs what it returns."""
        for path, value in self._numbers(name, self._call(name, mask)).items():
            self._env.log.put(path, value, self._env.reset_count)
