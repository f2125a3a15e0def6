"""What the recorder takes right behind the physics, and from every substep of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from lab_core.datasets import Episode
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.recorder import EpisodeCollector, RecorderCfg, RecorderManager, RecorderTermCfg, terms
from lab_core.recorder.presets import physics_step_terms, transition_terms
from lab_core.sensors import ContactSensorCfg, ContactSetCfg
from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def make(
    recorded: Mapping[str, RecorderTermCfg | None], decimation: int = 2
) -> tuple[ManagerBasedRLEnv, EpisodeCollector]:
    """An environment with episodes of at most 20 steps, and its recorded episodes."""
    cfg = analytic_cartpole_env_cfg(8, episode_length_s=20 * decimation / 120)
    cfg.decimation = decimation
    env, collector = cfg.build(), EpisodeCollector()
    if recorded:
        env.set_recorder(RecorderManager(RecorderCfg(terms=dict(recorded)), env, [collector]))
    return env, collector


def run(env: ManagerBasedRLEnv, steps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        env.step(4.0 * torch.randn(env.num_envs, 1, generator=generator))


SUBSTEP_TERMS: dict[str, RecorderTermCfg | None] = {
    "substep_efforts": RecorderTermCfg(func=terms.SubstepEfforts, phase="post_physics"),
    "substep_states": RecorderTermCfg(func=terms.SubstepStates, phase="post_physics"),
}


def record_substeps(decimation: int, steps: int = 60, split: bool = False) -> list[Episode]:
    """Records with all substeps; ``split``: the physics is called once per substep."""
    env, collector = make(transition_terms() | SUBSTEP_TERMS, decimation)
    if split:
        step = env.physics.step
        env.physics.step = lambda substeps: [step(1) for _ in range(substeps)]
    run(env, steps)
    assert len(collector.episodes) > 20
    return collector.episodes


def substep_efforts_entered_the_solver() -> bool:
    """Compares with the actuators' law in the state before every substep."""
    pairs = []
    for episode in record_substeps(decimation=4):
        after = episode.steps["substep_states/articulation/robot/joint_velocity"][..., 0]
        first = episode.steps["pre_states/articulation/robot/joint_velocity"][:, :1]
        velocity = torch.cat([first, after[:, :-1]], dim=1)
        expected = (100.0 * episode.steps["actions"] - 10.0 * velocity).clamp(-400.0, 400.0)
        pairs.append((episode.steps["substep_efforts/robot"][..., 0], expected))
    recorded, expected = (torch.cat(side) for side in zip(*pairs, strict=True))
    assert recorded.shape[1] == 4 and (recorded.abs() == 400.0).any()
    return torch.allclose(recorded, expected, atol=1e-3)


def test_the_efforts_of_all_substeps_entered_the_solver():
    assert substep_efforts_entered_the_solver()


def test_mutation_efforts_of_substeps_copied_behind_the_solver_are_noticed(monkeypatch):
    def late(self):
        self._act()
        self._integrate()
        self._act()
        self._traces.record(self._row, entering=True)
        self._traces.record(self._row, entering=False)

    monkeypatch.setattr(AnalyticCartpoleBackend, "_substep", late)
    assert not substep_efforts_entered_the_solver()


@pytest.mark.parametrize("decimation", [1, 4])
def test_substeps_are_the_same_rows_whoever_loops(decimation):
    """One call of the physics, or one per substep; the last substep is the state after the step."""
    together, apart = (record_substeps(decimation, split=split) for split in (False, True))
    for a, b in zip(together, apart, strict=True):
        assert a.info == b.info and a.steps.keys() == b.steps.keys()
        assert all(torch.equal(a.steps[key], b.steps[key]) for key in b.steps)
        for key in ("root_pose", "root_velocity", "joint_position", "joint_velocity"):
            substeps = a.steps[f"substep_states/articulation/robot/{key}"]
            assert substeps.shape[1] == decimation
            assert torch.equal(substeps[:, -1], a.steps[f"states/articulation/robot/{key}"])
        assert torch.equal(a.steps["substep_efforts/robot"][:, -1], a.steps["applied_effort/robot"])


def test_recording_all_substeps_changes_nothing():
    def states(terms: dict) -> list[torch.Tensor]:
        env, _ = make(terms, decimation=4)
        data, found = env.scene["robot"].data, []
        for _ in range(5):
            run(env, 20)
            found += [data.joint_pos.clone(), data.joint_vel.clone(), data.joint_acc.clone(), env.reward_buf.clone()]
        return found

    assert all(torch.equal(a, b) for a, b in zip(states(SUBSTEP_TERMS), states({}), strict=True))


def test_post_physics_is_between_the_physics_and_the_counters():
    def length(env) -> torch.Tensor:
        return env.episode_length_buf

    phases = ("pre_physics", "post_physics", "post_step")
    lengths = {phase: RecorderTermCfg(func=length, phase=phase) for phase in phases}
    states = {f"{phase}_state": RecorderTermCfg(func=terms.scene_state, phase=phase) for phase in phases}
    env, collector = make(lengths | states)
    run(env, 60)
    for episode in collector.episodes:
        before, physics, after = (episode.steps[phase] for phase in phases)
        assert torch.equal(before, physics) and torch.equal(physics + 1, after)
        before, physics, after = (episode.steps[f"{phase}_state/articulation/robot/joint_position"] for phase in phases)
        assert not torch.equal(before, physics) and torch.equal(physics, after)


def test_physics_steps_hold_the_contacts_of_contact_sets():
    cfg = analytic_cartpole_env_cfg(2)
    assert not [key for key in physics_step_terms(cfg) if key.startswith("substep_contacts")]
    cfg.scene.sensors = {"near": ContactSetCfg(), "forces": ContactSensorCfg()}
    recorded = physics_step_terms(cfg)
    assert [key for key in recorded if key.startswith("substep_contacts")] == ["substep_contacts/near"]
    assert recorded["substep_contacts/near"].params == {"sensor": "near", "fields": ("tokens", "excess")}


def test_chosen_measurements_of_a_sensor_are_traced_by_name(monkeypatch):
    asked = []
    env, _ = make({})
    monkeypatch.setattr(env.physics, "trace", lambda *trace: asked.append(trace) or torch.full((8, 2), 3.0))
    params = {"sensor": "near", "fields": ("tokens", "excess")}
    term = terms.SubstepSensorValues(
        RecorderTermCfg(func=terms.SubstepSensorValues, phase="post_physics", params=params), env
    )
    assert {name: value.shape for name, value in term(env, **params).items()} == dict.fromkeys(params["fields"], (8, 2))
    assert asked == [("near", "tokens", 2), ("near", "excess", 2)]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("cat", "joint_pos", 2), "unknown entity or sensor 'cat'. Available: robot"),
        (("robot", "mass", 2), "unknown quantity of 'robot' 'mass'. Available: applied_effort, joint_pos"),
        (("robot", "joint_pos", 3), r"with 3 substeps; they need .* as many as those that there are \(2\)"),
    ],
)
def test_what_cannot_be_traced_is_refused(request_, message):
    env, _ = make(SUBSTEP_TERMS)
    with pytest.raises(LabError, match=message):
        env.physics.trace(*request_)
