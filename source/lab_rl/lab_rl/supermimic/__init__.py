"""Motion tracking by back-propagation through a learned model of the robot's dynamics."""

from lab_rl.supermimic.algorithm import SuperMimicAlgorithm
from lab_rl.supermimic.policy import SuperMimicPolicy
from lab_rl.supermimic.runner import SuperMimicRunner

__all__ = ["SuperMimicAlgorithm", "SuperMimicPolicy", "SuperMimicRunner"]
