"""Warp's random functions in NumPy, bit for bit, to compute in tests what a kernel must have drawn.

Warp's generator is the PCG hash "RXS-M-XS 32" (O'Neill 2014, in the form of Jarzynski and Olano, "Hash Functions for
GPU Rendering", 2020). All functions work elementwise on uint32 states; a draw returns the value and the next state.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

State = npt.NDArray[np.uint32]


def pcg(state: npt.ArrayLike) -> State:
    """The hash that advances a state."""
    s = np.asarray(state).astype(np.uint32)
    with np.errstate(over="ignore"):
        b = s * np.uint32(747796405) + np.uint32(2891336453)
        c = ((b >> ((b >> np.uint32(28)) + np.uint32(4))) ^ b) * np.uint32(277803737)
    return (c >> np.uint32(22)) ^ c


def rand_init(seed: npt.ArrayLike, stream: npt.ArrayLike) -> State:
    """``wp.rand_init(seed, stream)``."""
    with np.errstate(over="ignore"):
        return pcg(np.asarray(seed).astype(np.uint32) + pcg(stream))


def randu(state: State) -> tuple[State, State]:
    """``wp.randu(state)``: uint32 over the full range."""
    state = pcg(state)
    return state, state


def randi(state: State, low: int, high: int) -> tuple[npt.NDArray[np.int32], State]:
    """``wp.randi(state, low, high)``: int32 in [low, high)."""
    state = pcg(state)
    return (state % np.uint32(high - low)).astype(np.int32) + np.int32(low), state


def randf(state: State) -> tuple[npt.NDArray[np.float32], State]:
    """``wp.randf(state)``: float32 in [0, 1 - 2^-24]."""
    state = pcg(state)
    return (state >> np.uint32(8)).astype(np.float32) * np.float32(2**-24), state
