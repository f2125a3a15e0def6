"""How well a policy tracks each clip: every one once from its first frame to its last, undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch

from lab_core.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg, RLEnv
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.rollouts import Evaluation, Policy
from lab_tasks.tracking.errors import tracking_errors
from lab_tasks.tracking.motion_command import MotionCommand, MotionReference

FAR_BODIES = 0.5
"""Mean distance of the key bodies in the world from which PHC (Luo et al. 2023) calls a clip failed [m]."""
_FAILURES = ("anchor_height", "anchor_tilt")
"""Terminations that count as failures."""
_FEET = ("left_ankle_roll_link", "right_ankle_roll_link")


class MotionEvaluator:
    """Plays every clip from its first frame without noise, disturbances and time limit.

    A clip fails where the height or the tilt of the anchor leaves its bounds, after any step. The state that a step
    leads to is compared with the frame that the policy was shown in it. Errors are means over the frames before the
    failure, whatever comes after it; ``return`` is the score of these frames summed, over the length of the clip.
    """

    def configure(self, cfg: ManagerBasedRLEnvCfg, replicas: int) -> None:
        """Makes room for ``replicas`` robots per clip; nothing ends an episode."""
        (command,) = [term for term in cfg.commands.values() if term is not None]
        cfg.scene.num_envs = replicas * len(cast(Any, command).clips)
        reset = cfg.events["reset_to_motion"]
        assert reset is not None
        reset.params["clips_in_turn"] = True
        self._failures = {name: cfg.terminations[name] for name in _FAILURES}
        cfg.terminations = {}
        cfg.episode_length_s = 1e6
        cfg.compute_final_obs = False

    def evaluate(self, env: RLEnv, policy: Policy) -> Evaluation:
        """Returns a row per robot. The environment is one of :meth:`configure`.

        Raises:
            TermError: the environment is none of managers that follows a motion.
        """
        with torch.inference_mode():
            return self._evaluate(cast(ManagerBasedRLEnv, env), policy)

    def _evaluate(self, env: ManagerBasedRLEnv, policy: Policy) -> Evaluation:
        command = env.command_manager.get_term("motion")
        if not isinstance(command, MotionCommand):
            raise TermError(f"Evaluation needs a motion command, got {type(command).__name__}.")
        asset_cfg, feet = SceneEntityCfg(command.cfg.asset_name), command.keys.find(_FEET)
        env.reset()
        clip, lengths = command.clip.clone(), command.clip_lengths[command.clip]
        alive = torch.ones_like(clip, dtype=torch.bool)
        survived = torch.zeros_like(clip)
        totals: dict[str, torch.Tensor] = {}
        is_far = torch.zeros_like(alive)
        observations, previous = env.get_observations(), None
        for frame in range(int(lengths.max())):
            reference = cast(MotionReference, command.reference(clip, torch.full_like(clip, frame)))
            action = policy(observations)
            observations, *_ = env.step(action)
            plays = frame < lengths
            alive &= ~(self._failed(env, command, reference) & plays)
            counted = alive & plays
            values = {"score": command.score().clone()}
            values |= tracking_errors(env, reference.target, command.keys, feet, asset_cfg)
            values |= _rates(env, action, previous)
            for name, value in values.items():
                total = totals.setdefault(name, torch.zeros_like(value))
                total += torch.where(counted, value, 0.0)
            is_far |= counted & (values["mpjpe_g"] > FAR_BODIES)
            survived += counted
            previous = action.clone()
        return _report(command, clip, lengths, survived, totals, is_far)

    def _failed(self, env: ManagerBasedRLEnv, command: MotionCommand, reference: Any) -> torch.Tensor:
        view = _Shown(env, reference)
        failed = [term.func(view, **term.params) for term in self._failures.values() if term is not None]
        state = env.scene[command.cfg.asset_name].data.root_link_pose_w
        return torch.stack([*failed, ~state.isfinite().all(dim=1)]).any(dim=0)


class _Shown:
    """An environment in which the command is what it was in the step before."""

    def __init__(self, env: ManagerBasedRLEnv, reference: Any) -> None:
        self.scene = env.scene
        self._reference = reference

    @property
    def command_manager(self) -> _Shown:
        return self

    def get_term(self, name: str) -> Any:
        return self._reference


def _rates(env: ManagerBasedRLEnv, action: torch.Tensor, previous: torch.Tensor | None) -> dict[str, torch.Tensor]:
    change = torch.zeros_like(action) if previous is None else action - previous
    values = {"action_rate": change.square().sum(dim=1)}
    if "self_collision" in (names := env.reward_manager.term_names):
        touches = env.reward_manager.step_reward[:, names.index("self_collision")] != 0.0
        values["self_collision"] = touches.float()
    return values


def _report(
    command: MotionCommand,
    clip: torch.Tensor,
    lengths: torch.Tensor,
    survived: torch.Tensor,
    totals: Mapping[str, torch.Tensor],
    is_far: torch.Tensor,
) -> Evaluation:
    means = {name: (total / survived.clamp(min=1)).tolist() for name, total in totals.items() if name != "score"}
    returns = (totals["score"] / lengths).tolist()
    rows: list[dict[str, Any]] = []
    for row, (number, length, frames) in enumerate(
        zip(clip.tolist(), lengths.tolist(), survived.tolist(), strict=True)
    ):
        failed = frames < length
        rows.append(
            {
                "clip": command.clip_names[number],
                "replica": row // len(command.clip_names),
                "frames": length,
                "failed": failed,
                "failed_at_s": frames * command._env.step_dt if failed else None,
                "return": returns[row],
                "far": bool(is_far[row]) or failed,
                **{name: values[row] for name, values in means.items()},
            }
        )
    return Evaluation(rows=rows, summary=_summary(rows, list(means)))


def _summary(rows: list[dict[str, Any]], errors: list[str]) -> dict[str, Any]:
    """Means over rows, and those weighted by frames; of errors also over the clips that were done."""
    done, frames = [row for row in rows if not row["failed"]], sum(row["frames"] for row in rows)
    summary: dict[str, Any] = {
        "episodes": len(rows),
        "failed": len(rows) - len(done),
        "far": sum(row["far"] for row in rows),
        "failed_clips": sorted({row["clip"] for row in rows if row["failed"]}),
        "return": _mean(rows, "return"),
        "return_by_frames": sum(row["return"] * row["frames"] for row in rows) / frames,
    }
    for name in errors:
        summary[name] = _mean(rows, name)
        summary[f"{name}_of_done"] = _mean(done, name) if done else None
    return summary


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)
