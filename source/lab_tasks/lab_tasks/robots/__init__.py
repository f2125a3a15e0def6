"""Robots: model files, actuators and default states."""

from lab_tasks.robots.cartpole import cartpole_cfg

__all__ = ["cartpole_cfg"]
