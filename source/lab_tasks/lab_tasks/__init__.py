"""Robots and tasks.

Importing this package makes the ids known to gymnasium: ``gymnasium.make_vec("Lab-Cartpole", num_envs=64)``.
"""

from lab_core.gym_registration import register_gymnasium_ids

__version__ = "0.1.0"

register_gymnasium_ids()
