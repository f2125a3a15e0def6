"""A learned model with the interface of Newton's own solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import newton
import torch
import warp as wp
from newton.solvers import SolverBase
from torch import Tensor

from lab_core.errors import ConfigError
from lab_core.sensors import split_tokens
from lab_newton.arrays import present
from lab_newton.config import Runtime
from lab_newton.contact_set import ContactSet
from lab_newton.nerd import history_kernels as kernels
from lab_newton.nerd.impulses import ImpulseStep
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.model_file import load_model
from lab_newton.nerd.networks import ContactImpulses, Contacts
from lab_newton.nerd.refusals import check_drives, check_robot, check_step, find_search, layout_like
from lab_newton.robot_files import asset_path
from lab_warp import capture_torch


class SolverNeRD(SolverBase):
    """Moves joints as a model learned it, one articulation per world; bodies follow by forward kinematics.

    Whoever writes joint states must call :meth:`reset` or :meth:`forget` for those worlds: their history would not
    lead to them. ``state.body_f`` and properties that change are not felt. Contacts are found here, for a model that
    looks at them, from where ``state_in`` has its bodies.

    Args:
        model: Worlds that hold the robot of the learned model.
        learned: The learned model, or its file: a path, or ``package:path/inside/package``.
        runtime: What computes the network, see :class:`lab_newton.NeRDSolverCfg`.

    Raises:
        ConfigError: the file is missing or damaged, the worlds hold something other than what the model learned, or
            there is no such runtime.
    """

    def __init__(self, model: newton.Model, learned: NeRDModel | str | Path, runtime: Runtime = "kernels") -> None:
        super().__init__(model)
        if runtime not in get_args(Runtime):
            raise ConfigError(f"runtime must be one of {', '.join(get_args(Runtime))}, got {runtime!r}.")
        self.what = "The learned model"
        self.fingerprint: Mapping[str, Any] = {}
        """Of the physics that the model learned, as its file says; empty without a file."""
        if not isinstance(learned, NeRDModel):
            try:
                path = asset_path(str(learned))
            except ConfigError as error:
                raise ConfigError(f"Learned model: {error} `lab nerd fit` makes one.") from error
            self.what = f"The learned model {path.name!r}"
            learned, description = load_model(path)
            self.fingerprint = description.fingerprint
        layout = learned.layout
        check_robot(self.what, layout, layout_like(layout, model, layout.dt))
        check_drives(self.what, model)
        self.learned = learned.to(wp.device_to_torch(model.device)).eval().requires_grad_(False)
        self._shape_q = (model.world_count, layout.num_positions)
        self._shape_qd = (model.world_count, layout.num_velocities)
        self.history = self.learned.make_history(model.world_count)
        """The latest frames of all worlds."""
        self.contact_set: ContactSet | None = None
        """What it sees of contacts."""
        self._tokens: Tensor | None = None
        if self.learned.network.contact_channels:
            self.contact_set = ContactSet(model, find_search(self.what, self.learned))
            self._tokens = self.contact_set.torch_tokens
        self._length = wp.from_torch(self.history.length)
        self._no_control = model.control()
        self._kernels: ImpulseStep | None = None
        network = self.learned.network
        if isinstance(network, ContactImpulses) and layout.floating and runtime == "kernels":
            assert self.contact_set is not None
            self._kernels = ImpulseStep(model, self.learned, self.contact_set.tokens)
        self._predict: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] = self._step_model
        if runtime == "compiled":
            self._predict = torch.compile(self._step_model, fullgraph=True, dynamic=False)
        if self._kernels is None:
            self._warm_up()

    def step(
        self,
        state_in: newton.State,
        state_out: newton.State,
        control: newton.Control | None,
        contacts: newton.Contacts | None,
        dt: float,
        *,
        observables: SolverBase.Observables | None = None,
    ) -> None:
        """Advances ``state_in`` by ``dt`` [s] into ``state_out``, which may be the same.

        ``contacts`` are not looked at.

        Raises:
            ConfigError: the model learned steps of another duration, or has nothing to be observed.
        """
        if observables is not None:
            raise ConfigError(f"{self.what} predicts motion; there is nothing else to observe in it.")
        if self.contact_set is not None:
            self.contact_set.update(state_in)
        self.advance(state_in, state_out, control, dt)

    def advance(
        self, state_in: newton.State, state_out: newton.State, control: newton.Control | None, dt: float
    ) -> None:
        """Does the same with the contacts of :attr:`contact_set`, which the caller has updated.

        Raises:
            ConfigError: the model learned steps of another duration.
        """
        check_step(self.what, self.learned.layout, dt)
        effort = present((control or self._no_control).joint_f)
        q, qd, q_out, qd_out = (
            present(x) for x in (state_in.joint_q, state_in.joint_qd, state_out.joint_q, state_out.joint_qd)
        )
        if self._kernels is not None:
            self._kernels(state_in, effort, q_out, qd_out)
        else:
            capture_torch(self._advance, q, qd, effort, q_out, qd_out)
        newton.eval_fk(self.model, q_out, qd_out, state_out)

    def reset(
        self, state: newton.State, world_mask: wp.array | None = None, flags: newton.StateFlags | int | None = None
    ) -> None:
        """Forgets what led to the states of the worlds of ``world_mask`` (N + 1,), of all if None."""
        mask = self._normalize_reset_world_mask(world_mask)
        if mask is None:
            self._length.zero_()
        else:
            self.forget(mask)

    def forget(self, mask: wp.array) -> None:
        """Forgets what led to the states of the worlds of ``mask``, (N,) bool or longer."""
        wp.launch(kernels.forget, dim=self.model.world_count, inputs=[mask], outputs=[self._length], device=mask.device)

    def notify_model_changed(self, flags: newton.ModelFlags | int) -> None:
        """Refuses, whatever changed.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{self.what} cannot follow changed physics ({newton.ModelFlags(flags)!r}).")

    def _advance(self, q: wp.array, qd: wp.array, effort: wp.array, q_out: wp.array, qd_out: wp.array) -> None:
        poses, velocities = wp.to_torch(q).view(self._shape_q), wp.to_torch(qd).view(self._shape_qd)
        efforts = wp.to_torch(effort).view(self._shape_qd)[:, -self.learned.layout.num_joints :]
        with torch.no_grad():
            poses, velocities = self._predict(poses, velocities, efforts)
            wp.to_torch(q_out).view(self._shape_q).copy_(poses)
            wp.to_torch(qd_out).view(self._shape_qd).copy_(velocities)

    def _step_model(self, q: Tensor, qd: Tensor, effort: Tensor) -> tuple[Tensor, Tensor]:
        contacts = None
        if self._tokens is not None:
            valid, owner, geometry = split_tokens(self._tokens[:, None])
            contacts = Contacts(geometry, owner, valid)
        return self.learned.step(self.history, q, qd, effort, contacts)

    def _warm_up(self) -> None:
        """Lets libraries initialise themselves, and compilers run, while nobody captures."""
        model = self.model
        scratch = model.state()
        self._advance(
            present(model.joint_q), present(model.joint_qd), present(self._no_control.joint_f),
            present(scratch.joint_q), present(scratch.joint_qd),
        )  # fmt: skip
        self.history.clear()
