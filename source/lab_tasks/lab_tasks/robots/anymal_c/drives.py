"""The ANYdrive 3, ANYmal's motor with gear and controller: as a network fitted to it, or as a DC motor."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Literal

from lab_core.errors import ConfigError
from lab_core.scene import ActuatorCfg, DCMotorActuatorCfg, LSTMActuatorCfg

Drive = Literal["auto", "network", "dc_motor"]

NETWORK_VARIABLE = "LAB_ANYDRIVE_NETWORK"
DATA_VARIABLE = "LAB_EXTERNAL_DATA"
NETWORK_NAME = "actuators/anydrive_v3_lstm.pt"
_HOW_TO_GIVE_IT = (
    f"Give the file of the network in the environment variable {NETWORK_VARIABLE}, or as {NETWORK_NAME} in the folder "
    f"of {DATA_VARIABLE}."
)
_LIMITS: dict[str, Any] = {"effort_limit": 80.0, "saturation_effort": 120.0, "velocity_limit": 7.5}


def anydrive_cfg(joint_names: tuple[str, ...], drive: Drive = "auto") -> ActuatorCfg:
    """Returns the actuators of some joints: 80 N m continuous and 120 N m stall effort, 7.5 rad/s without load.

    Args:
        joint_names: Names or regular expressions.
        drive: ``"network"``: the LSTM of Hwangbo et al. (Science Robotics 2019, "Learning agile and dynamic motor
            skills for legged robots"), in whose form ANYbotics published the drive. ``"dc_motor"``: a PD law of
            40 N m/rad and 5 N m s/rad with the same limits. ``"auto"``: the network if its file is there, else the DC
            motor with a warning.

    Raises:
        ConfigError: the file of the network is needed, or named, but not there; or there is no such drive.
    """
    if drive not in ("auto", "network", "dc_motor"):
        raise ConfigError(f"anydrive_cfg has no drive {drive!r}. There are: auto, network, dc_motor.")
    file = None if drive == "dc_motor" else _network_file()
    if file is not None:
        return LSTMActuatorCfg(joint_names=joint_names, network_file=file, **_LIMITS)
    if drive == "network":
        raise ConfigError(f"There is no network of the ANYdrive. {_HOW_TO_GIVE_IT}")
    if drive == "auto":
        warnings.warn(
            f"ANYmal moves with DC motors: there is no network of the ANYdrive, whose gait differs. {_HOW_TO_GIVE_IT}",
            stacklevel=3,
        )
    return DCMotorActuatorCfg(joint_names=joint_names, stiffness=40.0, damping=5.0, **_LIMITS)


def _network_file() -> str | None:
    """Where the file is, by the name of the variable: a configuration means the same on every machine."""
    named = os.environ.get(NETWORK_VARIABLE)
    if named:
        if not Path(named).expanduser().is_file():
            raise ConfigError(f"{NETWORK_VARIABLE} names {named!r}: there is no such file.")
        return f"${NETWORK_VARIABLE}"
    folder = os.environ.get(DATA_VARIABLE)
    is_there = folder and (Path(folder).expanduser() / NETWORK_NAME).is_file()
    return f"${DATA_VARIABLE}/{NETWORK_NAME}" if is_there else None
