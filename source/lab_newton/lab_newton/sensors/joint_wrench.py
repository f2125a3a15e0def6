"""The force and torque that bodies receive through the joint to their parent."""

from __future__ import annotations

import newton
import warp as wp
from newton.solvers import SolverBase

from lab_core.sensors import JointWrenchCfg, JointWrenchData
from lab_newton.sensors import body_kernels as kernels
from lab_newton.sensors.bodies import BodyMotions
from lab_newton.sensors.sensor import Sensor, SensorContext, share_with_warp
from lab_newton.solver import Solver


class JointWrenchSensor(Sensor):
    """Incoming joint wrenches, in the frames that the bodies had when the solver found them."""

    observables = frozenset({SolverBase.ObservableKind.BODY_PARENT_F})

    def __init__(self, cfg: JointWrenchCfg, name: str, context: SensorContext) -> None:
        """
        Raises:
            ConfigError: the entity is unknown.
            UnknownNameError: a body is unknown.
        """
        super().__init__(cfg, name, context)
        bodies = self.find_bodies(cfg.body_names)
        names = tuple(self.entity.layout.body_names[body] for body in bodies)
        self.data = JointWrenchData(names, self.num_envs, self.torch_device)
        share_with_warp(self.data, {"wrench_b": wp.spatial_vector})
        self._motions = BodyMotions([self.entity.layout.body[body] for body in bodies], self.num_envs, self.device)

    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        self._motions.bind(model, state)
        assert solver.observables is not None, "the backend asks for what sensors need"
        self._wrenches_w = solver.observables.body_parent_f
        self.data.warp.wrench_b.zero_()

    def before_last_solver_step(self) -> None:
        self._motions.read()

    def after_step(self) -> None:
        wp.launch(
            kernels.read_wrenches,
            dim=self.data.warp.wrench_b.shape,
            inputs=[
                self._motions.places,
                self._motions.bodies_per_world,
                self._wrenches_w,
                self._motions.rotations,
            ],
            outputs=[self.data.warp.wrench_b],
            device=self.device,
        )

    def clear(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear_wrenches,
            dim=self.data.warp.wrench_b.shape,
            inputs=[mask],
            outputs=[self.data.warp.wrench_b],
            device=self.device,
        )
