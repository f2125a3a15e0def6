"""The network ``ContactImpulses`` as Warp kernels, which look at the contacts that there are and at no empty places."""

from lab_newton.nerd.impulses.step import ImpulseStep

__all__ = ["ImpulseStep"]
