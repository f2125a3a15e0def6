"""Small worlds that the tests of this package share."""

from __future__ import annotations

from pathlib import Path

import torch

from lab_core.scene import ArticulationCfg, GroundCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

ASSETS = Path(__file__).parent / "newton_assets"


def rover_cfg(**overrides) -> ArticulationCfg:
    """A floating base with three hinges and centres of mass off the frames' origins."""
    values = {
        "asset": str(ASSETS / "rover.xml"),
        "init_state": InitialStateCfg(pos=(0.0, 0.0, 0.5), joint_pos={"shoulder": 0.3, "wrist": -0.2, "tail": 0.1}),
        "actuators": {
            "arm": IdealPDActuatorCfg(
                joint_names=("shoulder", "wrist"),
                stiffness=20.0,
                damping=1.0,
                effort_limit={"shoulder": 5.0, "wrist": 2.0},
            )
        },
    }
    return ArticulationCfg(**(values | overrides))


def cart_pole_cfg() -> ArticulationCfg:
    """A fixed base, a slide with damping in its actuator, and a free hinge."""
    return ArticulationCfg(
        asset=str(ASSETS / "cart_pole.xml"),
        init_state=InitialStateCfg(pos=(0.0, 0.0, 2.0)),
        actuators={"cart": IdealPDActuatorCfg(joint_names=("slider_to_cart",), damping=10.0, effort_limit=400.0)},
    )


def rover(num_envs: int = 3, entity: ArticulationCfg | None = None, **physics) -> NewtonBackend:
    """A backend with rovers on the ground."""
    solver = physics.pop("solver", None) or MuJoCoSolverCfg(njmax=96, nconmax=32)
    cfg = NewtonCfg(dt=0.005, solver=solver, **physics)
    scene = SceneCfg(entities={"robot": entity or rover_cfg()})
    return NewtonBackend(cfg, scene, num_envs, torch.device("cpu"))


def cart_pole(num_envs: int = 2, **physics) -> NewtonBackend:
    """A backend with cart-poles that touch nothing."""
    cfg = NewtonCfg(dt=1.0 / 120.0, solver=MuJoCoSolverCfg(contacts=False), **physics)
    scene = SceneCfg(ground=GroundCfg(collision=False), entities={"robot": cart_pole_cfg()})
    return NewtonBackend(cfg, scene, num_envs, torch.device("cpu"))
