"""Commands that play clips as Warp code: the frames of the torch term, step by step and reset by reset."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import warp as wp

from lab_core.envs import make_env
from lab_core.mdp import ClipReference
from lab_core.testing import CartClipCommand, CartClipCommandCfg, clip_cartpole_env_cfg, reset_to_clip
from lab_warp.mdp import ClipCommandWarp
from lab_warp.twins import twin_of

N = 6
DEVICES = [
    "cpu",
    pytest.param(
        "cuda:0",
        marks=pytest.mark.gpu,
    ),
]


@dataclass(kw_only=True)
class TableCommandCfg(CartClipCommandCfg):
    """The same command, out of a table of all frames."""

    def build(self, env) -> CartClipCommand:
        return CartClipCommand(self, env)


@twin_of(TableCommandCfg)
class TableCommandWarp(ClipCommandWarp, CartClipCommand):
    def __init__(self, cfg: TableCommandCfg, env) -> None:
        super().__init__(cfg, env)
        rows = [
            self.reference(torch.full((length,), clip, device=env.device), torch.arange(length, device=env.device))
            for clip, length in enumerate(cfg.clips.values())
        ]
        lengths = self.clip_lengths
        self._table = self.scratch(torch.cat([row.command for row in rows]))
        self._starts = self.scratch(lengths.cumsum(0) - lengths)
        self._arrays = [wp.from_torch(self._starts), wp.from_torch(self._table)]

    def _show(self, mask: wp.array | None) -> None:
        self._show_rows(mask, *self._arrays, self.warp.command)

    def update_metrics(self) -> None:
        """Nothing: the table knows no cart."""


def make(frontend: str, device: str = "cpu"):
    cfg = clip_cartpole_env_cfg(num_envs=N)
    cfg.commands["motion"] = TableCommandCfg(clips={"short": 7, "long": 12})
    cfg.seed = 3
    return make_env(cfg, device, frontend)


@pytest.mark.parametrize("device", DEVICES)
def test_the_twin_shows_the_frames_of_the_term(device):
    """Over many ends of clips, whose starts are drawn by a torch event."""
    env = make("warp", device)
    term = env.command_manager.get_term("motion")
    assert isinstance(term, TableCommandWarp)
    resets = 0
    for _ in range(40):
        last, clip = term.at_end.clone(), term.clip.clone()
        expected = term.next_reference()
        env.step(torch.zeros(N, 1, device=device))
        done = env.reset_buf
        assert torch.equal(done, last)
        assert torch.equal(term.frame[~done], expected.frame[~done])
        assert torch.equal(term.clip[~done], clip[~done])
        shown: ClipReference = term.reference(term.clip, term.frame)
        torch.testing.assert_close(term.command, shown.command)
        torch.testing.assert_close(env.extras["final_obs"]["policy"][:, 4:6], expected.command)
        torch.testing.assert_close(env.scene["robot"].data.joint_pos[done, 0], term.position[done])
        resets += int(done.sum())
    assert resets > 2 * N


@pytest.mark.parametrize("device", DEVICES)
def test_warp_code_starts_rows_of_a_mask_and_no_other(device):
    term = make("warp", device).command_manager.get_term("motion")
    term.start_at(torch.ones(N, dtype=torch.bool, device=device), 0, 2)
    mask = torch.arange(N, device=device) % 2 == 0
    clip, frame = torch.ones(N, dtype=torch.int64, device=device), torch.arange(0, 4 * N, 4, device=device)
    term.start_at(wp.from_torch(mask), wp.from_torch(clip), wp.from_torch(frame))
    assert term.clip.tolist() == [1, 0, 1, 0, 1, 0]
    assert term.frame.tolist() == [0, 2, 8, 2, 11, 2]  # the last one is the last of its clip
    torch.testing.assert_close(term.command, term.reference(term.clip, term.frame).command)


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_reset_without_an_event_begins_the_clip_anew(frontend):
    cfg = clip_cartpole_env_cfg(num_envs=N)
    cfg.commands["motion"] = TableCommandCfg(clips={"short": 30, "long": 40})
    cfg.events = {}
    env = make_env(cfg, "cpu", frontend)
    term = env.command_manager.get_term("motion")
    term.start_at(torch.ones(N, dtype=torch.bool), 1, 5)
    env.step(torch.zeros(N, 1))
    env.reset(mask=[1, 4])
    assert term.frame.tolist() == [6, 0, 6, 6, 0, 6] and term.command_counter.tolist() == [1] * N
    torch.testing.assert_close(term.command, term.reference(term.clip, term.frame).command)


def test_the_command_is_no_island():
    env = make("warp")
    env.step(torch.zeros(N, 1))
    (report,) = [report for report in env.capture_report() if report.stage.endswith("._step")]
    islands = " ".join(report.islands)
    assert "command term" not in islands and reset_to_clip.__name__ in islands
