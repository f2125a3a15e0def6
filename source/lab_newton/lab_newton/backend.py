"""The Newton physics backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import newton
import numpy as np
import torch
import warp as wp

from lab_core.capability import CAPABLE
from lab_core.config import check_kinds
from lab_core.errors import unknown_name_message
from lab_core.kinematics import JointKind, KinematicTree
from lab_core.names import UnknownNameError
from lab_core.physics import Fingerprint, HealthReport, PhysicsBackend, PhysicsCfg, SettableCommand
from lab_core.scene import CameraCfg, SceneCfg
from lab_core.seeding import make_generator
from lab_core.state import StateRoot
from lab_newton import mask_kernels
from lab_newton.actuators import EntityActuators
from lab_newton.arrays import present
from lab_newton.body_poses import BodyPoses
from lab_newton.compile import KERNEL_MODULES, compile_modules, leave_out_derivatives, load_kernels
from lab_newton.config import NewtonCfg
from lab_newton.contact_set import share_contact_set
from lab_newton.engine_words import told_of
from lab_newton.fingerprint import describe_model
from lab_newton.kinematics import joint_kinds, kinematic_tree
from lab_newton.model import build_model, files_of
from lab_newton.nerd.wrenches.robot import RobotProperties
from lab_newton.property_notices import PropertyNotices
from lab_newton.robot_files import FileReport, ImportedFile, report_file
from lab_newton.sensors import Sensor, SensorContext, make_sensor
from lab_newton.shown_state import ShownState
from lab_newton.start_pose import warn_of_sunken_roots
from lab_newton.state import NewtonEntity, make_entity
from lab_newton.state.traces import SubstepTraces
from lab_newton.state.wrench import ExternalWrench
from lab_newton.terrain import Ground
from lab_newton.viewer.onlookers import Onlookers
from lab_newton.world_health import WorldHealth
from lab_warp import CaptureContext, WarpRng, captured
from lab_warp.progress import Progress, quiet_warp, start_warp

if TYPE_CHECKING:
    from lab_newton.viewer.browser import BrowserViewer


class NewtonBackend(StateRoot, PhysicsBackend):
    """Steps all worlds with a Newton solver; ``step``, ``reset`` and ``forward`` are captured graphs.

    Every world is built at the origin. The order of joints and bodies is that of the model file, depth first.
    """

    capturable = CAPABLE
    file_reports: tuple[FileReport, ...]
    """What became of each model file: what is simulated otherwise than it says, on purpose."""

    def __init__(self, cfg: PhysicsCfg, scene: SceneCfg, num_envs: int, device: torch.device) -> None:
        super().__init__(cfg, scene, num_envs, device)
        if not isinstance(cfg, NewtonCfg):
            raise TypeError(f"The Newton backend takes a NewtonCfg, got {type(cfg).__name__}.")
        check_kinds(cfg, "physics")
        self._cfg, self._scene = cfg, scene
        start_warp()
        self._device = wp.device_from_torch(device)
        self._capture_context = CaptureContext(self._device)
        self._written = wp.from_torch(self.written)
        self._non_finite = wp.from_torch(self.non_finite)
        self._env_origins = wp.from_torch(self.env_origins, dtype=wp.vec3)
        self._given_mask = torch.zeros_like(self.non_finite)
        self._reset_mask = wp.from_torch(self._given_mask)
        self._ground = Ground(scene, self.terrain, cfg.terrain, self._device)
        self._entities: dict[str, NewtonEntity] = {
            name: make_entity(entity, name, num_envs, self._device) for name, entity in scene.entities.items()
        }
        self._notices = PropertyNotices(self._entities, lambda: self.solver, self._capture_context)
        self._sensors: dict[str, Sensor] = {}
        self._health = WorldHealth(num_envs, cfg.max_velocity, self._device)
        self._traces = SubstepTraces(self._entities, self.sensors, num_envs, self._device)
        with quiet_warp(), Progress("Compiling physics kernels (first run only)") as progress:
            self._rng = WarpRng(num_envs, self._device)
            modules = tuple(dict.fromkeys((*cfg.solver.kernel_modules, *KERNEL_MODULES)))
            leave_out_derivatives(modules)
            compile_modules(modules, self._device, progress)
            progress.show("kernels of this model")
            self._build()
            load_kernels(lambda: self._advance(1), self._device, progress)

    @property
    def capture_context(self) -> CaptureContext:
        return self._capture_context

    @property
    def model(self) -> newton.Model:
        """Newton's model of all worlds, to read."""
        return self._model

    @property
    def description(self) -> str:
        mode = "captured" if self.capture_context.enabled else "eager: LAB_CAPTURE=0"
        return f"{self._cfg.backend} ({self.solver.name}), {mode}"

    @property
    def ignored_buffers(self) -> frozenset[str]:
        return frozenset() if self.solver.feels_wrenches else frozenset({"body_wrench_w"})

    def fingerprint(self) -> Fingerprint:
        return deepcopy(self._fingerprint)

    def kinematic_tree(self, entity: str) -> KinematicTree:
        return kinematic_tree(self._model, self._entity(entity))

    def joint_kinds(self, entity: str) -> tuple[JointKind, ...]:
        """Returns whether each joint of ``entity`` is a hinge or a slide, in the order of its data."""
        return joint_kinds(self._model, self._entities[entity].layout)

    def imported(self, entity: str) -> ImportedFile:
        """Returns what is known of the model file of ``entity``."""
        imported = self._entities[entity].imported
        assert imported is not None, "only articulations have files"
        return imported

    def robot_properties(self, entity: str) -> RobotProperties:
        """Returns the masses of ``entity`` in the first environment.

        Raises:
            ConfigError: its joints have what does not follow from motion, such as dry friction.
            UnknownNameError: there is no such entity.
        """
        return RobotProperties.from_model(self._model, self._entity(entity))

    def _entity(self, name: str) -> NewtonEntity:
        if name not in self._entities:
            raise UnknownNameError(unknown_name_message("entity", name, self._entities))
        return self._entities[name]

    def step(self, substeps: int) -> None:
        self._step(substeps)

    def reset(self, mask: torch.Tensor) -> None:
        if mask.dtype != torch.bool or mask.shape != self.non_finite.shape:
            raise ValueError(
                f"A mask of environments is a bool tensor ({self.num_envs},), got {mask.dtype} {tuple(mask.shape)}."
            )
        if self._device.is_capturing:  # torch cannot take part in somebody else's capture
            wp.copy(self._reset_mask, wp.from_torch(mask))
        else:
            self._given_mask.copy_(mask)
        self._reset()

    def forward(self) -> None:
        self._forward()

    @captured
    def _step(self, substeps: int) -> None:
        self._advance(substeps)

    def _advance(self, substeps: int) -> None:
        entities = self._entities.values()
        wp.launch(mask_kernels.clear_flags, dim=self.num_envs, outputs=[self._non_finite], device=self._device)
        # State that was authored since the last forward() must not be lost.
        self._write_state(self._written)
        # Sensors look at bodies before the last solver step, which may be the first.
        looks_at_once = self.solver.observables is not None and substeps * self._cfg.substeps == 1
        looks_early = any(sensor.reads_bodies_early for sensor in self._sensors.values())
        contact_set = self.solver.contact_set
        if self.solver.reads_bodies or looks_at_once or looks_early or contact_set is not None:
            self._poses.refresh(self._written, self._state)
        self.solver.take_over(self._state, self._written)
        for entity in entities:
            entity.write_targets(self._control, self._non_finite)
        for wrench in self._wrenches:
            if self.solver.feels_wrenches:
                wrench.write(self._state)
            else:
                wrench.find(self._health.ignored_wrenches)
        self._traces.begin(substeps)
        for substep in range(substeps):
            present(self._control.joint_f).zero_()
            for actuators in self._actuators.values():
                actuators.step(self._state, self._control, self.dt)
            if substep == substeps - 1:
                for entity in entities:
                    entity.read_effort(self._control)
            if contact_set is not None:
                contact_set.update(self._state)
            for sensor in self._sensors.values():
                sensor.before_substep()
            self._traces.before_solver(substep, self._control)
            self._solve(is_last=substep == substeps - 1)
            for sensor in self._sensors.values():
                sensor.after_substep()
            self._traces.after_solver(substep, self._state)
        self._traces.end(substeps)
        self._restore_non_finite()
        for entity in entities:
            entity.read_state(self._model, self._state, self._written, elapsed=substeps * self.dt)
        for sensor in self._sensors.values():
            sensor.after_step()
            sensor.clear(self._non_finite)
            sensor.refresh(None)

    def _solve(self, is_last: bool) -> None:
        """One physics step of the solver; ``is_last``: the last one of a step."""
        self.solver.collide(self._state)
        for substep in range(self._cfg.substeps):
            observed = is_last and substep == self._cfg.substeps - 1
            if observed:
                for sensor in self._sensors.values():
                    sensor.before_last_solver_step()
            self.solver.step(self._state, self._control, self.dt / self._cfg.substeps, observed)
            for sensor in self._sensors.values():
                sensor.after_solver_step()

    def _restore_non_finite(self) -> None:
        """Puts worlds that went non-finite, or too fast, to their default state before anything can read them."""
        self._health.find(self._state, self._non_finite)
        for entity in self._entities.values():
            entity.restore_default(self._non_finite, self._env_origins, self._state)
        self._poses.refresh(self._non_finite, self._state, self._health.count)
        self._forget(self._non_finite)
        self.solver.take_over(self._state, self._non_finite)

    @captured
    def _forward(self) -> None:
        self._write_state(self._written)
        self._poses.refresh(self._written, self._state)
        self.solver.take_over(self._state, self._written)
        for entity in self._entities.values():
            entity.read_state(self._model, self._state, self._written, mask=self._written)
        for sensor in self._sensors.values():
            sensor.refresh(self._written)
        for actuators in self._actuators.values():
            actuators.refresh()
        wp.launch(mask_kernels.clear_flags, dim=self.num_envs, outputs=[self._written], device=self._device)

    @captured
    def _reset(self) -> None:
        self._poses.choose(self._reset_mask)
        self._forget(self._reset_mask)
        for sensor in self._sensors.values():
            sensor.clear(self._reset_mask)

    def _write_state(self, mask: wp.array) -> None:
        for entity in self._entities.values():
            entity.write_state(mask, self._state)

    def _forget(self, mask: wp.array) -> None:
        """Clears what outlives a reset of the state, after :meth:`BodyPoses.choose` of the same ``mask``."""
        self.solver.reset(self._state, self._poses.world_mask)
        for actuators in self._actuators.values():
            actuators.reset(mask, self._rng.state)
        for wrench in self._wrenches:
            wrench.clear(mask)

    def trace(self, owner: str, field: str, substeps: int) -> torch.Tensor:
        if self._traces.request(owner, field, substeps):
            self.capture_context.invalidate()  # whatever holds a step captures it anew
        return self._traces.rows[owner, field]

    def seed(self, seed: int) -> None:
        self._rng.seed(make_generator(seed, stream="physics").initial_seed())

    def notify(self, entity: str, *properties: str) -> None:
        self._notices.tell(entity, properties)

    def _rebuild(self) -> None:
        self.close()
        self._build()

    def _build(self) -> None:
        self._model = build_model(
            self._scene, self._entities, self._cfg.gravity, self.num_envs, self._device, self._ground, self._prepare
        )
        self.entities.update({name: entity.data for name, entity in self._entities.items()})
        # Before the solver, which may change the model.
        self._fingerprint = describe_model(self._model, self._entities, self._cfg, self._scene)
        with wp.ScopedDevice(self._device), told_of(files_of(self._entities.values())):
            self.solver = self._cfg.solver.build(self._model, self._cfg, self._scene)
            self.solver.check_physics(self._fingerprint)
            self._state, self._control = self._model.state(), self._model.control()
        self._check_files()
        self._poses = BodyPoses(self._model, self.num_envs)
        shown = ShownState(self._model, self._state, self._entities, self._poses, self.written)
        self._onlookers = Onlookers(
            self._model, shown, self._entities, self.env_origins, self.ghosts, self.marker_sources
        )
        for entity in self._entities.values():
            entity.bind(self._model, self._env_origins, self._state)
        jointed = {name: entity for name, entity in self._entities.items() if entity.layout.joint_names}
        self._actuators = {name: EntityActuators(entity, self._model) for name, entity in jointed.items()}
        everywhere = wp.ones(self.num_envs, dtype=wp.bool, device=self._device)
        for actuators in self._actuators.values():
            actuators.reset(everywhere, self._rng.state)
        self._wrenches = [ExternalWrench(entity, self._model) for entity in self._entities.values()]
        for wrench in self._wrenches:
            wrench.clear(everywhere)
        self._bind_sensors()
        self.non_finite.zero_()
        self._health.count.zero_()
        self.written.fill_(True)
        self._forward()
        warn_of_sunken_roots(self._model, self._state, self._entities)

    def _check_files(self) -> None:
        files = {name: entity.imported for name, entity in self._entities.items() if entity.imported is not None}
        meant = {name: getattr(self._entities[name].cfg, "self_collision", True) for name in files}
        self.solver.check_files(files, meant)
        reports = (report_file(name, one, self._entities[name].cfg) for name, one in files.items())
        self.resolved.update({name: self._entities[name].cfg for name in files})
        self.file_reports = tuple(report for report in reports if report is not None)

    def _prepare(self, builder: newton.ModelBuilder) -> None:
        self._cfg.solver.prepare(builder)
        if self._cfg.contact_gap is not None:
            builder.rigid_gap = self._cfg.contact_gap

    def _bind_sensors(self) -> None:
        context = SensorContext(self._entities, self._ground, self.dt, self._cfg.substeps)
        for name, cfg in self._scene.sensors.items():
            if name not in self._sensors:
                self._sensors[name] = make_sensor(cfg, name, context)
                self.sensors[name] = self._sensors[name].data
        sensors = self._sensors.values()
        wanted = [
            (f"scene.sensors[{name!r}]", sensor.contact_search, sensor.entity.layout.body)
            for name, sensor in self._sensors.items()
            if sensor.contact_search is not None
        ]
        self.solver.contact_set = share_contact_set(self._model, self.solver.contact_set, wanted)
        self.solver.observe(frozenset().union(*(sensor.observables for sensor in sensors)))
        for sensor in sensors:
            sensor.bind(self._model, self.solver, self._state)

    def state_dict(self) -> dict[str, Any]:
        return {name: tensor.cpu() for name, tensor in super().state_dict().items()}

    def actuator_memory(self) -> dict[str, torch.Tensor]:
        memories = {name: actuators.memory() for name, actuators in self._actuators.items()}
        return {f"{name}.{key}": tensor for name, memory in memories.items() for key, tensor in memory.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        before = {
            name: {field: getattr(data, field).clone() for field in data.notices()}
            for name, data in self.entities.items()
        }
        super().load_state_dict(state)
        for name, data in self.entities.items():
            # Only what changed: the engine derives its constants anew, with other rounding than when it was built.
            changed = [field for field, value in before[name].items() if not torch.equal(value, getattr(data, field))]
            if changed:
                self.notify(name, *changed)

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        """All that decides the future: the buffers, and what the engine holds beside them, in rows of worlds."""
        arrays = {name: getattr(self._state, name) for name in ("joint_q", "joint_qd", "body_q", "body_qd")}
        arrays |= self.solver.memory()
        engine = {
            name: (array if isinstance(array, torch.Tensor) else wp.to_torch(array)).view(self.num_envs, -1)
            for name, array in arrays.items()
        }
        return {
            "engine": engine,
            "actuators": self.actuator_memory(),
            "random_state": wp.to_torch(self._rng.state.view(wp.int32)),
            "written": self.written,
            "non_finite": self.non_finite,
            "non_finite_count": wp.to_torch(self._health.count),
            "entities": {name: data.tensors() for name, data in self.entities.items()},
            "sensors": self.sensors,
        }.items()

    def health(self) -> HealthReport:
        return self._health.report(self.solver)

    def render(self, camera: CameraCfg) -> np.ndarray:
        return self._onlookers.render(camera)

    def open_viewer(
        self,
        camera: CameraCfg,
        host: str = "127.0.0.1",
        port: int = 8080,
        commands: Mapping[str, SettableCommand] | None = None,
        on_reset: Callable[[], None] | None = None,
    ) -> BrowserViewer:
        # On terrain every environment stands at its own place already.
        spacing = self._scene.env_spacing if self.terrain is None else 0.0
        return self._onlookers.open_page(camera, spacing, host, port, commands or {}, on_reset)

    def close(self) -> None:
        self._onlookers.close()
        self.capture_context.invalidate()
