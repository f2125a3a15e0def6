"""What an entity knows of the file that it was made from."""

from __future__ import annotations

from dataclasses import dataclass

from lab_newton.robot_files.compiled import CompiledFile
from lab_newton.robot_files.layout import EntityLayout
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.root import Root


@dataclass(frozen=True)
class ImportedFile:
    """A file that was added to a builder."""

    layout: EntityLayout
    """Where its joints and bodies are."""
    file: CompiledFile | None = None
    """What MuJoCo made of it; None for USD, which MuJoCo does not read."""
    root: Root | None = None
    names: Names | None = None
    shapes: range = range(0)
    """Its shapes in the first world."""
    first_equality: int = 0
    first_tendon: int = 0

    @property
    def root_pose(self) -> tuple[float, ...]:
        """Position [m] and orientation (xyzw) of the root at the start."""
        if self.root is None:
            return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        w, x, y, z = self.root.orientation.tolist()
        return (*self.root.position.tolist(), x, y, z, w)
