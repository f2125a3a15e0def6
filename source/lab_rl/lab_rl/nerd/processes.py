"""Several processes that fit one model, started by ``torchrun``; one process alone needs nothing of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


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


def own_device(device: torch.device) -> torch.device:
    """Returns where this process computes: on several GPUs, each process that ``torchrun`` started has its own."""
    if device.type == "cuda" and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device


@contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Joins the processes that ``torchrun`` started, by NCCL on GPUs and by gloo elsewhere."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
