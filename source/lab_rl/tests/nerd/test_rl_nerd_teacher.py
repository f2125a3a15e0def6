"""What a teacher says of its robot."""

from __future__ import annotations

from typing import Any

from lab_core.errors import ConfigError
from lab_rl.nerd.teacher import _masses


def test_why_a_robot_has_no_masses_is_kept():
    class Physics:
        def robot_properties(self, entity: str):
            raise ConfigError(f"Joints of entity {entity!r} have dry friction: hip.")

    physics: Any = Physics()
    assert _masses(physics, "robot") == (None, "Joints of entity 'robot' have dry friction: hip.")
