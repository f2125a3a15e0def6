"""A student that learns to act as a teacher does, by rsl-rl's distillation."""

from lab_rl.distillation.algorithm import DistillationAlgorithm
from lab_rl.distillation.runner import DistillationRunner

__all__ = ["DistillationAlgorithm", "DistillationRunner"]
