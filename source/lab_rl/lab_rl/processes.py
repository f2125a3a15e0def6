"""Several processes that learn together, started by ``torchrun``; one process alone needs nothing of it."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lab_core.errors import LabError


class OtherProcessError(LabError, RuntimeError):
    """Another process failed, and says itself why."""


@dataclass(frozen=True)
class Processes:
    """Which process this is."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether it is the one that writes files and prints."""
        return self.rank == 0

    def share(self, total: int) -> int:
        """Returns this process's part of ``total`` things; the first ones take what is left over."""
        return total // self.world_size + (self.rank < total % self.world_size)

    def seed(self, seed: int | None) -> int | None:
        """Returns this process's seed of a run with ``seed``: the first one has that itself, the others have streams
        of their own. None or -1 is drawn, once for all."""
        if self.world_size == 1:
            return seed
        if seed in (None, -1):
            seed = self.from_first(random.SystemRandom().randint(0, 2**31 - 1))
        if self.is_first:
            return seed
        digest = hashlib.blake2b(f"{seed}/{self.rank}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") >> 1

    def sum_(self, tensors: list[Tensor]) -> None:
        """Adds tensors of one type up over all processes, in place."""
        if self.world_size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def gather(self, value: Any) -> list[Any]:
        """Returns what each process gives, in order of rank."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Any) -> Any:
        """Returns what the first process gives."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Around work that may fail in some of the processes: then it fails in all, instead of letting them wait.

        Raises:
            LabError: this process failed.
            OtherProcessError: another one did.
        """
        failure = None
        try:
            yield
        except LabError as error:
            failure = error
        failed = [rank for rank, ok in enumerate(self.gather(failure is None)) if not ok]
        if failure is not None:
            raise failure
        if failed:
            raise OtherProcessError(f"Process {failed[0]} failed.")


def present_processes() -> Processes:
    """Returns which of the processes that were joined this one is."""
    return Processes(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Processes()


def own_device(device: torch.device) -> torch.device:
    """Returns where this process computes: on several GPUs, each process that ``torchrun`` started has its own."""
    if device.type == "cuda" and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Joins the processes that ``torchrun`` started: tensors on GPUs travel by NCCL, everything else by gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield present_processes()
    finally:
        dist.destroy_process_group()


def is_lost_connection(error: BaseException) -> bool:
    """Whether ``error`` says that the processes lost each other, because one of them ended."""
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "NCCL", "Connection "))
