"""Where in the clips episodes begin: more often where the policy does badly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lab_core.config import Settings
from lab_core.managers import TermError, check_number
from lab_core.sampling import uniform
from lab_core.state import Stateful


@dataclass(kw_only=True)
class ClipSamplerCfg(Settings):
    """See :class:`ClipSampler`."""

    bin_s: float = 1.0
    """Length of a bin [s]; the last one of a clip may be shorter."""
    rate: float = 0.01
    """Share that one visit of a whole bin has in its moving averages."""
    failure_weight: float = 0.5
    """Weight of failures per visit beside (1 - return)^2."""
    uniform_share: float = 0.15
    """Share of starts that is spread evenly over all bins."""
    max_share: float = 50.0
    """Largest share of a bin, in multiples of an even one."""
    lead_bins: int = 2
    """A bin's weight counts in so many bins before it, too: what fails there began earlier."""
    tail_frames: int = 10
    """No episode begins in so many frames at the end of a clip."""


class ClipSampler(Stateful):
    """Draws the clip and the frame that an episode begins at.

    Clips are cut into B bins. Each has moving averages of the return and of the failures of its visits; the weight
    w = (1 - return)^2 + failure_weight * failures is averaged with that of the next bins of the clip, and the
    probability is (1 - uniform_share) w / sum(w) + uniform_share / B, at most max_share / B. Within a bin frames are
    equally likely. A bin that nobody visited counts as one whose return is 0.

    Raises:
        TermError: a clip has no frame, or a setting is out of its range.
    """

    def __init__(
        self, cfg: ClipSamplerCfg, clip_lengths: torch.Tensor, step_dt: float, device: str | torch.device = "cpu"
    ) -> None:
        """Cuts clips of ``clip_lengths`` (C,) frames, which are ``step_dt`` [s] apart, into bins."""
        _check(cfg)
        lengths = clip_lengths.detach().cpu().long()
        if lengths.dim() != 1 or not len(lengths) or int(lengths.min()) < 1:
            raise TermError(f"A clip sampler needs the lengths (C,) of clips of one frame and more, got {lengths}.")
        self.cfg = cfg
        self.bin_frames = max(1, round(cfg.bin_s / step_dt))
        starts = (lengths - cfg.tail_frames).clamp(min=1)  # frames of each clip that an episode may begin at
        counts = (starts + self.bin_frames - 1) // self.bin_frames
        clips = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        offsets = counts.cumsum(0) - counts
        self.num_bins = len(clips)
        index = torch.arange(self.num_bins)
        first = (index - offsets[clips]) * self.bin_frames
        following = index[:, None] + torch.arange(cfg.lead_bins + 1)
        within = following < (offsets + counts)[clips][:, None]

        def constant(value: torch.Tensor) -> torch.Tensor:
            return self.scratch(value.to(device))

        self._lengths, self._counts, self._offsets = map(constant, (lengths, counts, offsets))
        self._clips, self._first = constant(clips), constant(first)
        self._widths = constant(torch.minimum(starts[clips] - first, torch.tensor(self.bin_frames)))
        self._following = constant(following.clamp(max=self.num_bins - 1))
        self._shares = constant(within / within.sum(dim=1, keepdim=True))
        self.returns = torch.zeros(self.num_bins, device=device)
        """(B,) moving average of the normalised return of a step, 0 to 1."""
        self.failures = torch.zeros(self.num_bins, device=device)
        """(B,) moving average of the failures of a visit."""
        self.visits = torch.zeros(self.num_bins, dtype=torch.float64, device=device)
        """(B,) visits so far, in whole bins."""

    @property
    def starts(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of each bin (B,) int64: its clip, its first frame, and in how many frames from there episodes may begin."""
        return self._clips, self._first, self._widths

    def bins(self, clip: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        """Returns the bins (K,) int64 of frames (K,) of clips (K,); the tail of a clip belongs to its last bin."""
        return self._offsets[clip] + torch.minimum(frame // self.bin_frames, self._counts[clip] - 1)

    def update(
        self,
        clip: torch.Tensor,
        frame: torch.Tensor,
        score: torch.Tensor,
        failed: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        """Takes over how a step went in the rows of ``mask`` (K,) bool.

        A row is a part of a visit, one frame of its bin. Where an episode fails, the frames that it misses in the
        second after count as scores of 0, and the failure as a visit of its own. Rows of the same bin all count,
        independently of their order.

        Args:
            clip: (K,) int64.
            frame: (K,) int64, what the policy was shown in the step.
            score: (K,) normalised return of the step, 0 to 1; one that is not a number counts as 0.
            failed: (K,) bool, episodes that failed in it.
        """
        part, failed = 1.0 / self.bin_frames, failed & mask
        own = self.bins(clip, frame)
        later = torch.minimum(frame + self.bin_frames, self._lengths[clip] - 1)
        next_bin = self.bins(clip, later)
        missed = (later - frame) * failed
        # A failure reaches at most into the next bin; missed frames before its beginning are of its own.
        after = torch.where(next_bin == own, 0, (later - self._first[next_bin] + 1).clamp(min=0) * failed)
        mass = torch.zeros_like(self.returns).index_add_(0, own, part * (mask + missed - after))
        mass.index_add_(0, next_bin, part * after)
        total = torch.zeros_like(mass).index_add_(0, own, part * torch.where(mask, score, 0.0).nan_to_num(0.0))
        count = torch.zeros_like(mass).index_add_(0, own, failed.to(mass.dtype))
        seen = torch.zeros_like(mass).index_add_(0, own, part * mask)
        self._average(self.returns, total, mass)
        self._average(self.failures, count, seen + count)
        self.visits.add_(seen)

    def probabilities(self) -> torch.Tensor:
        """Returns the probability of each bin (B,) float64."""
        cfg = self.cfg
        weights = (1.0 - self.returns.double()) ** 2 + cfg.failure_weight * self.failures.double()
        weights = (weights[self._following] * self._shares).sum(dim=1) + 1e-12  # all could be 0
        even, limit = 1.0 / self.num_bins, cfg.max_share / self.num_bins
        probabilities = ((1.0 - cfg.uniform_share) * weights / weights.sum() + cfg.uniform_share * even).clamp(
            max=limit
        )
        room = limit - probabilities  # takes what was cut off, and cannot overflow: the limits sum to 1 or more
        return probabilities + room * ((1.0 - probabilities.sum()) / room.sum().clamp(min=1e-12))

    def draw(self, generator: torch.Generator, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns ``n`` clips and frames (n,) int64 each, without waiting for the device."""
        # In whole numbers: the running sum of floats does not repeat bit for bit on a GPU.
        borders = (self.probabilities() * 2.0**40).round().long().cumsum(0)
        place, within = uniform(0.0, 1.0, (2, n), generator).double().unbind()
        place = (place * borders[-1]).long()
        chosen = torch.searchsorted(borders, place, right=True).clamp(max=self.num_bins - 1)
        width = self._widths[chosen]
        frame = self._first[chosen] + torch.minimum((within * width).long(), width - 1)
        return self._clips[chosen], frame

    def statistics(self) -> dict[str, torch.Tensor]:
        """Returns numbers () for logs: ``entropy`` as a share of the largest, ``top_share`` of the likeliest bin, and
        how many bins were ``never_visited``."""
        probabilities = self.probabilities()
        entropy = -(probabilities * probabilities.clamp(min=1e-30).log()).sum()
        return {
            "entropy": entropy / math.log(max(self.num_bins, 2)),
            "top_share": probabilities.max(),
            "never_visited": (self.visits == 0.0).sum(),
        }

    def _average(self, average: torch.Tensor, total: torch.Tensor, mass: torch.Tensor) -> None:
        """Moves ``average`` towards ``total / mass`` by as much as ``mass`` visits count."""
        share = 1.0 - (1.0 - self.cfg.rate) ** mass
        average.add_(share * (total / mass.clamp(min=1e-12) - average))


def _check(cfg: ClipSamplerCfg) -> None:
    what = "sampler"
    for name in ("bin_s", "rate", "failure_weight", "uniform_share", "max_share"):
        check_number(getattr(cfg, name), f"{what}: {name}")
    if not cfg.bin_s > 0.0:
        raise TermError(f"{what}: bin_s must be positive, got {cfg.bin_s}.")
    if not 0.0 < cfg.rate < 1.0:
        raise TermError(f"{what}: rate must be between 0 and 1, got {cfg.rate}.")
    if cfg.failure_weight < 0.0:
        raise TermError(f"{what}: failure_weight must not be negative, got {cfg.failure_weight}.")
    if not 0.0 <= cfg.uniform_share <= 1.0:
        raise TermError(f"{what}: uniform_share must be in 0 .. 1, got {cfg.uniform_share}.")
    if cfg.max_share < 1.0:
        raise TermError(f"{what}: max_share must be 1 or more, got {cfg.max_share}.")
    for name in ("lead_bins", "tail_frames"):
        value = getattr(cfg, name)
        if not isinstance(value, int) or value < 0:
            raise TermError(f"{what}: {name} must be a whole number of 0 or more, got {value!r}.")
