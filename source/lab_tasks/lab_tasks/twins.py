"""Warp twins of the tasks' terms. Importing this module registers them."""

from lab_tasks.ant import mdp_warp

__all__ = ["mdp_warp"]
