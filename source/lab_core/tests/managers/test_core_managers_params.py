"""Kinds and limits of what stands in the ``params`` of terms."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Literal

import pytest
import torch

from lab_core import mdp
from lab_core.config import Interval, NonNegativeInt, Positive, check_kinds
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import ConfigError
from lab_core.managers import EventTermCfg, ManagerTermBase, RewardTermCfg, SceneEntityCfg, TermError
from lab_core.testing import analytic_cartpole_env_cfg

if TYPE_CHECKING:
    from decimal import Decimal


def shaped(
    env: Any,
    std: Positive = 1.0,
    count: NonNegativeInt = 0,
    span: Interval = (0.0, 1.0),
    ways: Literal["near", "far"] = "near",
    table: dict[str, tuple[float, ...]] | None = None,
    robot: SceneEntityCfg = SceneEntityCfg("robot"),  # noqa: B008
    late: Decimal = 2.0,  # type: ignore[assignment]
    bare=3,
    optional: float = None,  # type: ignore[assignment]  # noqa: RUF013
    free: Any = None,
) -> torch.Tensor:
    return torch.zeros(env.num_envs)


class Shaped(ManagerTermBase):
    def __call__(self, env: Any, std: Positive = 1.0) -> torch.Tensor:
        return torch.zeros(env.num_envs)


WRONG = [
    ({"std": "wide"}, r"params.std: got 'wide' \(str\), expected finite float above 0"),
    ({"std": 0.0}, "params.std: got 0.0, expected finite float above 0"),
    ({"std": math.inf}, "params.std: got inf"),
    ({"std": None}, r"params.std: got None \(NoneType\), expected finite float"),
    ({"std": True}, r"params.std: got True \(bool\)"),
    ({"count": 1.5}, r"params.count: got 1.5 \(float\), expected int at least 0"),
    ({"count": -1}, "params.count: got -1, expected int at least 0"),
    ({"span": (1.0, 0.0)}, r"params.span: got \(1.0, 0.0\), expected tuple\[float, float\] \(low, high\) with low <="),
    ({"span": (math.nan, 0.0)}, "params.span: got .nan, 0.0."),
    ({"span": (1.0, 0.0, 2.0)}, r"params.span: got 3 values, \(1.0, 0.0, 2.0\), expected 2"),
    ({"span": 0.5}, r"params.span: got 0.5 \(float\), expected tuple"),
    ({"ways": "nearer"}, r"params.ways: got 'nearer' \(str\), expected Literal\['near', 'far'\]"),
    ({"table": {"a": ("x",)}}, r"params.table.a\[0\]: got 'x' \(str\), expected float"),
    ({"robot": "robot"}, r"params.robot: got 'robot' \(str\), expected SceneEntityCfg"),
    ({"robot": {"name": "robot"}}, "params.robot: got .*, expected SceneEntityCfg"),
    ({"robot": SceneEntityCfg(name=5)}, r"params.robot.name: got 5 \(int\), expected str"),  # type: ignore[arg-type]
    ({"late": "x"}, r"params.late: got 'x' \(str\), expected float"),
    ({"bare": "x"}, r"params.bare: got 'x' \(str\), expected float"),
    ({"free": math.nan}, "params.free: got nan, expected a number"),
]
RIGHT = {"std": 2, "span": [0, 1], "table": None, "bare": 0.5, "optional": None, "late": 1, "free": object, "count": 0}


def cfg_with(**terms: Any) -> Any:
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    cfg.rewards |= terms
    return cfg


@pytest.mark.parametrize(("params", "message"), WRONG)
def test_a_wrong_parameter_is_named_before_anything_is_built(params, message):
    with pytest.raises(ConfigError, match=f"^rewards.shaped.{message}"):
        ManagerBasedRLEnv(cfg_with(shaped=RewardTermCfg(func=shaped, weight=1.0, params=params)))


@pytest.mark.parametrize(("params", "message"), WRONG)
def test_a_wrong_parameter_is_named_where_a_term_is_changed(params, message):
    env = ManagerBasedRLEnv(cfg_with(shaped=RewardTermCfg(func=shaped, weight=1.0)))
    changed = copy.deepcopy(env.reward_manager.get_term_cfg("shaped"))
    before = copy.deepcopy(changed.params)
    changed.params |= params
    with pytest.raises(TermError, match=f"^reward term 'shaped': {message}"):
        env.reward_manager.set_term_cfg("shaped", changed)
    assert env.reward_manager.get_term_cfg("shaped").params == before


def test_what_fits_is_taken_as_it_is():
    env = ManagerBasedRLEnv(cfg_with(shaped=RewardTermCfg(func=shaped, weight=1.0, params=dict(RIGHT))))
    params = env.reward_manager.get_term_cfg("shaped").params
    assert {key: params[key] for key in RIGHT} == RIGHT
    assert type(params["std"]) is int


@pytest.mark.parametrize("func", [Shaped, lambda env, std=1.0: torch.zeros(env.num_envs)])
def test_classes_and_lambdas_are_checked_too(func):
    with pytest.raises(ConfigError, match=r"^rewards.x.params.std: got 'a' \(str\), expected .*float"):
        ManagerBasedRLEnv(cfg_with(x=RewardTermCfg(func=func, weight=1.0, params={"std": "a"})))


def test_actions_and_commands_are_checked_where_they_are_changed():
    env = ManagerBasedRLEnv(analytic_cartpole_env_cfg(num_envs=2))
    name = env.action_manager.term_names[0]
    changed = copy.deepcopy(env.action_manager.get_term_cfg(name))
    changed.scale = "much"
    with pytest.raises(TermError, match=rf"^action term '{name}': scale: got 'much' \(str\), expected (finite )?float"):
        env.action_manager.set_term_cfg(name, changed)


@pytest.mark.parametrize(
    ("func", "params", "message"),
    [
        (mdp.track_lin_vel_xy_exp, {"std": 0.0, "command_name": "c"}, "params.std: got 0.0, expected finite float"),
        (mdp.illegal_contact, {"threshold": -1.0}, "params.threshold: got -1.0"),
        (mdp.joint_pos_out_of_manual_limit, {"bounds": (1.0, -1.0)}, "params.bounds: got"),
        (mdp.modify_reward_weight, {"term_name": "x", "weight": 1.0, "num_steps": 0.5}, "params.num_steps: got 0.5"),
        (mdp.push_by_setting_velocity, {"velocity_range": {"x": (1.0, 0.0)}}, "params.velocity_range.x: got"),
    ],
)
def test_terms_state_their_limits(func, params, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        check_kinds(EventTermCfg(func=func, mode="reset", params=params))
