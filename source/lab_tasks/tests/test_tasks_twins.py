"""Twins of the tasks' own terms, recorded and replayed against their torch terms."""

from __future__ import annotations

import inspect

import pytest

import lab_tasks.twins  # noqa: F401  (registers the twins)
from lab_core.managers import SceneEntityCfg
from lab_tasks.ant import mdp
from lab_warp.testing import TwinCase, check_signature, check_value_twin, twins_in
from lab_warp.twins import all_twins

CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)
MODULES = (mdp,)
TARGET = {"target_pos": (2.0, -1.0, 0.0)}
FAR = {"target_pos": (1000.0, 0.0, 0.0)}
WHEELS_FIRST = SceneEntityCfg("robot", joint_names=("wheel", "hip", "toe", "knee", "ankle"), preserve_order=True)


def case(ulps: int = 0, atol: float = 0.0, **params) -> TwinCase:
    return TwinCase(params=params, ulps=ulps, atol=atol)


CASES: dict[str, list[TwinCase]] = {
    "base_yaw_roll": [case(2, 1e-6)],
    "base_angle_to_target": [case(2, 1e-6, **TARGET)],
    "base_up_proj": [case()],
    "base_heading_proj": [case(2, 2e-7, **TARGET)],
    "progress_reward": [case(4, 1e-5, **TARGET), case(4, 1e-5, **FAR)],
    "upright_posture_bonus": [case(threshold=0.2)],
    "move_to_target_bonus": [case(2, 2e-7, threshold=0.8, **TARGET)],
    "power_consumption": [case(2), case(2, asset_cfg=WHEELS_FIRST)],
    "joint_pos_limits_penalty_ratio": [case(4, threshold=0.9), case(4, threshold=0.5, asset_cfg=WHEELS_FIRST)],
}
TWINS = {name: original for module in MODULES for name, original in twins_in(module).items()}


def test_every_term_has_a_twin_and_every_twin_a_case():
    terms = {
        name for name, term in vars(mdp).items() if callable(term) and getattr(term, "__module__", "") == mdp.__name__
    }
    helpers = {"vector_to_target", "approach"}
    assert set(TWINS) == terms - helpers
    assert set(CASES) == set(TWINS)


def test_every_twin_of_a_term_is_in_a_module_that_is_checked_here():
    modules = {
        original.__module__
        for original in all_twins()
        if original.__module__.startswith("lab_tasks.")
        and (inspect.isfunction(original) or "mdp" in original.__module__)
    }
    names = ("events", "observations", "rewards", "terminations")
    tracking = {f"lab_tasks.tracking.{name}" for name in names}  # test_tasks_tracking_warp.py
    assert modules - tracking == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("name", TWINS)
def test_twin_takes_the_parameters_of_its_term(name):
    check_signature(TWINS[name])


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, c, id=f"{name}-{i}") for name, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_twin_replays_what_its_term_returns(name, case, device):
    check_value_twin(TWINS[name], case, device)
