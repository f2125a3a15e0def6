"""The order of the numbers that a policy reads and writes."""

from lab_core.rollouts import Terms, action_terms, observation_terms

__all__ = ["Terms", "action_terms", "observation_terms"]
