"""NeRD: networks that learned how a robot moves, as a solver.

A network predicts how velocities change over a physics step; poses follow from the velocities by the rule of the solver
that it learned from. Independent implementations in plain torch; the idea is of Xu et al. 2025, Neural Robot Dynamics
(arXiv 2508.15755).
"""

from lab_newton.nerd.history import History
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.mdlus import load_mdlus, save_mdlus
from lab_newton.nerd.model import NeRDModel
from lab_newton.nerd.model_file import ModelDescription, load_model, save_model
from lab_newton.nerd.networks import NETWORKS, Contacts, Network
from lab_newton.nerd.newton_solver import SolverNeRD
from lab_newton.nerd.normaliser import Normaliser
from lab_newton.nerd.refusals import check_fingerprint, check_robot
from lab_newton.nerd.representation import Representation
from lab_newton.nerd.solver import NeRDSolver
from lab_newton.nerd.wrenches import ContactPoints, JointWrenches, RobotProperties, WrenchReconstruction

__all__ = [
    "NETWORKS",
    "ContactPoints",
    "Contacts",
    "History",
    "JointWrenches",
    "ModelDescription",
    "NeRDModel",
    "NeRDSolver",
    "Network",
    "Normaliser",
    "Representation",
    "RobotLayout",
    "RobotProperties",
    "SolverNeRD",
    "WrenchReconstruction",
    "check_fingerprint",
    "check_robot",
    "load_mdlus",
    "load_model",
    "save_mdlus",
    "save_model",
]
