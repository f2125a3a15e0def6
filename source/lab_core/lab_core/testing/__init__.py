"""Checks that users and every package run on their own managers, terms and buffers."""

from lab_core.testing.reset_harness import check_masked_reset

__all__ = ["check_masked_reset"]
