"""A gyroscope and an accelerometer on a body."""

from __future__ import annotations

from typing import Any

import newton
import warp as wp
from newton.solvers import SolverBase

from lab_core.sensors import ImuCfg, ImuData
from lab_newton.sensors import body_kernels as kernels
from lab_newton.sensors.bodies import BodyMotions
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp
from lab_newton.solver import Solver


class ImuSensor(Sensor):
    """Specific force of the last solver step, angular velocity after it."""

    observables = frozenset({SolverBase.ObservableKind.BODY_QDD})

    def __init__(self, cfg: ImuCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown, or the name is a pattern that matches several bodies.
            UnknownNameError: the body is unknown.
        """
        super().__init__(cfg, name, context)
        self._place = self.entity.layout.body[self.find_body(cfg.body_name)]
        rotation: Any = wp.quat(*cfg.quat)  # Warp declares normalize for quaternions of another class
        self._mount = wp.transform(wp.vec3(*cfg.pos), wp.normalize(rotation))
        self.data = ImuData(cfg, self.num_envs, self.torch_device)
        share_with_warp(self.data, {"ang_vel_b": wp.vec3, "lin_acc_b": wp.vec3})
        self._motions = BodyMotions([self._place], self.num_envs, self.device)

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        self._motions.bind(model, state)
        self._model = model
        self._state = state
        assert solver.observables is not None, "the backend asks for what sensors need"
        self._accelerations = solver.observables.body_qdd
        self.data.warp.ang_vel_b.zero_()
        self.data.warp.lin_acc_b.zero_()

    def before_last_solver_step(self) -> None:
        self._motions.read()

    def after_step(self) -> None:
        wp.launch(
            kernels.read_specific_force,
            dim=self.num_envs,
            inputs=[
                self._place,
                self._motions.bodies_per_world,
                self._mount,
                self._accelerations,
                self._model.body_com,
                self._model.gravity,
                self._motions.rotations,
                self._motions.ang_vels,
            ],
            outputs=[self.data.warp.lin_acc_b],
            device=self.device,
        )

    def refresh(self, mask: wp.array | None) -> None:
        wp.launch(
            kernels.read_ang_vel,
            dim=self.num_envs,
            inputs=[
                mask,
                self._place,
                self._motions.bodies_per_world,
                self._mount,
                self._state.body_q,
                self._state.body_qd,
            ],
            outputs=[self.data.warp.ang_vel_b],
            device=self.device,
        )

    def clear(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear_imu,
            dim=self.num_envs,
            inputs=[mask],
            outputs=[self.data.warp.ang_vel_b, self.data.warp.lin_acc_b],
            device=self.device,
        )
