"""Updates of a model: batches of windows, losses, averages of weights, and all of it as state."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_newton import FitCfg
from lab_newton.nerd import NeRDModel
from lab_rl.cuda_graph import CapturedCall
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.windows import WindowSampler
from lab_rl.processes import Processes

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Trainer:
    """Fits ``model`` to ``steps``, which lie on its device; with several processes, each to steps of its own.

    On a GPU, one process makes its updates as a CUDA graph.

    Args:
        cfg: Settings.
        model: With fitted normalisers; all processes begin with the same weights.
        pose_scale: (V,) standard deviation of changes of pose over a step, by which errors of a rollout are divided.
        steps: What this process trains on.
        processes: Which one it is.
        captured: False: without a graph, to compare.
    """

    def __init__(
        self,
        cfg: FitCfg,
        model: NeRDModel,
        pose_scale: Tensor,
        steps: PhysicsSteps,
        processes: Processes | None = None,
        captured: bool = True,
    ) -> None:
        self.cfg = cfg
        self.model = model
        self.processes = processes or Processes()
        self.averaged = copy.deepcopy(model).requires_grad_(False).eval()
        """What is saved and evaluated."""
        self.update_count = 0
        self._steps = steps
        self._pose_scale = pose_scale
        self._context = model.network.context
        self.sampler = WindowSampler(steps, self._context + cfg.horizon - 1, cfg.seed + 1 + self.processes.rank)
        device = steps.q.device
        known = [kind == "effort" for kind in model.representation.feature_kinds]
        noise = cfg.state_noise * model.inputs.std.to(device)
        self._noise_scale = noise.masked_fill(torch.tensor(known, device=device), 0.0)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # What a graph reads must be on its device.
        on_gpu = device.type == "cuda"
        self._learning_rate = torch.zeros((), device=device)
        self._placed: dict[str, Any] = {"fused": on_gpu, "capturable": on_gpu}
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=self._learning_rate if on_gpu else cfg.learning_rate,
            weight_decay=cfg.weight_decay,
            betas=(0.9, 0.99),
            **self._placed,
        )
        self._new_share = torch.zeros((), device=device)
        batch = self.processes.share(cfg.batch_size)
        self._rows = torch.zeros(batch, self._context + cfg.horizon - 1, dtype=torch.int64, device=device)
        self._noise = torch.zeros(batch, self._context, len(known), device=device) if cfg.state_noise else None
        self._device = device
        self._scaler = torch.amp.GradScaler(device.type, enabled=cfg.precision == "fp16")
        self._captures = captured and self.processes.world_size == 1
        self._train = CapturedCall(self._train_on_batch, device, self._captures)

    def update(self) -> Tensor:
        """Makes one update and returns the loss of its batch, a scalar on the device.

        With FP16 a batch whose gradients overflow changes nothing but their scale.
        """
        self._set_learning_rate(self.cfg.learning_rate_at(self.update_count))
        self.update_count += 1
        # Early on the average would remember the random beginning.
        decay = min(self.cfg.ema_decay, self.update_count / (self.update_count + 10.0))
        self._new_share.fill_(1.0 - decay)
        self._rows.copy_(self.sampler.draw(len(self._rows)))
        if self._noise is not None:
            self._noise.copy_(self._draw_noise(self._noise.shape))
        return self._train().clone()

    def _train_on_batch(self) -> Tensor:
        self.model.train()
        errors = self.squared_errors(self._rows, self._noise)
        if self.cfg.loss == "huber":
            errors = torch.where(errors < 1.0, errors, 2.0 * errors.clamp(min=1.0).sqrt() - 1.0)
        # Shares may differ in size, and the gradient is that of the mean over all of them.
        count = torch.full((), float(errors.numel()), device=self._device)
        self.processes.sum_([count])
        loss = errors.sum() / count
        self._optimizer.zero_grad(set_to_none=True)
        self._scaler.scale(loss).backward()
        self.processes.sum_([parameter.grad for parameter in self._parameters if parameter.grad is not None])
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._parameters, self.cfg.max_grad_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._average()
        loss = loss.detach()
        self.processes.sum_([loss])
        return loss

    def squared_errors(self, rows: Tensor, noise: Tensor | None = None) -> Tensor:
        """Returns squared errors on the common scale, of every step predicted in windows ``rows`` (B, length), with
        ``noise`` (B, T, F) added to what the network sees at first.

        Beyond the first ones, steps begin where the model is, with the contacts that its teacher had then: their
        geometry stays as it was recorded, in the frame of the root. That is exact where the root drifts along a plane
        or turns on it; else it is off by as much as the drift, which is small over a window, and gaps that the drift
        itself opens or closes are not seen.
        """
        steps, model, context = self._steps, self.model, self._context
        representation = model.representation
        q, qd, effort, qd_next = (value[rows] for value in (steps.q, steps.qd, steps.effort, steps.qd_next))
        first = slice(0, context)
        features = representation.features(q[:, first], qd[:, first], effort[:, first])
        if noise is not None:
            features = features + noise
        with self._autocast():
            outputs = model(features, steps.contacts(rows[:, first]))
        target = model.changes(representation.velocity_change(q[:, first], qd[:, first], qd_next[:, first]))
        errors = [(outputs.float() - target).square().reshape(-1)]
        frames, outputs = features, outputs[:, -1]
        here, speed = q[:, context - 1], qd[:, context - 1]
        for step in range(context, rows.shape[1]):
            here, speed = representation.apply_change(here, speed, model.changes.inverse(outputs.float()))
            frames = torch.cat((frames[:, 1:], representation.features(here, speed, effort[:, step])[:, None]), dim=1)
            with self._autocast():
                outputs = model(frames, steps.contacts(rows[:, step - context + 1 : step + 1]))[:, -1]
            # Where the recording went from where the model is: what would bring it back.
            change = representation.velocity_change(here, speed, qd_next[:, step])
            off = representation.pose_change(q[:, step], here) / self._pose_scale
            errors += [(outputs.float() - model.changes(change)).square().reshape(-1), off.square().reshape(-1)]
        return torch.cat(errors)

    def state_dict(self) -> dict[str, Any]:
        """Returns all that decides the following updates, of this process."""
        return {
            "update_count": self.update_count,
            "model": self.model.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues, bit for bit on a CPU, where :meth:`state_dict` was taken, with the present settings."""
        self.update_count = state["update_count"]
        self.model.load_state_dict(state["model"])
        self.averaged.load_state_dict(state["averaged"])
        # The state may come from another device.
        stored = state["optimizer"]
        own = {**self._placed, "weight_decay": self.cfg.weight_decay}
        groups = [{**group, **own} for group in stored["param_groups"]]
        self._optimizer.load_state_dict({**stored, "param_groups": groups})
        self._scaler.load_state_dict(state["scaler"])
        self._train = CapturedCall(self._train_on_batch, self._device, self._captures)  # the state lies elsewhere now

    def _draw_noise(self, shape: torch.Size) -> Tensor:
        return self._noise_scale * self.sampler.normal(shape)

    def _autocast(self) -> torch.autocast:
        dtype = _AUTOCAST.get(self.cfg.precision)
        return torch.autocast(self._device.type, dtype or torch.bfloat16, enabled=dtype is not None)

    @torch.no_grad()
    def _average(self) -> None:
        for mean, value in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
            mean.lerp_(value, self._new_share)

    def _set_learning_rate(self, rate: float) -> None:
        self._learning_rate.fill_(rate)
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate if self._placed["capturable"] else rate


def prepare_model(model: NeRDModel, steps: PhysicsSteps) -> Tensor:
    """Fits the normalisers of ``model`` to ``steps`` and returns the scale (V,) of changes of pose.

    Raises:
        LabError: the poses do not follow from the velocities as the model takes for granted, or a model that is to see
            contacts is shown none.
    """
    representation = model.representation
    if model.network.contact_channels:
        geometry, valid = steps.contact_geometry, steps.contact_valid
        if geometry is None or valid is None or not valid.any():
            raise LabError("The model is to see contacts, and there is not one in the steps to train on.")
        if model.contacts is not None:
            model.contacts.fit(geometry[valid])
    model.inputs.fit(representation.features(steps.q, steps.qd, steps.effort))
    model.changes.fit(representation.velocity_change(steps.q, steps.qd, steps.qd_next))
    poses = type(model.changes)(model.layout.num_velocities)
    poses.fit(representation.pose_change(steps.q, steps.q_next))
    check_rule(model, steps)
    return poses.std.to(steps.q.device)


RULE_TOLERANCE = 2e-5
"""How far [m, rad] a recorded pose may lie from the one that its velocity leads to: rounding of FP32, 100 m from the
origin."""


def check_rule(model: NeRDModel, steps: PhysicsSteps) -> float:
    """Returns how far [m, rad] recorded poses lie at most from q' = q + dt qd', by which the model moves them.

    Raises:
        LabError: further than rounding explains.
    """
    moved = model.representation.integrate(steps.q, steps.qd_next)
    off = model.representation.pose_change(steps.q_next, moved).abs()
    worst = off.amax(0)
    if worst.max() > RULE_TOLERANCE:
        channel = int(worst.argmax())
        raise LabError(
            f"In the recording, {model.representation.pose_names[channel]} ends up to {worst[channel]:.2g} away from "
            f"where its velocity leads in {model.layout.dt:g} s (q' = q + dt qd'); the model needs a teacher whose "
            f"every physics step does that to {RULE_TOLERANCE:g}."
        )
    return float(worst.max())
