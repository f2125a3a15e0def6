"""Random streams of the environments, kept on the device and drawn from by Warp kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp

from lab_warp import rng_kernels as kernels

_SEED_RANGE = 2**31
_NO_ENVIRONMENT = -1


class WarpRng:
    """One random stream per environment, shared by everything in it that draws numbers in a kernel.

    A kernel has one thread per environment, copies the environment's state, draws, and writes it back (a draw from
    the array element itself would not advance it)::

        if mask[env]:
            rng = state[env]
            out[env] = wp.randf(rng, low, high)
            state[env] = rng

    A thread that is masked out leaves its state alone. So the stream of environment ``i`` depends only on the seed, on
    ``i`` and on its own draws: not on the number of environments, on the resets of others, or on graph capture, whose
    replays go on drawing new numbers.

    Args:
        num_envs: Number of environments N.
        device: Device of the state, e.g. ``"cpu"`` or ``"cuda:0"``.
        seed: See :meth:`seed`.

    Attributes:
        state: uint32 (N,), the state of each environment's stream.
        global_state: uint32 (1,), a stream for draws that all environments share, such as a timer in global time;
            it leaves the environments' own streams alone.
    """

    def __init__(self, num_envs: int, device: str | wp.Device, seed: int | None = None) -> None:
        self.num_envs = num_envs
        self.state = wp.zeros(num_envs, dtype=wp.uint32, device=device)
        self.global_state = wp.zeros(1, dtype=wp.uint32, device=device)
        self.seed(seed)

    def seed(self, seed: int | None) -> None:
        """Start all streams anew, in place, so that captured graphs stay valid.

        Args:
            seed: Any integer, used modulo 2^31; None takes torch's initial seed, which differs from run to run unless
                torch was seeded.
        """
        start = (torch.initial_seed() if seed is None else seed) % _SEED_RANGE
        device = self.state.device
        wp.launch(kernels.seed_environments, dim=self.num_envs, inputs=[start], outputs=[self.state], device=device)
        wp.launch(
            kernels.seed_global, dim=1, inputs=[start, _NO_ENVIRONMENT], outputs=[self.global_state], device=device
        )

    def state_dict(self) -> dict[str, Any]:
        """State to resume from: int64 CPU tensors, so that any checkpoint format can hold them."""
        return {"state": _to_host(self.state), "global_state": _to_host(self.global_state)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on, in place, where :meth:`state_dict` was taken.

        Raises:
            ValueError: It was taken with another number of environments.
        """
        count = len(state_dict["state"])
        if count != self.num_envs:
            raise ValueError(f"WarpRng has {self.num_envs} environments; the state to load has {count}.")
        _from_host(self.state, state_dict["state"])
        _from_host(self.global_state, state_dict["global_state"])


def _to_host(state: wp.array) -> torch.Tensor:
    return torch.from_numpy(state.numpy().astype(np.int64))


def _from_host(state: wp.array, values: torch.Tensor) -> None:
    state.assign(values.numpy().astype(np.uint32))
