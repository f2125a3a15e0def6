"""What every manager checks and offers: signatures, names, copies, run-time changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import (
    CommandManager,
    CurriculumManager,
    CurriculumTermCfg,
    EventManager,
    EventTermCfg,
    ManagerTermBase,
    MetricsManager,
    RewardManager,
    RewardTermCfg,
    SceneEntityCfg,
    TermCfg,
    TermError,
    UnknownTermError,
)
from lab_core.managers.action_manager import ActionManager
from lab_core.recorder import RecorderHooks
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def constant(env: Any, value: float, bias: float = 0.0) -> torch.Tensor:
    return torch.full((env.num_envs,), value + bias)


class Counter(ManagerTermBase):
    """Counts its calls per environment."""

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.count = torch.zeros(env.num_envs)

    def __call__(self, env: Any, step: float = 1.0) -> torch.Tensor:
        self.count += step
        return self.count

    def reset(self, mask: torch.Tensor) -> None:
        self.count.masked_fill_(mask, 0.0)


# Signatures -------------------------------------------------------------------------------------------------------


def test_missing_parameter_lists_what_the_function_takes(env):
    with pytest.raises(TermError, match=r"reward term 'a': params lack \['value'\].*mandatory \['value'\], optional"):
        RewardManager({"a": RewardTermCfg(func=constant)}, env)


def test_unknown_parameter_names_the_nearest(env):
    with pytest.raises(TermError, match=r"reward term 'a': unknown parameter 'valeu'. Did you mean 'value'\?"):
        RewardManager({"a": RewardTermCfg(func=constant, params={"value": 1.0, "valeu": 1.0})}, env)


def test_class_terms_are_checked_by_their_call(env):
    with pytest.raises(TermError, match=r"reward term 'a': unknown parameter 'stepp'.*Counter takes"):
        RewardManager({"a": RewardTermCfg(func=Counter, params={"stepp": 1.0})}, env)


def test_event_function_must_take_a_mask(env):
    def old_style(env, env_ids):
        raise AssertionError

    with pytest.raises(TermError, match=r"event term 'e': old_style must take \(env, mask, ...\) first.*env_ids"):
        EventManager({"e": EventTermCfg(func=old_style)}, env)


def test_function_without_arguments_is_refused(env):
    with pytest.raises(TermError, match=r"must take \(env, ...\) first, but it begins with \(\)"):
        RewardManager({"a": RewardTermCfg(func=lambda: torch.zeros(N))}, env)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (RewardTermCfg(), "has no func"),
        (RewardTermCfg(func="not callable"), "must be a function or class, got 'not callable'"),
        (RewardTermCfg(func=int), "the class int must derive from ManagerTermBase"),
        (TermCfg(func=constant), ": expected RewardTermCfg, got TermCfg"),
        (3, ": expected RewardTermCfg, got int"),
    ],
)
def test_bad_configuration_names_manager_and_term(env, cfg, message):
    with pytest.raises(TermError, match=f"reward term 'a'.*{message}"):
        RewardManager({"a": cfg}, env)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.zeros(N, 1), r"must return a number tensor \(5,\), got torch.float32 \(5, 1\)"),
        (torch.zeros(()), r"got torch.float32 \(\)"),
        (None, "got NoneType"),
    ],
)
def test_wrong_result_names_term_expected_and_given(env, result, message):
    manager = RewardManager({"a": RewardTermCfg(func=lambda env: result)}, env)
    with pytest.raises(TermError, match=f"reward term 'a' {message}" if "must" in message else message):
        manager.compute(0.1)


# Copies, defaults, order ------------------------------------------------------------------------------------------


def test_configuration_is_copied(env):
    cfg = {"a": RewardTermCfg(func=constant, params={"value": 1.0})}
    manager = RewardManager(cfg, env)
    cfg["a"].weight = 100.0
    cfg["a"].params["value"] = 100.0
    assert manager.compute(1.0).tolist() == [1.0] * N
    assert "bias" not in cfg["a"].params


def test_defaults_are_not_shared_between_terms(env):
    def with_list(env, log=[]):  # noqa: B006
        log.append(1)
        return torch.full((env.num_envs,), float(len(log)))

    manager = RewardManager({name: RewardTermCfg(func=with_list) for name in "ab"}, env)
    assert manager.compute(1.0).tolist() == [2.0] * N


def test_bound_methods_keep_their_object(env):
    class Owner:
        def __init__(self) -> None:
            self.calls = 0

        def term(self, env):
            self.calls += 1
            return torch.zeros(N)

    owner = Owner()
    RewardManager({"a": RewardTermCfg(func=owner.term)}, env).compute(1.0)
    assert owner.calls == 1


def test_none_disables_and_order_is_that_of_the_dict(env):
    calls = []

    def term(env, name):
        calls.append(name)
        return torch.zeros(N)

    cfg = {name: RewardTermCfg(func=term, params={"name": name}) for name in "cab"}
    manager = RewardManager({**cfg, "a": None}, env)
    manager.compute(1.0)
    assert manager.term_names == ["c", "b"] == calls


def test_find_terms(env):
    manager = RewardManager({name: RewardTermCfg(func=Counter) for name in ("foot_a", "foot_b", "head")}, env)
    assert manager.find_terms("foot_.*") == ["foot_a", "foot_b"]
    assert manager.find_terms(["head", "foot_a"]) == ["foot_a", "head"]
    with pytest.raises(LabError, match="No reward term matches 'hand'. There are: foot_a, foot_b, head"):
        manager.find_terms("hand")


def test_table_shows_every_term(env):
    text = str(RewardManager({"a": RewardTermCfg(func=Counter, weight=-2.5), "b": RewardTermCfg(func=Counter)}, env))
    assert text.splitlines()[0] == "Reward terms (2)"
    assert "Counter" in text and "-2.5" in text


# Run-time changes -------------------------------------------------------------------------------------------------


def test_unknown_term_lists_the_existing(env):
    manager = RewardManager({"alive": RewardTermCfg(func=Counter)}, env)
    for access in (manager.get_term_cfg, lambda name: manager.set_term_cfg(name, RewardTermCfg(func=Counter))):
        with pytest.raises(
            UnknownTermError, match="unknown reward term 'alvie'. Did you mean 'alive'. Available: alive"
        ):
            access("alvie")


def test_set_term_cfg_acts_on_the_next_step(env):
    manager = RewardManager({"a": RewardTermCfg(func=constant, params={"value": 1.0})}, env)
    new = RewardTermCfg(func=constant, weight=3.0, params={"value": 2.0})
    manager.set_term_cfg("a", new)
    new.weight = 1000.0
    assert manager.compute(1.0).tolist() == [6.0] * N


def test_rejected_set_term_cfg_changes_nothing(env):
    manager = RewardManager({"a": RewardTermCfg(func=constant, params={"value": 1.0})}, env)
    with pytest.raises(TermError, match="params lack"):
        manager.set_term_cfg("a", RewardTermCfg(func=constant, weight=3.0))
    assert manager.compute(1.0).tolist() == [1.0] * N


def test_unchanged_class_term_keeps_its_state(env):
    manager = RewardManager({"a": RewardTermCfg(func=Counter)}, env)
    manager.compute(1.0)
    manager.set_term_cfg("a", manager.get_term_cfg("a"))
    assert manager.compute(1.0).tolist() == [2.0] * N


def test_class_term_is_built_anew_for_new_parameters(env):
    manager = RewardManager({"a": RewardTermCfg(func=Counter)}, env)
    manager.compute(1.0)
    cfg = manager.get_term_cfg("a")
    cfg.params["step"] = 10.0
    manager.set_term_cfg("a", cfg)
    assert manager.compute(1.0).tolist() == [10.0] * N


def test_class_term_may_become_a_function_and_back(env):
    manager = RewardManager({"a": RewardTermCfg(func=Counter)}, env)
    manager.set_term_cfg("a", RewardTermCfg(func=constant, params={"value": 7.0}))
    assert manager.compute(1.0).tolist() == [7.0] * N
    manager.set_term_cfg("a", RewardTermCfg(func=Counter))
    assert manager.compute(1.0).tolist() == [1.0] * N


def test_class_terms_are_reset_under_the_mask(env):
    manager = RewardManager({"a": RewardTermCfg(func=Counter)}, env)
    manager.compute(1.0)
    manager.reset(torch.tensor([True, False, False, False, True]))
    assert manager.compute(1.0).tolist() == [1.0, 2.0, 2.0, 2.0, 1.0]


def test_class_term_state_is_saved(env):
    manager, other = (RewardManager({"a": RewardTermCfg(func=Counter)}, env) for _ in range(2))
    manager.compute(1.0)
    other.load_state_dict(manager.state_dict())
    assert other.compute(1.0).tolist() == [2.0] * N


# SceneEntityCfg ---------------------------------------------------------------------------------------------------


def test_entity_selections(env):
    full, cart, both = SceneEntityCfg(), SceneEntityCfg(joint_names="slider_.*"), SceneEntityCfg(joint_names=[".*"])
    swapped = SceneEntityCfg(joint_names=["cart_to_pole", "slider_to_cart"], preserve_order=True)
    bodies = SceneEntityCfg(body_names=["slider", "pole"])
    for cfg in (full, cart, both, swapped, bodies):
        cfg.resolve(env.scene)
    assert full.joint_ids == full.body_ids == both.joint_ids == slice(None)
    assert cart.joint_ids == slice(0, 1)
    assert isinstance(swapped.joint_ids, torch.Tensor) and swapped.joint_ids.tolist() == [1, 0]
    assert isinstance(bodies.body_ids, torch.Tensor) and bodies.body_ids.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (SceneEntityCfg("robto"), "reward term 'a': unknown entity 'robto'. Did you mean 'robot'.*Available: robot"),
        (SceneEntityCfg(joint_names="knee"), "No joint of 'robot' matches 'knee'. There are: slider_to_cart, cart_to"),
        (SceneEntityCfg(body_names="foot"), "No body of 'robot' matches 'foot'. There are: slider, cart, pole"),
    ],
)
def test_unknown_names_list_what_exists(env, cfg, message):
    def term(env, asset_cfg):
        raise AssertionError

    with pytest.raises(TermError, match=message):
        RewardManager({"a": RewardTermCfg(func=term, params={"asset_cfg": cfg})}, env)


def test_unresolved_entity_says_so():
    with pytest.raises(LabError, match="has not been resolved"):
        _ = SceneEntityCfg().joint_ids


def test_entities_are_resolved_wherever_they_are(env):
    seen = []

    def term(env, nested, asset_cfg=SceneEntityCfg(joint_names="cart_to_pole")):  # noqa: B008
        entities = [nested["list"][0], nested["tuple"][1], nested["term"].params["asset_cfg"], asset_cfg]
        seen.extend(entity.joint_ids for entity in entities)
        return torch.zeros(N)

    pole = SceneEntityCfg(joint_names="cart_to_pole")
    nested = {
        "list": [copy.deepcopy(pole)],
        "tuple": (0, copy.deepcopy(pole)),
        "term": TermCfg(func=constant, params={"asset_cfg": copy.deepcopy(pole)}),
    }
    RewardManager({"a": RewardTermCfg(func=term, params={"nested": nested})}, env).compute(1.0)
    assert seen == [slice(1, 2)] * 4


# Empty managers, recorder, curriculum -----------------------------------------------------------------------------


def test_managers_without_terms_work(env):
    mask = torch.ones(N, dtype=torch.bool)
    rewards, actions = RewardManager({}, env), ActionManager({}, env)
    assert rewards.compute(0.1).tolist() == [0.0] * N
    actions.process_actions(torch.zeros(N, 0))
    actions.apply_actions()
    commands, curriculum, metrics = CommandManager({}, env), CurriculumManager({}, env), MetricsManager({}, env)
    commands.compute(0.1)
    curriculum.compute(mask)
    metrics.compute()
    events = EventManager({}, env)
    events.apply("interval", dt=0.1)
    events.apply("startup")
    for manager in (rewards, actions, commands, curriculum, metrics, events):
        assert manager.reset(mask) == {}
        assert "(0)" in str(manager)


def test_null_recorder_does_nothing():
    recorder, mask = RecorderHooks(), torch.ones(N, dtype=torch.bool)
    recorder.record_pre_step()
    recorder.record_post_step()
    recorder.record_pre_reset(mask)
    recorder.record_post_reset(mask)
    assert recorder.reset(mask) == {}
    recorder.close()


def test_curriculum_logs_numbers_tensors_and_dicts(env):
    level = torch.tensor(3.0)

    def mapping(env, mask):
        return {"mean": level, "max": 2}

    cfg = {
        "nothing": CurriculumTermCfg(func=lambda env, mask: None),
        "number": CurriculumTermCfg(func=lambda env, mask: 0.5),
        "share": CurriculumTermCfg(func=lambda env, mask: mask.float().mean()),
        "levels": CurriculumTermCfg(func=mapping),
    }
    manager, mask = CurriculumManager(cfg, env), torch.tensor([True, False, False, False, False])
    manager.compute(mask)
    log = manager.reset(mask)
    level.fill_(9.0)
    assert {name: float(value) for name, value in log.items()} == pytest.approx(
        {
            "Curriculum/number": 0.5,
            "Curriculum/share": 0.2,
            "Curriculum/levels/mean": 3.0,
            "Curriculum/levels/max": 2.0,
        }
    )


def test_curriculum_refuses_what_it_cannot_log(env):
    manager = CurriculumManager({"c": CurriculumTermCfg(func=lambda env, mask: mask)}, env)
    with pytest.raises(TermError, match=r"curriculum term 'c' must return a number.*got \(5,\)"):
        manager.compute(torch.ones(N, dtype=torch.bool))
