"""The ANYmal C as something whose dynamics are learned: what is recorded, and touches in place of forces."""

from __future__ import annotations

import warnings

import pytest
import torch

from lab_core import mdp
from lab_core.cli import record_command
from lab_core.datasets import RecordedDataset
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.errors import LabError
from lab_core.recorder import physics_step_terms
from lab_core.registry import get_task
from lab_core.sensors import ContactSensorCfg
from lab_newton import NeRDSolverCfg
from lab_newton.nerd import check_fingerprint
from lab_tasks.velocity import anymal_c_dynamics_cfg as dynamics
from lab_tasks.velocity.anymal_c import anymal_c_flat_env_cfg, anymal_c_rough_env_cfg

pytestmark = pytest.mark.filterwarnings("ignore:ANYmal moves with DC motors")
EXPLORE = {
    "flat": "Lab-Velocity-Flat-AnymalC-Explore",
    "rough": "Lab-Velocity-Rough-AnymalC-Explore",
}
LEARNED = {
    "flat": "Lab-Velocity-Flat-AnymalC-Learned",
    "rough": "Lab-Velocity-Rough-AnymalC-Learned",
}
TEACHERS = {"flat": anymal_c_flat_env_cfg, "rough": anymal_c_rough_env_cfg}


def env_cfg(task: str, num_envs: int) -> ManagerBasedRLEnvCfg:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    if cfg.scene.terrain is not None:
        cfg.scene.terrain.num_rows, cfg.scene.terrain.num_cols, cfg.scene.terrain.border_width = 4, 6, 5.0
    return cfg


@pytest.mark.parametrize("ground", TEACHERS)
def test_exploring_is_done_in_the_physics_of_the_teacher(ground):
    cfg, teacher = env_cfg(EXPLORE[ground], 1), TEACHERS[ground]()
    assert cfg.physics == teacher.physics and cfg.decimation == teacher.decimation
    assert cfg.actions == teacher.actions and cfg.observations == teacher.observations, "policies of the task fit"
    assert cfg.scene.entities == teacher.scene.entities
    assert all(event.mode == "reset" for event in cfg.events.values())
    edge = ["terrain_out_of_bounds"] if cfg.scene.terrain is not None else []
    assert not cfg.rewards and not cfg.curriculum and list(cfg.terminations) == ["time_out", *edge]
    assert get_task(EXPLORE[ground]).make_dynamics_cfg() == dynamics.anymal_c_fit_cfg()
    dynamics.anymal_c_fit_cfg().check()


@pytest.mark.parametrize("ground", TEACHERS)
def test_learned_differs_from_its_teacher_in_the_solver_and_in_touches_alone(ground):
    cfg, teacher = env_cfg(LEARNED[ground], 1), TEACHERS[ground]()
    solver = cfg.physics.solver
    assert isinstance(solver, NeRDSolverCfg) and solver.teacher == teacher.physics.solver
    assert set(cfg.rewards) == set(teacher.rewards) and set(cfg.terminations) == set(teacher.terminations)
    assert {name: term.weight for name, term in cfg.rewards.items()} == {
        name: term.weight for name, term in teacher.rewards.items()
    }
    assert set(teacher.events) - set(cfg.events) == {"physics_material", "add_base_mass", "base_com"}
    assert "contact_forces" not in cfg.scene.sensors and dynamics.GAPS in cfg.scene.sensors


@pytest.fixture
def dc_motors(monkeypatch):
    """No file of the drive's network, whatever this machine has."""
    for name in ("LAB_ANYDRIVE_NETWORK", "LAB_EXTERNAL_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_the_task_runs_in_its_model(dc_motors, frontend):
    env = make_env(env_cfg(LEARNED["flat"], 4), "cpu", frontend)
    try:
        env.reset()
        for _ in range(12):
            _, reward, *_ = env.step(torch.zeros(4, 12))
        gaps = env.physics.sensors[dynamics.GAPS]
        assert reward.isfinite().all() and gaps.air_steps.any()
        assert env.physics.solver.contact_set.search.capacity == dynamics.FLAT_CAPACITY
    finally:
        env.close()


@pytest.mark.slow
def test_a_robot_stands_in_its_model_as_it_does_in_physics(dc_motors):
    """With DC motors, in which it sags; it moves by no recorded state."""
    heights = {}
    makers = {"model": dynamics.anymal_c_flat_learned_env_cfg, "physics": dynamics.anymal_c_flat_touch_env_cfg}
    for name, make in makers.items():
        cfg = make()
        cfg.scene.num_envs = 8
        cfg.events["reset_base"].params["velocity_range"] = {}
        env = make_env(cfg, "cpu", "warp")
        try:
            env.reset()
            rows = []
            for _ in range(50):
                _, _, terminated, *_ = env.step(torch.zeros(8, 12))
                assert not terminated.any(), name
                rows.append(env.scene["robot"].data.root_link_pose_w[:, 2].clone())
            heights[name] = torch.stack(rows)
        finally:
            env.close()
    assert (heights["model"] - heights["physics"]).abs().max() < 0.02
    assert (heights["physics"][0] - heights["physics"][-1]).mean() > 0.05, "it does not move"


def test_a_model_of_other_drives_is_refused(dc_motors):
    """The model of rough ground was recorded with the network of the drives alone."""
    with pytest.raises(LabError, match=r"learned other physics: actuators.robot.LF_HAA.kind: DCMotorActuatorCfg"):
        env_cfg(LEARNED["rough"], 1).build("cpu")


@pytest.mark.slow
def test_ground_of_another_shape_is_no_other_physics(dc_motors):
    """A model of rough ground is told contacts, and not what else is there."""
    fingerprints, heights = [], []
    for seed in (1, 2):
        cfg = env_cfg(EXPLORE["rough"], 2)
        cfg.seed = seed
        env = make_env(cfg, "cpu")
        fingerprints.append(env.physics.fingerprint())
        heights.append(env.scene.terrain.origins[..., 2].clone())
        env.close()
    assert not torch.equal(*heights)
    check_fingerprint("The model", *fingerprints)


@pytest.mark.slow
@pytest.mark.parametrize("ground", TEACHERS)
def test_episodes_begin_wide_and_outside_of_the_ground(ground):
    cfg = env_cfg(EXPLORE[ground], 256)
    cfg.scene.sensors[dynamics.GAPS] = dynamics.GapSensorCfg(capacity=cfg.scene.sensors["contacts"].capacity)
    env = make_env(cfg, "cpu")
    try:
        env.reset()
        data = env.scene["robot"].data
        offset = data.joint_pos - data.default_joint_pos
        low, high = data.joint_pos_limits.unbind(dim=-1)
        assert ((data.joint_pos > low) & (data.joint_pos < high)).all()
        assert (offset.abs().amax(dim=0) > 0.3).all() and (data.joint_vel.abs().amax(dim=0) > 3.0).all()
        assert (data.projected_gravity_b[:, 2] > -0.85).any() and (data.root_com_lin_vel_b.norm(dim=1) > 1.2).any()
        if env.scene.terrain is not None:
            counts = env.scene.terrain.levels.bincount(minlength=4).float()
            assert ((counts - 64.0).square() / 64.0).sum() < 16.3, "chi-square of 3 degrees of freedom, p = 0.001"
        env.physics.step(1)  # measures the state that it begins with
        gaps = env.physics.sensors[dynamics.GAPS]
        assert (gaps.min_gap >= 0.0).all(), [gaps.body_names[i] for i in (gaps.min_gap < 0).any(dim=0).nonzero()[:, 0]]
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize(("ground", "frontend"), [("flat", "torch"), ("flat", "warp"), ("rough", "warp")])
def test_exploring_runs_and_sees_all_contacts(ground, frontend):
    env = make_env(env_cfg(EXPLORE[ground], 16), "cpu", frontend)
    try:
        env.reset()
        contacts = env.physics.sensors[dynamics.CONTACTS]
        seen, missing = 0.0, 0.0
        for _ in range(60):
            env.step(2.0 * torch.rand(16, 12) - 1.0)
            seen, missing = seen + float(contacts.tokens[..., 0].sum()), missing + float(contacts.excess.sum())
        assert seen > 1000 and missing == 0.0
        report = env.physics.health()
        assert not report.non_finite_envs and not report.overflows
    finally:
        env.close()


@pytest.mark.slow
def test_physics_steps_are_recorded_with_their_regime(tmp_path):
    arguments = [EXPLORE["flat"], "--episodes", "3", "--label", "standing", "--policy", "zero", "--device", "cpu"]
    arguments += ["--output", str(tmp_path), "--env.episode-length-s", "0.4"]
    assert record_command(arguments, "lab nerd record", "Record.", physics_step_terms) == 0
    with RecordedDataset(tmp_path) as dataset:
        assert [info.label for info in dataset.infos] == ["standing"] * 3
        assert dataset.array(0, "substep_efforts/robot", slice(0, 20)).shape == (20, 4, 12)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 0.3], ids=["standing", "stumbling"])
def test_touches_are_paid_as_forces_are(scale):
    """On one trajectory, with both sensors: feet touch when they are pushed, and rewards agree."""
    with_forces = TEACHERS["flat"]()
    cfg = dynamics.anymal_c_flat_touch_env_cfg()
    cfg.scene.num_envs = 32
    cfg.scene.sensors["contact_forces"] = ContactSensorCfg(history_length=4)
    cfg.events["push_robot"] = None
    for name in ("feet_air_time", "undesired_contacts"):
        cfg.rewards[f"{name}_by_force"] = with_forces.rewards[name]
    env = make_env(cfg, "cpu")
    try:
        env.reset()
        gaps, forces = env.physics.sensors[dynamics.GAPS], env.physics.sensors["contact_forces"]
        feet = gaps.find_bodies(".*_FOOT")
        base = mdp.SceneSensorCfg("contact_forces", body_names="base")
        base.resolve(env.scene)
        agreement, ends, paid = [], 0, torch.zeros(4)
        for _ in range(150):
            _, _, terminated, _, _ = env.step(scale * (2.0 * torch.rand(32, 12) - 1.0))
            kept = ~(terminated | (env.episode_length_buf == 0))  # resets clear sensors
            touched = gaps.touch_history == (forces.net_forces_w_history.norm(dim=-1) > 1.0)
            agreement.append(touched[kept][:, :, feet].float().mean())
            ends += int((mdp.illegal_contact(env, 1.0, base)[kept]).sum())
            terms = ("feet_air_time", "feet_air_time_by_force", "undesired_contacts", "undesired_contacts_by_force")
            values = env.reward_manager.step_reward
            paid += torch.stack([values[:, env.reward_manager.term_names.index(name)].sum() for name in terms])
        assert torch.stack(agreement).mean() > 0.99
        assert ends == 0, "who is pushed at the base touches something with it"
        assert paid[0] == pytest.approx(float(paid[1]), rel=0.03, abs=0.05)
        assert paid[2] == pytest.approx(float(paid[3]), rel=0.03, abs=0.05)
    finally:
        env.close()
