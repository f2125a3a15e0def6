"""Properties of an entity: read from the model when it is built, handed back to it when they change."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import newton
import numpy as np
import torch
import warp as wp
from newton import ModelFlags

from lab_core.errors import LabError, unknown_name_message
from lab_core.scene import EntityData, Notice
from lab_newton.arrays import present
from lab_newton.robot_files import UNLIMITED, EntityLayout
from lab_newton.state import property_kernels as kernels

FLAGS: dict[Notice, ModelFlags] = {
    Notice.BODY_INERTIA: ModelFlags.BODY_INERTIAL_PROPERTIES,
    Notice.BODY_SURFACE: ModelFlags.SHAPE_PROPERTIES,
    Notice.JOINT_INERTIA: ModelFlags.JOINT_DOF_INERTIAL_PROPERTIES,
    Notice.JOINT_FORCE: ModelFlags.JOINT_DOF_FORCE_PROPERTIES,
}
"""What an engine is told -> how Newton calls it."""
_FRICTION_CHECKS = 8
"""Changes of friction that are looked at: what is drawn anew with every reset is long known by then."""


class Properties:
    """Carries the properties of one entity between its buffers and a model.

    All collision shapes of a body have one friction coefficient, the buffer's: at first that of the body's first shape.
    """

    def __init__(self, name: str, data: EntityData, layout: EntityLayout, model: newton.Model) -> None:
        self._name = name
        self._data = data
        self._layout = layout
        self._model = model
        device = model.device
        self._bodies = wp.array(layout.body, dtype=wp.int32, device=device)
        self._dofs = wp.array(layout.joint_dof, dtype=wp.int32, device=device)
        shapes = _shapes_of_bodies(layout, model, data.body_mass.shape[0])
        self._first_shape = _first_of_each(shapes, len(layout.body))
        self._shapes = wp.array(shapes, dtype=wp.vec3i, device=device)
        self._checks = _FRICTION_CHECKS
        self._ground_friction, self._outvoted = _outvoted_bodies(model, shapes, self._first_shape)

    def read(self) -> None:
        """Fills the buffers."""
        data, model, layout = self._data, self._model, self._layout
        worlds = data.body_mass.shape[0]

        def rows(array: wp.array, columns: tuple[int, ...]) -> torch.Tensor:
            tensor = wp.to_torch(array)
            return tensor.reshape(worlds, -1, *tensor.shape[1:])[:, list(columns)]

        for name, array, columns in (
            ("joint_armature", model.joint_armature, layout.joint_dof),
            ("joint_friction", model.joint_friction, layout.joint_dof),
            ("body_mass", model.body_mass, layout.body),
            ("body_com_pos_b", model.body_com, layout.body),
            ("body_inertia_b", model.body_inertia, layout.body),
        ):
            if name in data.buffers():  # not every kind has joints
                getattr(data, name).copy_(rows(present(array), columns))
        if "joint_pos_limits" in data.buffers():
            limits = data.tensors()["joint_pos_limits"]
            lower = rows(present(model.joint_limit_lower), layout.joint_dof)
            upper = rows(present(model.joint_limit_upper), layout.joint_dof)
            limits[..., 0] = torch.where(lower <= -UNLIMITED, -torch.inf, lower)
            limits[..., 1] = torch.where(upper >= UNLIMITED, torch.inf, upper)
        friction = wp.to_torch(present(model.shape_material_mu))
        for column, shape in self._first_shape.items():
            data.body_friction[:, column] = friction[shape]

    def flags(self, properties: Iterable[str]) -> int:
        """Returns what a change of ``properties`` means to Newton, a union of its ``ModelFlags``.

        Raises:
            LabError: a property cannot be changed in a running simulation.
        """
        flags = 0
        notices = self._data.notices()
        for name in properties:
            if name not in notices:
                raise LabError(f"notify({self._name!r}): {unknown_name_message('property', name, notices)}")
            flags |= FLAGS[notices[name]]
        if flags & ModelFlags.SHAPE_PROPERTIES and self._checks and not self._model.device.is_capturing:
            self._checks -= 1
            self._warn_of_friction_without_effect()
        return flags

    def _warn_of_friction_without_effect(self) -> None:
        """Reads the device: called for the first changes only, which belong to the start."""
        columns = list(self._outvoted)
        given = self._data.body_friction[:, columns].cpu().numpy()  # pyright: ignore[reportAttributeAccessIssue]
        built = present(self._model.shape_material_mu).numpy()[[self._first_shape[column] for column in columns]]
        lost = ((given != built) & (given < self._ground_friction)).any(axis=0)
        if lost.any():
            bodies = [self._layout.body_names[column] for column, is_lost in zip(columns, lost, strict=True) if is_lost]
            self._checks = 0
            warnings.warn(
                f"Friction of {self._name!r} acts on the ground only where it is above that of the ground, "
                f"{self._ground_friction:g}: of two shapes the larger friction counts. It changed for "
                f'{", ".join(bodies)}. Give their geoms in the model file priority="1", or a rigid object '
                "friction_priority=1, so that theirs decides.",
                stacklevel=3,
            )

    def write(self, flags: int) -> None:
        """Hands the buffers that ``flags`` are about to the model."""
        data, model = self._data.warp, self._model
        worlds = data.body_mass.shape[0]
        if flags & ModelFlags.BODY_INERTIAL_PROPERTIES:
            wp.launch(
                kernels.write_inertia,
                dim=data.body_mass.shape,
                inputs=[self._bodies, model.body_count // worlds]
                + [data.body_mass, data.body_inertia_b, data.body_com_pos_b],
                outputs=[model.body_mass, model.body_inv_mass, model.body_inertia]
                + [model.body_inv_inertia, model.body_com],
                device=model.device,
            )
        if flags & ModelFlags.SHAPE_PROPERTIES:
            wp.launch(
                kernels.write_friction,
                dim=self._shapes.shape,
                inputs=[self._shapes, data.body_friction],
                outputs=[model.shape_material_mu],
                device=model.device,
            )
        for flag, name in (
            (ModelFlags.JOINT_DOF_INERTIAL_PROPERTIES, "joint_armature"),
            (ModelFlags.JOINT_DOF_FORCE_PROPERTIES, "joint_friction"),
        ):
            if flags & flag:
                buffer = getattr(data, name)
                wp.launch(
                    kernels.write_joints,
                    dim=buffer.shape,
                    inputs=[self._dofs, model.joint_dof_count // worlds, buffer],
                    outputs=[getattr(model, name)],
                    device=model.device,
                )


def _shapes_of_bodies(layout: EntityLayout, model: newton.Model, worlds: int) -> np.ndarray:
    """Returns (shapes, 3): collision shape, world, column of its body in the entity's buffers."""
    body = present(model.shape_body).numpy()
    world, place = np.divmod(body, model.body_count // worlds)
    column = np.full(model.body_count // worlds, -1)
    column[list(layout.body)] = np.arange(len(layout.body))
    collides = (present(model.shape_flags).numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    shapes = np.nonzero((body >= 0) & collides & (column[place] >= 0))[0]
    return np.stack([shapes, world[shapes], column[place[shapes]]], axis=1).astype(np.int32)


def _first_of_each(shapes: np.ndarray, bodies: int) -> dict[int, int]:
    """Returns body column -> its first shape, in the first world."""
    first = shapes[shapes[:, 1] == 0]
    return {c: int(first[first[:, 2] == c][0, 0]) for c in range(bodies) if (first[:, 2] == c).any()}


def _outvoted_bodies(
    model: newton.Model, shapes: np.ndarray, first_shape: Mapping[int, int]
) -> tuple[float, tuple[int, ...]]:
    """Returns the friction of the ground, and the columns of the bodies of which it decides as well."""
    ground = np.nonzero(present(model.shape_body).numpy() < 0)[0]
    if not ground.size or not len(shapes):
        return 0.0, ()
    priority = model.mujoco.geom_priority.numpy()  # pyright: ignore[reportAttributeAccessIssue]
    undecided = shapes[priority[shapes[:, 0]] <= priority[ground].max()]
    columns = tuple(column for column in first_shape if column in undecided[:, 2])
    return float(present(model.shape_material_mu).numpy()[ground].max()), columns
