"""Wrenches in the joints of a robot that follow from its motion, the efforts and where it touches.

A learned model predicts velocities and no forces. These are forces that would explain its motion, not a measurement.
"""

from lab_newton.nerd.wrenches.contacts import ContactPoints, solve_contact_forces
from lab_newton.nerd.wrenches.reconstruction import JointWrenches, WrenchReconstruction
from lab_newton.nerd.wrenches.rigid_bodies import BodyMotion, RigidBodies
from lab_newton.nerd.wrenches.robot import RobotProperties

__all__ = [
    "BodyMotion",
    "ContactPoints",
    "JointWrenches",
    "RigidBodies",
    "RobotProperties",
    "WrenchReconstruction",
    "solve_contact_forces",
]
