"""The latest steps of all environments, and windows of steps that follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lab_core.imagination import ArticulationState
from lab_core.recorder import EpisodeRing
from lab_rl.supermimic.recording import STATE


def recorded_state(values: Mapping[str, Tensor], end: str) -> ArticulationState:
    """Returns the states at the ``start`` or the ``end`` of recorded steps."""
    return ArticulationState(*(values[f"{end}/{name}"] for name in STATE))


class WindowBatch:
    """B windows of K steps in memory that stays where it is, so that graphs may read it.

    Args:
        replay: Where they come from.
        length: K.
        batch_size: B.
    """

    def __init__(self, replay: Replay, length: int, batch_size: int) -> None:
        self.length, self.batch_size = length, batch_size
        device, layout = replay.device, replay.ring.layout
        self.rows = layout.allocate(length, batch_size, device=device)
        self.values = layout.views(self.rows)
        """Key -> (K, B, ...)."""
        self.env_ids = torch.zeros(batch_size, dtype=torch.int64, device=device)
        """(B,) environments that they are of."""
        self.valid = torch.zeros(length, batch_size, dtype=torch.bool, device=device)
        """(K, B), steps that follow from the one before; the others are of another time."""

    def state(self, end: str) -> ArticulationState:
        """Returns the states (K, B, ...) at the ``start`` or the ``end`` of the steps."""
        return recorded_state(self.values, end)


class Replay:
    """Draws windows from what a recorder of :func:`replay_recorder_cfg` keeps, without asking the host.

    A step follows the one before if it begins where that one ended, bit for bit, and that one ended no episode: then no
    push, reset or teleport lies between them. A window is whole, or its last valid step ends an episode.

    Call :meth:`index` after steps were made and before windows are drawn.

    Args:
        ring: Of the recorder.
        held_out: (N,) bool, environments from which windows come only for measuring.
        generator: Draws.
    """

    def __init__(self, ring: EpisodeRing, held_out: Tensor, generator: torch.Generator) -> None:
        self.ring = ring
        self.device = ring.device
        self.count = 0
        """Steps so far, also those that were overwritten."""
        self._generator = generator
        self._size = (ring.num_slots, ring.num_envs)
        self._fitted = ~held_out
        self._follows = torch.zeros(self._size, dtype=torch.bool, device=self.device)  # in order of slots
        self._ages = torch.arange(ring.num_slots, device=self.device)
        self._left = torch.zeros(self._size, dtype=torch.int64, device=self.device)  # the rest in order of time
        self._done_at_end = torch.zeros_like(self._follows)
        self._fails_at_end = torch.zeros_like(self._follows)
        self._usable = torch.zeros_like(self._follows)
        self._newest = 0

    @property
    def filled(self) -> int:
        """Steps of every environment that can be drawn."""
        return min(self.count, self.ring.num_slots)

    def index(self, new: int) -> None:
        """Takes notice of the ``new`` steps that every environment has made since the last call."""
        self.count += new
        self._newest = new = min(new, self.ring.num_slots)
        slots = (self.ring.cursor - new + self._ages[:new]).remainder(self.ring.num_slots)
        before, steps = (slots - 1).remainder(self.ring.num_slots), self.ring.steps
        joins = ~steps["ends/done"].index_select(0, before)
        for name in STATE:
            start, end = steps[f"start/{name}"].index_select(0, slots), steps[f"end/{name}"].index_select(0, before)
            joins &= (start.view(torch.int32) == end.view(torch.int32)).all(dim=-1)
        self._follows.index_copy_(0, slots, joins)
        self._measure_runs()

    def newest(self) -> tuple[Mapping[str, Tensor], Tensor]:
        """Returns the steps of the last :meth:`index`, key -> (T, N, ...), and which of them count (T, N) bool."""
        order = self._order()[self.ring.num_slots - self._newest :]
        values = self.ring.layout.views(self.ring.rows.index_select(0, order))
        return values, ~values["ends/broken"]

    def draw_windows(self, batch: WindowBatch, failures: float, newest: float) -> None:
        """Fills ``batch`` with windows to fit to: a share that ends in a failure, a share that ends among the steps of
        the last :meth:`index`, and the rest from anywhere; where there is none of a kind, from anywhere too."""
        length, first = batch.length, self.ring.num_slots - self._newest - batch.length + 1
        whole = (self._left >= length) | self._done_at_end
        anywhere = (self._usable & self._fitted & whole).flatten().cumsum(0)
        failing = (self._usable & self._fitted & self._fails_at_end & (self._left <= length)).flatten().cumsum(0)
        before = anywhere[max(first, 0) * self.ring.num_envs - 1] if first > 0 else torch.zeros_like(anywhere[0])
        number = [round(share * batch.batch_size) for share in (failures, newest)]
        place = self._draw_places(anywhere, batch.batch_size)
        for kind, begin, part in (
            (failing, torch.zeros_like(before), slice(0, number[0])),
            (anywhere, before, slice(number[0], sum(number))),
        ):
            chosen = self._draw_places(kind, part.stop - part.start, begin)
            place[part] = torch.where(kind[-1] > begin, chosen, place[part])
        self._take(batch, place)

    def draw_held_out(self, batch: WindowBatch) -> None:
        """Fills ``batch`` with windows of environments that are held out."""
        whole = (self._left >= batch.length) | self._done_at_end
        self._take(
            batch, self._draw_places((self._usable & ~self._fitted & whole).flatten().cumsum(0), batch.batch_size)
        )

    def draw_steps(self, batch: WindowBatch) -> None:
        """Fills ``batch``, of windows of length 1, with steps from anywhere."""
        self._take(batch, self._draw_places(self._usable.flatten().cumsum(0), batch.batch_size))

    def _measure_runs(self) -> None:
        """Finds, in order of time, how many steps follow each other from each one on, and how that ends."""
        order, steps = self._order(), self.ring.steps
        terminated, done, broken = (
            steps[f"ends/{name}"].index_select(0, order) for name in ("terminated", "done", "broken")
        )
        ages = self._ages.unsqueeze(1)
        self._usable = ~broken & (ages >= self.ring.num_slots - self.filled)
        follows = self._follows.index_select(0, order) & ~broken
        last = torch.ones_like(follows)
        last[:-1] = ~follows[1:]
        end = torch.where(last, ages, self.ring.num_slots).flip(0).cummin(0).values.flip(0)
        self._left = end - ages + 1
        self._done_at_end, self._fails_at_end = done.gather(0, end), terminated.gather(0, end)

    def _order(self) -> Tensor:
        """(T,) slots in order of time, the oldest first."""
        return (self.ring.cursor + self._ages).remainder(self.ring.num_slots)

    def _draw_places(self, running: Tensor, number: int, begin: Tensor | None = None) -> Tensor:
        """Draws places (number,) in (T N) at which the running count (T N) of those to choose from grows beyond
        ``begin``."""
        chance = torch.rand(number, dtype=torch.float64, generator=self._generator, device=self.device)
        begin = torch.zeros_like(running[-1]) if begin is None else begin
        rank = begin + (chance * (running[-1] - begin)).long()
        return torch.searchsorted(running, rank, right=True).clamp_(max=len(running) - 1)

    def _take(self, batch: WindowBatch, place: Tensor) -> None:
        age, env_ids = place.div(self.ring.num_envs, rounding_mode="floor"), place.remainder(self.ring.num_envs)
        within = self._ages[: batch.length].unsqueeze(1)
        ages = (age + within).clamp(max=self.ring.num_slots - 1)
        self.ring.select(self._order()[ages], env_ids.expand_as(ages), out=batch.rows)
        batch.env_ids.copy_(env_ids)
        batch.valid.copy_((within < self._left.flatten()[place]) & self._usable.flatten()[place])

    def state_dict(self) -> dict[str, Any]:
        """Returns all steps in order of time."""
        order = self._order()
        follows = self._follows.index_select(0, order)
        return {"count": self.count, "rows": self.ring.rows.index_select(0, order), "follows": follows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts steps back, behind the one that the ring is at."""
        order = self._order()
        self.ring.rows.index_copy_(0, order, state["rows"].to(self.device))
        self._follows.index_copy_(0, order, state["follows"].to(self.device))
        self.count = state["count"]
