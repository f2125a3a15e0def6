"""The networks that a model may be made of, by name; model files name one of these and nothing else."""

from lab_newton.nerd.networks.contacts import Contacts
from lab_newton.nerd.networks.impulses import ContactImpulses
from lab_newton.nerd.networks.manipulator import Manipulator
from lab_newton.nerd.networks.mlp import MLP
from lab_newton.nerd.networks.network import Network
from lab_newton.nerd.networks.parallel import ParallelNeRD
from lab_newton.nerd.networks.vector import VectorNeRD

NETWORKS: dict[str, type[Network]] = {
    network.__name__: network for network in (MLP, Manipulator, ContactImpulses, VectorNeRD, ParallelNeRD)
}
"""Name -> class, whose arguments are plain values."""

__all__ = ["MLP", "NETWORKS", "ContactImpulses", "Contacts", "Manipulator", "Network", "ParallelNeRD", "VectorNeRD"]
