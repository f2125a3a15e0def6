"""Fitting the world model to recorded windows, in which it predicts on its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lab_core.agents import SuperMimicCfg
from lab_rl.cuda_graph import CapturedCall
from lab_rl.fused import fused
from lab_rl.supermimic.optimizer import GuardedOptimizer
from lab_rl.supermimic.replay import Replay, WindowBatch, recorded_state
from lab_rl.supermimic.state import RobotState
from lab_rl.supermimic.task import TrackingTask
from lab_rl.supermimic.world_model import WorldModel

HEIGHT_SCALE, GRAVITY_SCALE, JOINT_SCALE = 0.05, 0.1, 0.1
"""Errors of height [m], direction of gravity and joints [rad or m] that count as one."""

MEASURED_STEPS = (8, 16, 32)
"""Lengths of predictions that are measured."""


class WorldModelFit:
    """Updates a world model.

    The loss is the smooth L1 norm of the errors of velocities in the root frame, over the standard deviations of their
    increments, plus that of the errors of what is seen of the pose: height, direction of gravity, joints, and the cross
    entropy of events. Steps that do not follow in a window have no part in it.

    Args:
        model: To fit.
        task: Gives settings of the robot in each environment.
        replay: Where windows come from.
        cfg: Settings.
        context: (N, C) in place.
        generator: Of the noise on first states.
        total_updates: Over which the learning rate falls.
    """

    def __init__(
        self,
        model: WorldModel,
        task: TrackingTask,
        replay: Replay,
        cfg: SuperMimicCfg,
        context: Tensor,
        generator: torch.Generator,
        total_updates: int,
    ) -> None:
        self.model, self.cfg = model, cfg.world_model
        self.update_count = 0
        self._task, self._replay, self._context = task, replay, context
        self._generator, self._total = generator, total_updates
        self._autocast = cfg.precision == "bf16"
        self.optimizer = GuardedOptimizer(
            model.parameters(),
            self.cfg.learning_rate,
            self.cfg.max_grad_norm,
            weight_decay=self.cfg.weight_decay,
            matrices=model.network.hidden_matrices() if cfg.optimizer == "muon" else (),
            matrix_learning_rate=cfg.muon_learning_rate,
        )
        device = replay.device
        joints = task.motion.num_joints
        scales = [HEIGHT_SCALE, *[GRAVITY_SCALE] * 3] if task.motion.floating else []
        self._pose_scale = torch.tensor([*scales, *[JOINT_SCALE] * joints], device=device)
        self._batches: dict[int, WindowBatch] = {}
        self._calls: dict[int, CapturedCall] = {}
        size = (self.cfg.batch_size, model.inputs.mean.shape[0])
        self._noise = torch.zeros(size, device=device)
        self._fused_step = fused(self._step, device, cfg.fused)
        for horizon in {self.cfg.first_horizon, self.cfg.horizon}:
            batch = WindowBatch(replay, horizon, self.cfg.batch_size)
            self._batches[horizon] = batch
            # partial() would hide the batch from a reader
            self._calls[horizon] = CapturedCall(lambda batch=batch: self._train(batch), device, cfg.captured)

    def observe_newest(self) -> None:
        """Lets the normalisers take in the newest steps of the replay."""
        values, valid = self._replay.newest()
        steps, num_envs = valid.shape
        env_ids = torch.arange(num_envs, device=valid.device)
        start, end = (self.states(values, when, env_ids) for when in ("start", "end"))
        context = self._context.expand(steps, *self._context.shape)
        self.model.inputs.update(self.model.join(start, values["targets"], context), valid)
        self.model.changes.update(self.model.motion.increments(start, end), valid)

    @property
    def horizon(self) -> int:
        """Steps that the model predicts on its own in the next update."""
        return self.cfg.first_horizon if self.update_count < self.cfg.first_updates else self.cfg.horizon

    def update(self) -> Tensor:
        """Makes one update and returns the loss (), on the device."""
        horizon = self.horizon
        progress = min(self.update_count / max(self._total, 1), 1.0)
        share = 0.5 + 0.5 * math.cos(math.pi * progress)
        low, high = self.cfg.final_learning_rate, self.cfg.learning_rate
        self.optimizer.learning_rate.fill_(low + (high - low) * share)
        self.update_count += 1
        self._replay.draw_windows(self._batches[horizon], self.cfg.failure_share, self.cfg.newest_share)
        self._noise.normal_(std=self.cfg.state_noise, generator=self._generator)
        return self._calls[horizon]().clone()

    def _train(self, batch: WindowBatch) -> Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(self._replay.device.type, torch.bfloat16, enabled=self._autocast):
            loss = self.loss(batch, self._noise)
        loss.backward()
        self.optimizer.step(self._valid(batch).any())
        return loss.detach()

    def loss(self, batch: WindowBatch, noise: Tensor | None = None) -> Tensor:
        """Returns the mean error () of predictions from the first states of windows."""
        actual = self.states(batch.values, "end", batch.env_ids)
        valid = self._valid(batch)
        predicted, logits = self._predict(batch, noise, valid, self._fused_step)
        happened = batch.values.get("events", torch.zeros_like(logits))
        return self._error(predicted.tensors(), actual.tensors(), logits, happened, valid)

    def _error(
        self,
        predicted_parts: tuple[Tensor, ...],
        actual_parts: tuple[Tensor, ...],
        logits: Tensor,
        happened: Tensor,
        valid: Tensor,
    ) -> Tensor:
        predicted, actual, motion = RobotState(*predicted_parts), RobotState(*actual_parts), self._task.motion
        functional, weight = torch.nn.functional, valid.unsqueeze(-1)
        # Masked before the norm, whose gradient at what is not finite is not finite either.
        velocity, pose = (
            torch.where(weight, error, 0.0)
            for error in (
                (motion.velocity(predicted) - motion.velocity(actual)) / self.model.changes.std,
                (motion.pose(predicted) - motion.pose(actual)) / self._pose_scale,
            )
        )
        total = sum(
            scale * functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none").mean(dim=-1).sum()
            for scale, error in ((1.0, velocity), (self.cfg.pose_weight, pose))
        )
        if logits.shape[-1]:
            entropy = functional.binary_cross_entropy_with_logits(logits, happened, reduction="none")
            total = total + self.cfg.event_weight * torch.where(weight, entropy, 0.0).mean(dim=-1).sum()
        return total / valid.sum().clamp(min=1)

    @torch.no_grad()
    def measure(self, batch: WindowBatch) -> dict[str, Tensor]:
        """Returns errors () on windows of environments that are held out.

        ``one_step``: of the velocities after one step, as a share of that of velocities that stay. ``root_pos_8`` [m]
        and ``joint_pos_8`` [rad]: medians, over windows that are whole, of how far the model is off when it has
        predicted 8 steps on its own, likewise after 16 and 32, as far as windows go; with ``still_`` before the name,
        those of velocities that stay.
        """
        self._replay.draw_held_out(batch)
        motion, valid = self._task.motion, self._valid(batch)
        start, end = (self.states(batch.values, when, batch.env_ids) for when in ("start", "end"))
        path, _ = self._predict(batch, None, valid, self._step)
        first = start.map(lambda part: part[0])
        true = motion.increments(first, end.map(lambda part: part[0])) / self.model.changes.std
        guess = motion.increments(first, path.map(lambda part: part[0])) / self.model.changes.std
        rows = valid[0].unsqueeze(-1)
        wrong, moved = (torch.where(rows, value, 0.0).square().mean().sqrt() for value in (guess - true, true))
        errors = {"one_step": wrong / moved.clamp(min=1e-9)}
        still = self._keep_moving(first, batch.length)
        for steps in (number for number in MEASURED_STEPS if number <= batch.length):
            for name, states in (("", path), ("still_", still)):
                errors |= {
                    f"{name}{part}_{steps}": torch.where(valid[steps - 1], error, torch.nan).nanmedian()
                    for part, error in self._distances(states, end, steps - 1).items()
                }
        return errors

    def _keep_moving(self, state: RobotState, steps: int) -> RobotState:
        """States (K, B, ...) of robots whose velocities stay."""
        nothing, path = torch.zeros_like(self._task.motion.velocity(state)), []
        for _ in range(steps):
            state = self._task.motion.advance(state, nothing)
            path.append(state)
        return RobotState.stack(path)

    def _distances(self, states: RobotState, others: RobotState, step: int) -> dict[str, Tensor]:
        """Distances (B,) of a step: of the roots [m], and root mean squares of those of joints [rad]."""
        joints = (states.joint_pos[step] - others.joint_pos[step]).square().mean(dim=-1).sqrt()
        if not self._task.motion.floating:
            return {"joint_pos": joints}
        return {"root_pos": (states.pos[step] - others.pos[step]).norm(dim=-1), "joint_pos": joints}

    def _predict(
        self, batch: WindowBatch, noise: Tensor | None, valid: Tensor, step_model: Callable[..., Any]
    ) -> tuple[RobotState, Tensor]:
        """Returns the states (K, B, ...) that the model arrives at, and the logits (K, B, E) of events; windows that do
        not count begin at zero."""
        context = self._context.index_select(0, batch.env_ids)
        first = self.states(batch.values, "start", batch.env_ids).map(lambda part: part[0])
        # With a gradient, as the states behind have one: one compiled function for all.
        state = tuple(torch.where(valid[0].unsqueeze(-1), part, 0.0).requires_grad_() for part in first.tensors())
        targets = torch.where(valid.unsqueeze(-1), batch.values["targets"], 0.0)
        nothing = torch.zeros(batch.batch_size, self._noise.shape[1], device=valid.device)
        path, logits = [], []
        for step in range(batch.length):
            added = nothing if step or noise is None else noise
            state, logit = step_model(state, targets[step], context, added)
            path.append(state)
            logits.append(logit)
        return RobotState(*(torch.stack(parts) for parts in zip(*path, strict=True))), torch.stack(logits)

    def _step(
        self, parts: tuple[Tensor, ...], targets: Tensor, context: Tensor, noise: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        state, logits = self.model(RobotState(*parts), targets, context, noise)
        return state.tensors(), logits

    def _valid(self, batch: WindowBatch) -> Tensor:
        """(K, B) bool: the step follows, and all numbers of the window up to here are finite."""
        values = batch.values
        numbers = [values[key] for key in values if key.startswith(("start/", "end/", "targets"))]
        finite = torch.cat(numbers, dim=-1).isfinite().all(dim=-1)
        return batch.valid & finite.cummin(dim=0).values

    def states(self, values: Mapping[str, Tensor], end: str, env_ids: Tensor) -> RobotState:
        """Returns recorded states (K, B, ...) at the ``start`` or the ``end`` of steps of environments (B,)."""
        state = recorded_state(values, end)
        com = self._task.root_com(env_ids).expand(*state.joint_pos.shape[:-1], 3)
        return RobotState.from_articulation(state, com)

    def state_dict(self) -> dict[str, Any]:
        """Returns model, optimiser and count."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "update_count": self.update_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what :meth:`state_dict` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.update_count = state["update_count"]
