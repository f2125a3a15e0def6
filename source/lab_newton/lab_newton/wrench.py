"""External forces and torques on the bodies of an entity."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false, reportAssignmentType=false

from __future__ import annotations

import newton
import warp as wp

from lab_newton.entity import Entity

wp.set_module_options({"enable_backward": False})


class ExternalWrench:
    """Hands ``body_wrench_w`` to Newton, whose convention it shares: world frame, about the centre of mass."""

    def __init__(self, entity: Entity, model: newton.Model) -> None:
        self._wrench = entity.data.warp.body_wrench_w
        self._places = wp.array(entity.layout.body, dtype=wp.int32, device=entity.device)
        self._bodies_per_world = model.body_count // entity.num_envs

    def write(self, state: newton.State) -> None:
        """Sets the forces of the coming physics steps."""
        wp.launch(
            _write_wrench,
            dim=self._wrench.shape,
            inputs=[self._places, self._bodies_per_world, self._wrench],
            outputs=[state.body_f],
            device=self._wrench.device,
        )

    def clear(self, mask: wp.array) -> None:
        """Ends the forces on the worlds of ``mask`` (N,) bool."""
        wp.launch(
            _clear_wrench, dim=self._wrench.shape, inputs=[mask], outputs=[self._wrench], device=self._wrench.device
        )


@wp.kernel
def _write_wrench(
    places: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    wrench: wp.array2d[wp.spatial_vector],
    body_f: wp.array[wp.spatial_vector],
):
    """Launch over (N, B)."""
    world, i = wp.tid()
    body_f[world * bodies_per_world + places[i]] = wrench[world, i]


@wp.kernel
def _clear_wrench(mask: wp.array[wp.bool], wrench: wp.array2d[wp.spatial_vector]):
    """Launch over (N, B)."""
    world, i = wp.tid()
    if mask[world]:
        wrench[world, i] = wp.spatial_vector()
