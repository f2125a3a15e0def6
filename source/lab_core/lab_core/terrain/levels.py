"""Which tile of the terrain each environment stands on, and the curriculum over levels."""

from __future__ import annotations

import torch
from numpy.typing import NDArray
from torch import Tensor

from lab_core.errors import ConfigError
from lab_core.masks import masked_copy_
from lab_core.seeding import make_generator
from lab_core.state import Stateful


class TerrainLevels(Stateful):
    """Level (row) and type (column) of every environment, and the origin that follows from them."""

    def __init__(
        self,
        origins: Tensor | NDArray,
        num_envs: int,
        generator: torch.Generator,
        max_init_level: int | None = None,
        env_origins: Tensor | None = None,
    ) -> None:
        """
        Args:
            origins: ``(rows, cols, 3)`` origins of the tiles [m], as :attr:`Terrain.origins`.
            num_envs: Number of environments N. They are spread over the columns in equal consecutive shares.
            generator: Source of the initial and of later random levels; buffers live on its device.
            max_init_level: Environments start at uniformly random levels 0 .. ``max_init_level`` (at most the last
                one). None: any level.
            env_origins: ``(N, 3)`` buffer to keep the environments' origins in. None: a new one.

        Raises:
            ConfigError: ``max_init_level`` is negative.
            ValueError: ``origins`` has another shape.
        """
        device = generator.device
        self.origins = self.scratch(torch.as_tensor(origins, dtype=torch.float32, device=device))
        """(rows, cols, 3) origin of each tile in the world frame [m]; constant."""
        if self.origins.dim() != 3 or self.origins.shape[2] != 3 or self.origins.numel() == 0:
            raise ValueError(f"origins must have shape (rows, cols, 3), got {tuple(self.origins.shape)}.")
        if max_init_level is not None and max_init_level < 0:
            raise ConfigError(f"max_init_level must not be negative, got {max_init_level}.")
        self.num_levels, num_cols = self.origins.shape[:2]
        self._generator = generator
        highest = self.num_levels - 1 if max_init_level is None else min(max_init_level, self.num_levels - 1)

        self.levels = torch.randint(0, highest + 1, (num_envs,), generator=generator, device=device)
        """(N,) int64 row of each environment."""
        self.types = torch.arange(num_envs, device=device) * num_cols // num_envs
        """(N,) int64 column of each environment; it never changes."""
        self.env_origins = torch.zeros(num_envs, 3, device=device) if env_origins is None else env_origins
        """(N, 3) origin of each environment in the world frame [m]."""
        self.env_origins.copy_(self.origins[self.levels, self.types])

    def seed(self, seed: int) -> None:
        """Draw later random levels anew from ``seed``; the levels that environments have reached stay."""
        fresh = make_generator(seed, self._generator.device, "terrain levels")
        self._generator.set_state(fresh.get_state())

    def update(self, mask: Tensor, move_up: Tensor, move_down: Tensor) -> None:
        """Move the environments of ``mask`` up or down by one level, in place.

        Who passes the last level goes on at a random one, so that all levels stay in training; nobody falls below 0.

        Args:
            mask: ``(N,)`` bool, environments that are reset.
            move_up: ``(N,)`` bool.
            move_down: ``(N,)`` bool; both at once cancel.
        """
        levels = self.levels + move_up.long() - move_down.long()
        anywhere = torch.randint(0, self.num_levels, levels.shape, generator=self._generator, device=levels.device)
        levels = torch.where(levels >= self.num_levels, anywhere, levels.clamp(min=0))
        masked_copy_(self.levels, levels, mask)
        masked_copy_(self.env_origins, self.origins[self.levels, self.types], mask)
