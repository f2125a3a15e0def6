"""The ANYmal C as something whose dynamics are learned, and its tasks in the models that were learned."""

from __future__ import annotations

import math

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import EventTermCfg, SceneEntityCfg
from lab_core.sensors import ContactSetCfg, GapSensorCfg
from lab_newton import FitCfg, NeRDSolverCfg
from lab_tasks.velocity.anymal_c import anymal_c_flat_env_cfg, anymal_c_rough_env_cfg

FLAT_MODEL = "lab_tasks:velocity/anymal_c_flat.nerd"
ROUGH_MODEL = "lab_tasks:velocity/anymal_c_rough.nerd"
CONTACTS = "contacts"
"""Sensor of the contact set that is recorded."""
GAPS = "gaps"
"""Sensor that rewards and terminations read instead of contact forces."""
FLAT_CAPACITY, ROUGH_CAPACITY = 64, 96
"""Contacts per environment: a robot that lies on edges of stairs has many."""
_REACH = 0.8
"""How far parts of the robot are from its root in x and in y while joints are near their defaults, at most [m]."""


def anymal_c_flat_explore_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the robot of ``Lab-Velocity-Flat-AnymalC`` in wide initial states; see :func:`_explore`.

    Args:
        play: Begin near the default pose and slowly, for rollouts without an action.
    """
    return _explore(anymal_c_flat_env_cfg(play), play)


def anymal_c_rough_explore_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the robot of ``Lab-Velocity-Rough-AnymalC`` in wide initial states at all levels; see :func:`_explore`.

    Args:
        play: Begin near the default pose and slowly, for rollouts without an action.
    """
    return _explore(anymal_c_rough_env_cfg(play), play)


def anymal_c_flat_learned_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns ``Lab-Velocity-Flat-AnymalC`` with a model that was learned in ``-Explore`` in place of the solver."""
    return _learned(anymal_c_flat_touch_env_cfg(play), FLAT_MODEL)


def anymal_c_rough_learned_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns ``Lab-Velocity-Rough-AnymalC`` with a model that was learned in ``-Explore`` in place of the solver."""
    return _learned(anymal_c_rough_touch_env_cfg(play), ROUGH_MODEL)


def anymal_c_flat_touch_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns ``Lab-Velocity-Flat-AnymalC-Learned`` with its teacher, the solver, for comparison."""
    return _read_gaps(anymal_c_flat_env_cfg(play))


def anymal_c_rough_touch_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns ``Lab-Velocity-Rough-AnymalC-Learned`` with its teacher, the solver, for comparison."""
    return _read_gaps(anymal_c_rough_env_cfg(play))


def anymal_c_fit_cfg() -> FitCfg:
    """Returns the recipe of a model of the ANYmal C on flat or rough ground."""
    return FitCfg(network="ContactImpulses", loss="huber", updates=20_000, ema_decay=0.99)


def _explore(cfg: ManagerBasedRLEnvCfg, play: bool) -> ManagerBasedRLEnvCfg:
    """Returns the task as something to record: the same robot, physics, actions and observations, so that policies
    of the task walk in it; nothing is rewarded, nobody falls out of it, and nothing is randomised or pushed.

    Without a policy, actions move the targets of all joints by up to 0.5 rad, anew in every step.
    """
    _keep_physics(cfg)
    cfg.events.pop("push_robot")
    cfg.events |= _narrow_starts() if play else _wide_starts()
    cfg.scene.sensors.pop("contact_forces")
    cfg.scene.sensors[CONTACTS] = ContactSetCfg(capacity=_capacity(cfg))
    if cfg.scene.terrain is not None:
        cfg.scene.terrain.max_init_level = None
    cfg.curriculum = {}
    # What cuts off time stays, also the edge of the ground: below it nothing is learned.
    cfg.terminations = {name: term for name, term in cfg.terminations.items() if term is not None and term.time_out}
    cfg.rewards = {}
    cfg.metrics = {}
    cfg.episode_length_s = 20.0 if play else 2.0
    return cfg


def _wide_starts() -> dict[str, EventTermCfg | None]:
    """Tilted in the air, with joints around their defaults, moving; the lowest root is as high as its legs reach."""
    spin = dict.fromkeys(("roll", "pitch", "yaw"), (-2.0, 2.0))
    return {
        "reset_base": _above_ground(
            height=(0.85, 1.15), tilt=0.5, velocity={**dict.fromkeys(("x", "y", "z"), (-1.0, 1.0)), **spin}
        ),
        "reset_hips": _offset(".*_HAA", position=0.35, velocity=4.0),
        "reset_robot_joints": _offset(".*_(HFE|KFE)", position=0.6, velocity=6.0),
    }


def _narrow_starts() -> dict[str, EventTermCfg | None]:
    return {
        "reset_base": _above_ground(height=(0.65, 0.7), tilt=0.1, velocity={}),
        "reset_robot_joints": _offset(".*", position=0.1, velocity=0.5),
    }


def _above_ground(height: tuple[float, float], tilt: float, velocity: dict[str, tuple[float, float]]) -> EventTermCfg:
    return EventTermCfg(
        func=mdp.reset_root_above_ground,
        mode="reset",
        params={
            "pose_range": {
                **dict.fromkeys(("x", "y"), (-1.0, 1.0)),
                "z": height,
                **dict.fromkeys(("roll", "pitch"), (-tilt, tilt)),
                "yaw": (-math.pi, math.pi),
            },
            "velocity_range": velocity,
            "reach": _REACH,
        },
    )


def _offset(joints: str, position: float, velocity: float) -> EventTermCfg:
    return EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={
            "position_range": (-position, position),
            "velocity_range": (-velocity, velocity),
            "asset_cfg": SceneEntityCfg(joint_names=joints),
        },
    )


def _learned(cfg: ManagerBasedRLEnvCfg, model: str) -> ManagerBasedRLEnvCfg:
    cfg.physics.solver = NeRDSolverCfg(model=model, teacher=cfg.physics.solver)  # pyright: ignore[reportAttributeAccessIssue]
    return cfg


def _read_gaps(cfg: ManagerBasedRLEnvCfg) -> ManagerBasedRLEnvCfg:
    """Lets rewards and terminations read touches instead of forces, which a model does not predict."""
    _keep_physics(cfg)
    cfg.scene.sensors.pop("contact_forces")
    # Forces begin where surfaces meet: of thresholds between 0 and 1 mm, 0 sees nearly the same touches as forces.
    cfg.scene.sensors[GAPS] = GapSensorCfg(history_length=cfg.decimation, touch_threshold=0.0, capacity=_capacity(cfg))
    for term, func in (
        (cfg.rewards["feet_air_time"], mdp.feet_air_time),
        (cfg.rewards["undesired_contacts"], mdp.undesired_touches),
        (cfg.terminations["base_contact"], mdp.illegal_touch),
    ):
        assert term is not None, func
        term.func = func
        term.params["sensor_cfg"] = mdp.SceneSensorCfg(GAPS, body_names=term.params["sensor_cfg"].body_names)
    for touch in (cfg.rewards["undesired_contacts"], cfg.terminations["base_contact"]):
        assert touch is not None
        del touch.params["threshold"]
    return cfg


def _capacity(cfg: ManagerBasedRLEnvCfg) -> int:
    return FLAT_CAPACITY if cfg.scene.terrain is None else ROUGH_CAPACITY


def _keep_physics(cfg: ManagerBasedRLEnvCfg) -> None:
    """Leaves out what changes the robot or the ground: a model knows one of each."""
    for name in ("physics_material", "add_base_mass", "base_com"):
        del cfg.events[name]
