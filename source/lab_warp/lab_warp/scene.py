"""Default state of a scene's entities, written by kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from lab_core.errors import LabError, unknown_name_message
from lab_core.scene import ArticulationData, EntityData, RigidObjectData
from lab_warp import articulation_kernels as kernels
from lab_warp.env import WarpEnv
from lab_warp.views import fill_struct

Writer = Callable[[WarpEnv, wp.array, Any], None]
"""Takes the environment, a mask (N,) bool, and the data of an entity."""
_WRITERS: dict[type[EntityData], Writer] = {}


def writes_default_state(data_type: type[EntityData]) -> Callable[[Writer], Writer]:
    """Registers the twin of :meth:`lab_core.scene.EntityData.write_default_state` for a kind of entities.

    It also sets ``env.warp.written`` where it writes.
    """

    def register(writer: Writer) -> Writer:
        _WRITERS[data_type] = writer
        return writer

    return register


def write_default_state(env: WarpEnv, mask: wp.array) -> None:
    """Puts every entity into its default state at the environments' origins and clears its targets and efforts.

    Twin of :meth:`lab_core.physics.PhysicsBackend.write_default_state`: one launch per entity.

    Args:
        env: A Warp environment.
        mask: (N,) bool, the environments to write; other rows stay bitwise unchanged.

    Raises:
        LabError: an entity is of a kind without such a twin.
    """
    for entity in env.scene.values():
        writer = next((_WRITERS[base] for base in type(entity.data).__mro__ if base in _WRITERS), None)
        if writer is None:
            known = [data_type.__name__ for data_type in _WRITERS]
            raise LabError(unknown_name_message("default state for kernels", type(entity.data).__name__, known))
        writer(env, mask, entity.data)


@writes_default_state(ArticulationData)
@writes_default_state(RigidObjectData)
def _write_root_and_joints(env: WarpEnv, mask: wp.array, data: EntityData) -> None:
    wp.launch(
        kernels.write_default_state,
        dim=(env.num_envs, max(data.num_joints, 1)),
        inputs=[mask, env.warp.env_origins, not data.fixed_base, fill_struct(kernels.ArticulationArrays, data)],
        outputs=[env.warp.written],
        device=env.wp_device,
    )
