"""Warp twins of events as a captured stage, to look at what they draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import warp as wp

from lab_warp.capture import CaptureContext, CapturedStage
from lab_warp.testing.fake_env import FakeEnv
from lab_warp.testing.twin_gate import BoundTerm
from lab_warp.twins import find_twin


class CapturedEvent:
    """The twin of an event in one environment: captured at its first call, replayed at all others."""

    def __init__(self, original: Callable[..., Any], env: FakeEnv, **params: Any) -> None:
        """
        Args:
            original: The torch event.
            env: The environment.
            **params: Its parameters; names of joints and bodies are looked up.
        """
        twin = find_twin(original)
        assert twin is not None, f"{original.__name__} has no Warp twin"
        term = BoundTerm(twin, env, params, ("mask",))
        self._mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        mask = wp.from_torch(self._mask)
        self._stage = CapturedStage(
            lambda: term(env, mask), CaptureContext(env.wp_device, enabled=True), name=original.__name__
        )

    def __call__(self, mask: torch.Tensor | bool = True) -> None:
        """Applies the event to the environments of ``mask`` (N,) bool."""
        self._mask.copy_(torch.as_tensor(mask))
        self._stage()
