"""One seed drives everything: global generators, named streams derived from the seed, and their state for resume."""

from __future__ import annotations

import hashlib
import operator
import os
import random
from typing import Any

import numpy as np
import torch

from lab_core.errors import ConfigError

MAX_SEED = 2**32 - 1
"""Largest seed that every generator accepts (numpy takes 32 bits)."""


def one_seed(seed: Any) -> int | None:
    """Returns the one seed that drives everything, out of what gymnasium's users give.

    Args:
        seed: An integer of any library, or one integer per environment, of which one seed is made: the same numbers in
            the same order give the same one. None stays None.

    Raises:
        ConfigError: It is neither.
    """
    if seed is None:
        return None
    try:
        if np.ndim(seed) == 0:
            return operator.index(seed)
        text = ",".join(str(operator.index(one)) for one in seed)
    except TypeError as error:
        raise ConfigError(f"A seed is an integer, or one integer per environment; got {seed!r}.") from error
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def seed_everything(seed: int | None, deterministic: bool = False) -> int:
    """Seed Python, NumPy and torch (CPU and every GPU). Call it before anything is built.

    Args:
        seed: 0 .. 2**32 - 1; None or -1 draws one.
        deterministic: Also ask torch for deterministic algorithms: an operation that has none raises. cuBLAS reads
            its setting when it first starts, so call this before the first GPU operation.

    Returns:
        The seed in use, to be stored with the run.

    Raises:
        ConfigError: The seed is out of range.
    """
    if seed is None or seed == -1:
        seed = random.SystemRandom().randint(0, 2**31 - 1)
    if not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"The seed must be in 0 .. {MAX_SEED}, or None or -1 to draw one; got {seed}.")
    os.environ["PYTHONHASHSEED"] = str(seed)  # for child processes; this one has read it already
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.backends.cudnn.benchmark = False
        # the same switch as use_deterministic_algorithms(True), which also imports the compiler, for seconds
        torch.set_deterministic_debug_mode("error")
    return seed


def make_generator(seed: int, device: torch.device | str = "cpu", stream: str = "") -> torch.Generator:
    """Torch generator of its own random stream.

    Streams of different names are independent, so that switching one consumer on or off (say, observation noise)
    does not change what the others draw.

    Args:
        seed: Seed of the run.
        device: Device of the generator and of everything drawn from it.
        stream: Name of the stream, for instance ``"observations"``.
    """
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    # 63 bits: torch reads a seed as a signed 64-bit number
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest, "little") >> 1)


def rng_state() -> dict[str, Any]:
    """State of the global generators of this process (Python, NumPy, torch on the CPU and on the current GPU).

    Plain data and uint8 tensors, loadable with ``torch.load(weights_only=True)``. A process that has not used a GPU
    stores None for it.
    """
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "torch": torch.get_rng_state(),
        # the other GPUs belong to other processes: asking for their state would claim memory on each
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore what :func:`rng_state` returned.

    Raises:
        ValueError: The state is of a GPU run and this machine has no GPU; nothing has been restored then.
    """
    if state["cuda"] is not None and not torch.cuda.is_available():
        raise ValueError("The random state is of a run on a GPU, and no GPU is available here.")
    words = np.array(state["numpy"]["state"]["key"], dtype=np.uint32)
    random.setstate(state["python"])
    np.random.set_state({**state["numpy"], "state": {**state["numpy"]["state"], "key": words}})
    # a checkpoint loaded with map_location="cuda" brings these along, torch wants them on the host
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"].cpu())
