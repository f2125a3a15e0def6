"""The cart-pole: a 1 kg cart on a rail and a 1 kg pole whose centre of mass is 0.47 m above its hinge."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg


def cartpole_cfg() -> ArticulationCfg:
    """Returns a cart-pole with a force-driven, damped cart and a passive pole."""
    return ArticulationCfg(
        asset="lab_tasks:robots/cartpole/cartpole.xml",
        init_state=InitialStateCfg(pos=(0.0, 0.0, 2.0)),
        actuators={
            "cart": IdealPDActuatorCfg(joint_names=("slider_to_cart",), damping=10.0, effort_limit=400.0),
            "pole": IdealPDActuatorCfg(joint_names=("cart_to_pole",), effort_limit=400.0),
        },
        self_collision=False,
    )
