"""Warp twins of the terms of :mod:`lab_core.mdp`. Importing this package registers them."""

from lab_warp.mdp import observations

__all__ = ["observations"]
