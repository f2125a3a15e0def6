"""Learned models as a solver of the backend."""

from __future__ import annotations

import os
from collections.abc import Set

import newton
import warp as wp
from torch import Tensor

from lab_core.errors import ConfigError
from lab_core.physics import Fingerprint
from lab_core.scene import ArticulationCfg, SceneCfg, actuated_joints
from lab_newton.config import NeRDSolverCfg, NewtonCfg
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.newton_solver import SolverNeRD
from lab_newton.nerd.refusals import check_fingerprint, check_ground, check_robot
from lab_newton.solver import ContactForces
from lab_newton.solvers import WrappedSolver


class NeRDSolver(WrappedSolver):
    """A model that learned how the robot moves, in place of whoever it learned from.

    Actuators, forward kinematics, resets, and sensors of motion stay as they are. There are no forces: what measures
    them, pushes with them or changes what they act on is refused.
    """

    inner: SolverNeRD
    changeable = 0
    feels_wrenches = False

    def __init__(self, cfg: NeRDSolverCfg, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> None:
        """
        Raises:
            ConfigError: the file is missing or damaged, or the scene or the timing differ from what was learned.
        """
        super().__init__(SolverNeRD(model, cfg.model, cfg.runtime), collisions=None)
        self.contact_set = self.inner.contact_set
        # What a model does not see of contacts makes it predict another motion.
        self.strict_capacity = self.contact_set is not None
        self.name = f"NeRD {os.path.basename(cfg.model.rpartition(':')[2])}"
        learned = self.inner.learned.layout
        if physics.substeps != 1:
            raise ConfigError(
                f"physics.substeps is {physics.substeps}: a learned model makes a whole physics step "
                "at once; set it to 1."
            )
        check_robot(self.inner.what, learned, RobotLayout.from_model(model, physics.dt, _actuated(scene, learned)))

    def check_physics(self, fingerprint: Fingerprint) -> None:
        check_fingerprint(self.inner.what, self.inner.fingerprint, fingerprint)
        if self.contact_set is not None:
            check_ground(self.inner.what, fingerprint)

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        self.inner.advance(state, state, control, dt)

    def take_over(self, state: newton.State, mask: wp.array) -> None:
        self._forget(mask)

    def reset(self, state: newton.State, mask: wp.array) -> None:
        self._forget(mask)

    def memory(self) -> dict[str, wp.array | Tensor]:
        if not self._remembers:
            return {}
        history = self.inner.history
        return {
            "history": wp.from_torch(history.tokens),
            "history_length": wp.from_torch(history.length),
            "history_cursor": wp.from_torch(history.cursor),
        }

    def observe(self, kinds: Set[str]) -> None:
        if kinds:
            raise ConfigError(
                f"{self.inner.what} predicts motion, not forces or accelerations: remove the sensors that measure "
                f"{', '.join(sorted(kinds))}."
            )

    def measure_contacts(self) -> ContactForces:
        raise ConfigError(f"{self.inner.what} predicts motion, not forces: remove the sensors of contact forces.")

    @property
    def _remembers(self) -> bool:
        return self.inner.learned.network.context > 1

    def _forget(self, mask: wp.array) -> None:
        if self._remembers:
            self.inner.forget(mask)


def _actuated(scene: SceneCfg, learned: RobotLayout) -> list[str]:
    """Returns the joints that actuators of the scene move."""
    return [
        learned.joint_names[joint]
        for name, cfg in scene.entities.items()
        if isinstance(cfg, ArticulationCfg)
        for joints in actuated_joints(name, cfg.actuators, learned.joint_names).values()
        for joint in joints
    ]
