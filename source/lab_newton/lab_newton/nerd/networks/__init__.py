"""The networks that a model may be made of, by name; model files name one of these and nothing else."""

from lab_newton.nerd.networks.mlp import MLP
from lab_newton.nerd.networks.network import Contacts, Network

NETWORKS: dict[str, type[Network]] = {network.__name__: network for network in (MLP,)}
"""Name -> class, whose arguments are plain values."""

__all__ = ["MLP", "NETWORKS", "Contacts", "Network"]
