"""MuJoCo's package, whose compiled modules tell type checkers nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import mujoco as _mujoco

mujoco: Any = _mujoco

MjModel: TypeAlias = Any
"""``mujoco.MjModel``"""
MjData: TypeAlias = Any
"""``mujoco.MjData``"""
MjSpec: TypeAlias = Any
"""``mujoco.MjSpec``"""
