"""What a term raises while it runs is told with the manager, the term and the parameter."""

from __future__ import annotations

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import ManagerTermBase, ObservationTermCfg, RewardTermCfg, TermCfg
from lab_core.names import UnknownNameError
from lab_core.testing import analytic_cartpole_env_cfg


def of_nobody(env) -> torch.Tensor:
    return env.scene["nobody"].data.joint_pos[:, 0]


def broken(env, which: int = 99) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, which]


class OfNobody(ManagerTermBase):
    def __init__(self, cfg, env) -> None:
        super().__init__(cfg, env)
        raise UnknownNameError("unknown entity 'nobody'.")


def step_with(term: TermCfg) -> None:
    cfg = analytic_cartpole_env_cfg(num_envs=2)
    if isinstance(term, ObservationTermCfg):
        cfg.observations["policy"].terms["mine"] = term
    elif isinstance(term, RewardTermCfg):
        cfg.rewards["mine"] = term
    env = ManagerBasedRLEnv(cfg, "cpu")
    env.reset()
    env.step(torch.zeros(2, 1))


NO_COMMAND = r"params\.command_name: unknown command term 'speed'. Available: none"


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (
            RewardTermCfg(func=mdp.track_lin_vel_xy_exp, weight=1.0, params={"std": 1.0, "command_name": "speed"}),
            f"^reward term 'mine': {NO_COMMAND}",
        ),
        (
            ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "speed"}),
            f"^observation term 'policy/mine': {NO_COMMAND}",
        ),
        (RewardTermCfg(func=of_nobody, weight=1.0), "^reward term 'mine': unknown entity 'nobody'. Available: robot"),
        (RewardTermCfg(func=OfNobody, weight=1.0), "^reward term 'mine': unknown entity 'nobody'"),
    ],
)
def test_what_users_can_act_upon_names_the_term_and_the_parameter(term: TermCfg, message: str) -> None:
    with pytest.raises(LabError, match=message):
        step_with(term)


def test_an_error_in_a_terms_code_stays_and_tells_whose_it_is() -> None:
    with pytest.raises(IndexError) as told:
        step_with(RewardTermCfg(func=broken, weight=1.0))
    assert told.value.__notes__ == ["raised by reward term 'mine', params: {'which': 99}"]
