"""From joint targets to joint efforts, inside the physics stage."""

from __future__ import annotations

from collections.abc import Sequence

from lab_core.scene import IdealPDActuatorCfg, LSTMActuatorCfg
from lab_newton.actuators.drive import Drive, make_drive
from lab_newton.actuators.entity_actuators import EntityActuators
from lab_newton.actuators.network import DriveNetwork
from lab_newton.state import NewtonEntity

__all__ = ["Drive", "EntityActuators", "make_drive"]


@make_drive.register
def _pd_law_alone(cfg: IdealPDActuatorCfg, joints: Sequence[int], entity: NewtonEntity) -> None:
    return None


make_drive.register(LSTMActuatorCfg, DriveNetwork)
