"""Where an entity lies in Newton's arrays."""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = 1.0e9
"""Newton writes missing joint limits as +-1e10."""


@dataclass(frozen=True)
class EntityLayout:
    """Names of an entity's joints and bodies, and their places inside one world's slice of Newton's arrays."""

    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    joint_coord: tuple[int, ...]
    joint_dof: tuple[int, ...]
    body: tuple[int, ...]
    root_coord: int
    root_dof: int
    floating: bool
    carriers: tuple[int, ...] = ()
    """Places of bodies of next to no mass between the joints of one body, where Newton cannot make them one joint."""
