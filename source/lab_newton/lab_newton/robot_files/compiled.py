"""What MuJoCo's own compiler makes of a model file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from lab_core.errors import ConfigError
from lab_newton.engine_words import told_of
from lab_newton.robot_files.engine import MjModel, MjSpec, mujoco
from lab_newton.robot_files.trees import keep_tree
from lab_newton.robot_files.urdf import read_urdf


@dataclass(frozen=True)
class CompiledFile:
    """A model file as MuJoCo compiled it."""

    path: Path
    spec: MjSpec
    model: MjModel
    notes: tuple[str, ...] = field(default=())
    """What was read otherwise than MuJoCo alone would, as sentences."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what was compiled, with all that it includes."""
        size = mujoco.mj_sizeModel(self.model)
        buffer = np.empty(size, dtype=np.uint8)
        mujoco.mj_saveModel(self.model, None, buffer)
        return hashlib.sha256(buffer.tobytes()).hexdigest()

    def axis_of_joint(self, joint: int) -> np.ndarray:
        """Returns the axis (3,) of a joint as the file writes it, of any length."""
        written = self.spec.joints[joint]
        if written.id != joint or written.frame is not None:
            return self.model.jnt_axis[joint]
        return np.asarray(written.axis)

    def ends_of_geom(self, geom: int) -> np.ndarray | None:
        """Returns the two ends (6,) of a geom that the file describes by them, in the frame of its body."""
        written = self.spec.geoms[geom]
        kinds = (mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER)
        ends = np.asarray(written.fromto)
        if written.id != geom or written.frame is not None or written.type not in kinds or np.isnan(ends).any():
            return None
        return ends


def compile_file(
    entity: str, path: Path, package_folders: tuple[str, ...] = (), root: str | None = None
) -> CompiledFile:
    """Returns what MuJoCo makes of the MJCF or URDF file at ``path``.

    Args:
        entity: Name of the entity in the scene, for messages.
        path: The file.
        package_folders: Where to look for packages that a URDF file names in ``package://``.
        root: The one of several trees that is wanted; see :attr:`lab_core.scene.ArticulationCfg.root`.

    Raises:
        ConfigError: MuJoCo refuses the file, and the message holds its own words; or there is no such root.
    """
    try:
        with told_of(f"Entity {entity!r}: {str(path)!r}"):
            if path.suffix.lower() == ".urdf":
                spec, notes = read_urdf(entity, path, package_folders)
            else:
                spec, notes = mujoco.MjSpec.from_file(str(path)), []
            model = spec.compile()
            if root is not None:
                model = keep_tree(entity, path, spec, model, root)
    except ConfigError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"Entity {entity!r}: cannot read {str(path)!r}: {words}") from error
    return CompiledFile(path, spec, model, tuple(notes))
