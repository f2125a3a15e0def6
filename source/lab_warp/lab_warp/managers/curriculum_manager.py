"""Curriculum terms in the step of a Warp environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.managers import CurriculumManager, CurriculumTermCfg
from lab_warp.managers.terms import WarpTerms
from lab_warp.twins import find_twin

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class CurriculumManagerWarp(WarpTerms, CurriculumManager):
    """Runs the curriculum terms; those without a twin, such as changes of other terms' settings, run in torch."""

    _env: WarpEnv

    def __init__(self, cfg: Mapping[str, CurriculumTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._slots: dict[str, tuple[wp.array, torch.Tensor]] = {
            name: env.log.reserve([f"Curriculum/{name}"])
            for name, term in self._cfgs.items()
            if find_twin(term.func) is not None
        }
        self._fix_terms()

    _state_exclude = ("_slots",)

    def set_term_cfg(self, name: str, cfg: CurriculumTermCfg) -> None:
        super().set_term_cfg(name, cfg)
        if name not in self._slots and self._twin(name) is not None:
            self._slots[name] = self._env.log.slot(f"Curriculum/{name}")

    @property
    def recordable(self) -> bool:
        """Whether all terms can be recorded."""
        return all(self._is_recordable(name) for name in self._cfgs)

    def compute_masked(self) -> None:
        """Evaluates the terms for the environments that are about to be reset."""
        for name in self._cfgs:
            slot = self._slots.get(name, (None,))[0]
            self._call_twin(name, (self._env.warp.reset_mask, slot), (self._env.reset_mask,))

    def reset_masked(self) -> None:
        """Tells class terms about the reset."""
        self._reset_class_terms()

    def _call_torch(self, name: str, mask: torch.Tensor, /) -> None:
        """Calls a term without a twin and logs what it returns."""
        value = self._call(name, mask)
        values = value if isinstance(value, Mapping) else {"": value}
        for key, item in values.items():
            if item is not None:
                path = f"{name}/{key}" if key else name
                self._env.log.put(f"Curriculum/{path}", self._number(path, item), self._env.reset_count)
