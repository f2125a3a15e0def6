"""Robots: model files, actuators and default states."""

from lab_tasks.robots.ant import ant_cfg
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.cartpole import cartpole_cfg
from lab_tasks.robots.g1 import g1_action_scale, g1_cfg
from lab_tasks.robots.go2 import go2_cfg

__all__ = ["ant_cfg", "anymal_c_cfg", "cartpole_cfg", "g1_action_scale", "g1_cfg", "go2_cfg"]
