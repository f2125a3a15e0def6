"""Robots: model files, actuators and default states."""

from lab_tasks.robots.cartpole import cartpole_cfg
from lab_tasks.robots.g1 import g1_action_scale, g1_cfg

__all__ = ["cartpole_cfg", "g1_action_scale", "g1_cfg"]
