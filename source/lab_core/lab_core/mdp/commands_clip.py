"""Commands that play recorded clips: what the policy is shown is a frame of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lab_core.env import Env
from lab_core.managers import CommandTerm, CommandTermCfg, TermError
from lab_core.masks import masked_copy_
from lab_core.mdp.clip_sampler import ClipSampler, ClipSamplerCfg


@dataclass(kw_only=True)
class ClipCommandCfg(CommandTermCfg):
    """Base of the configurations of clip commands; see :class:`ClipCommandTerm`."""

    resampling_time_range: tuple[float, float] = (1e9, 1e9)
    """Not used: a clip plays to its end [s]."""
    sampler: ClipSamplerCfg = field(default_factory=ClipSamplerCfg)
    """Where in the clips episodes begin."""


@dataclass(kw_only=True)
class ClipReference:
    """Frames of clips, and what they ask; a command by themselves, for an imagined environment for instance.

    Subclasses add what the terms of their task read of the command.
    """

    clip: torch.Tensor
    """(K,) int64."""
    frame: torch.Tensor
    """(K,) int64, within the clip."""
    at_end: torch.Tensor
    """(K,) bool, the frame is the last one of its clip."""
    command: torch.Tensor
    """(K, D)."""
    metrics: dict[str, torch.Tensor] = field(default_factory=dict)
    """Empty: an episode has metrics, a frame has none."""


class ClipCommandTerm(CommandTerm):
    """Shows each environment a frame of a clip, and in the next step the next one; the last one stays.

    Nothing jumps within an episode: the clip changes in :meth:`start_at` alone, which a reset event calls with what it
    drew from :attr:`sampler`, setting the robot to the same frame. A reset without such an event begins the clip of
    before at its first frame. That episodes end with their clip is said by the termination
    :func:`lab_core.mdp.clip_ended`.

    Clips and frames are numbers (int64) beside each other; a frame beyond the end of its clip is the last one.

    Subclasses define :meth:`_reference`, and :meth:`_update_command` where terms read more of the term than
    :attr:`command`. They may keep values of the sampler by :meth:`ClipSampler.update` in :meth:`update_metrics`, where
    the command is still the one that the step followed.

    Raises:
        TermError: there is no clip, or names and lengths do not fit each other.
    """

    def __init__(
        self, cfg: ClipCommandCfg, env: Env, clip_names: Sequence[str], clip_lengths: Sequence[int], num_components: int
    ) -> None:
        """Takes C clips by name with their lengths [frames, one per environment step], and the width D of a command."""
        super().__init__(cfg, env)
        if not clip_names or len(clip_names) != len(clip_lengths) or len(set(clip_names)) < len(clip_names):
            raise TermError(
                f"A clip command takes clips with names of their own and as many lengths, got {list(clip_names)} and "
                f"{list(clip_lengths)}."
            )
        self.clip_names = tuple(clip_names)
        self.clip_lengths = self.scratch(torch.tensor(list(clip_lengths), dtype=torch.int64, device=env.device))
        """(C,) int64 [frames]."""
        self.sampler = ClipSampler(cfg.sampler, self.clip_lengths, env.step_dt, env.device)
        self.clip = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        """(N,) int64, clip of the frame that the policy is shown now."""
        self.frame = torch.zeros_like(self.clip)
        """(N,) int64, the frame that the policy is shown now."""
        self._started = torch.zeros_like(self.clip, dtype=torch.bool)
        self._command = torch.zeros(env.num_envs, num_components, device=env.device)

    @property
    def command(self) -> torch.Tensor:
        return self._command

    @property
    def clip_hashes(self) -> Mapping[str, str]:
        """Name of each clip -> hash of what it shows, where the term knows one: what was learned from other clips of
        the same names is not to be taken for theirs."""
        return {}

    @property
    def at_end(self) -> torch.Tensor:
        """(N,) bool, the frame that the policy is shown now is the last one of its clip."""
        return self.frame >= self._last_frames(self.clip)

    @abstractmethod
    def _reference(self, clip: torch.Tensor, frame: torch.Tensor, at_end: torch.Tensor) -> ClipReference:
        """Returns what frames (K,) of clips (K,) ask, whether or not an environment is there; frames are within their
        clips. Nothing waits for the device."""

    def reference(self, clip: torch.Tensor, frame: torch.Tensor) -> ClipReference:
        """Returns what frames (K,) int64 of clips (K,) int64 ask, on the device of the term."""
        last = self._last_frames(clip)
        frame = torch.minimum(frame, last)
        return self._reference(clip, frame, frame >= last)

    def next_reference(self) -> ClipReference:
        """Returns what the next frames ask, of all N environments, if no episode ends before."""
        return self.reference(self.clip, self.frame + 1)

    def start_at(self, mask: torch.Tensor, clip: torch.Tensor | int, frame: torch.Tensor | int) -> None:
        """Shows a frame of a clip in the environments of ``mask`` (N,) bool; other rows stay bitwise unchanged.

        Args:
            clip: (N,) int64, or one for all.
            frame: (N,) int64, or one for all.

        Raises:
            TermError: there is no such clip or frame; not found out of tensors, which would wait for the device.
        """
        self._check(clip, frame)
        masked_copy_(self.clip, clip, mask)
        masked_copy_(self.frame, frame, mask)
        torch.minimum(self.frame, self._last_frames(self.clip), out=self.frame)
        self._started.logical_or_(mask)
        self._update_command(mask)

    def compute(self, dt: float) -> None:
        """Moves on to the next frames, whatever ``dt`` is: frames are one step apart."""
        torch.minimum(self.frame + 1, self._last_frames(self.clip), out=self.frame)
        self._started.zero_()
        self._update_command(torch.ones_like(self._started))

    def _resample(self, mask: torch.Tensor) -> None:
        """Starts environments that no event has started in this reset."""
        left = mask & ~self._started
        masked_copy_(self.frame, 0, left)
        masked_copy_(self._started, False, mask)
        self._update_command(left)

    def _update_command(self, mask: torch.Tensor) -> None:
        masked_copy_(self._command, self.reference(self.clip, self.frame).command, mask)

    def _last_frames(self, clip: torch.Tensor) -> torch.Tensor:
        return self.clip_lengths[clip] - 1

    def _check(self, clip: torch.Tensor | int, frame: torch.Tensor | int) -> None:
        if isinstance(clip, int) and not 0 <= clip < len(self.clip_names):
            listed = ", ".join(f"{number}: {name}" for number, name in enumerate(self.clip_names))
            raise TermError(f"There is no clip {clip}, only {listed}.")
        if isinstance(frame, int) and frame < 0:
            raise TermError(f"A clip starts at frame 0 or later, got {frame}.")
