from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from tensordict import TensorDict

from lab_core.agents import PPOCfg
from lab_core.config import save_yaml
from lab_core.errors import LabError
from lab_core.managers import ObservationTermCfg, SceneEntityCfg
from lab_core.mdp import JointPositionActionCfg, JointVelocityActionCfg, joint_vel_rel
from lab_core.registry import get_task
from lab_core.signals import UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.algorithms import Policy
from lab_rl.algorithms.ppo import PPORunner
from lab_rl.export import export_onnx, policy_metadata
from lab_rl.export.metadata import mjlab_metadata
from lab_rl.export.onnx_file import ExportError, check_onnx
from lab_rl.runs import Checkpoint, RunCfg, RunFolder, save_checkpoint
from lab_rl.runs.trained_policy import TrainedPolicy, load_trained
from lab_rl.term_widths import action_terms, observation_terms

SCALE, OFFSET, CLIP = 70.123456789, 2.5, (-90.0, 80.0)


def make_env_cfg():
    """A cart-pole with all that a deployer could get wrong: order, scale, clip, history, offset, default pose."""
    cfg = analytic_cartpole_env_cfg(num_envs=3)
    terms = cfg.observations["policy"].terms
    terms["joint_vel_rel"] = ObservationTermCfg(
        func=joint_vel_rel,
        params={"asset_cfg": SceneEntityCfg(joint_names=("cart_to_pole", "slider_to_cart"), preserve_order=True)},
        clip=(-0.5, 0.5),
        scale=(0.3, 2.0),
        history_length=3,
        noise=UniformNoiseCfg(n_min=-0.1, n_max=0.1),
    )
    cfg.scene.entities["robot"].init_state.joint_pos = {"slider_to_cart": 0.25, "cart_to_pole": 0.1}
    cfg.actions["cart_effort"] = replace(cfg.actions["cart_effort"], scale=SCALE, offset=OFFSET, clip=CLIP)
    return cfg


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> TrainedPolicy:
    """A policy after two iterations with normalised observations and clipped actions."""
    cfg = RunCfg(
        task="Task",
        device="cpu",
        env=make_env_cfg(),
        agent=PPOCfg(num_steps_per_env=4, actor_hidden_dims=(16,), critic_hidden_dims=(8,), obs_normalization=True,
                     clip_actions=0.8, num_mini_batches=2),
    )  # fmt: skip
    run = RunFolder.create(tmp_path_factory.mktemp("logs"))
    env = cfg.env.build("cpu")
    runner = PPORunner(env, cfg.agent)
    for _ in range(2):
        runner.iterate()
    with torch.no_grad():
        for parameter in runner.alg.get_policy().mlp[-1].parameters():
            parameter.mul_(30.0)  # so that actions reach their clip
    save_yaml(cfg, run.config)
    save_checkpoint(
        run.checkpoint(2),
        Checkpoint(
            task="Task",
            config_hash=cfg.hash(),
            num_envs=3,
            observations=observation_terms(env),
            actions=action_terms(env),
            runner=runner.state_dict(),
        ),
    )
    return load_trained(run.path)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "policy.onnx"
    export_onnx(trained, trained.attach(trained.cfg.env.build("cpu")), path)
    return path


class StubPolicy(Policy):
    """What metadata say of a policy."""

    def __init__(self, env) -> None:
        self.env, self.groups = env, tuple(env.get_observations())

    def act(self, observations):
        raise NotImplementedError

    def exported(self):
        raise NotImplementedError


def metadata_of(path) -> dict:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_one_file_alone_is_enough(exported, tmp_path):
    shutil.copy(exported, tmp_path / "policy.onnx")
    assert [path.name for path in exported.parent.iterdir()] == ["policy.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert session.run(["actions"], {"obs": np.zeros((5, 8), np.float32)})[0].shape == (5, 1)


def test_the_file_names_no_folder_of_the_machine(exported):
    assert b".py" not in exported.read_bytes()


def test_file_acts_as_training_policy_and_played_policy(trained, exported):
    runner = PPORunner(trained.cfg.env.build("cpu"), trained.cfg.agent)
    runner.load_state_dict(trained.checkpoint.runner)
    env = trained.cfg.env.build("cpu")
    played = trained.attach(env)
    session = onnxruntime.InferenceSession(exported)
    count = played.network.obs_normalizer.count.clone()
    assert count > 0
    clipped = 0
    for _ in range(20):
        observations = env.get_observations()
        with torch.inference_mode():
            action = played()
            in_training = runner.alg.get_policy()(TensorDict(observations, [3]))
        (in_file,) = session.run(["actions"], {"obs": observations["policy"].numpy()})
        torch.testing.assert_close(in_training.clamp(-0.8, 0.8), action)
        runner.adapter.step(in_training)  # the action that the environment of a training receives
        torch.testing.assert_close(runner.env.action_manager.action, action)
        np.testing.assert_allclose(in_file, action.numpy(), atol=1e-5)
        clipped += int((in_training.abs() > 0.8).sum())
        env.step(action)
    assert clipped > 0 and played.network.obs_normalizer.count == count


def test_controller_in_numpy_is_rebuilt_from_the_file_alone(exported):
    """Observation and effort of the environment, from joint positions and velocities and the metadata."""
    described = json.loads(metadata_of(exported)["lab"])
    robot = described["entities"]["robot"]
    history: dict[str, list[np.ndarray]] = {}

    def observe(joint_pos: np.ndarray, joint_vel: np.ndarray) -> np.ndarray:
        state = {
            "joint_pos_rel": joint_pos - np.array(robot["default_joint_pos"]),
            "joint_vel_rel": joint_vel - np.array(robot["default_joint_vel"]),
        }
        parts = []
        for term in described["observations"]:
            chosen = [robot["joint_names"].index(name) for name in term["params"]["asset_cfg"]["joint_names"]]
            value = state[term["function"]][chosen]
            if term["clip"] is not None:
                value = np.clip(value, *term["clip"])
            if term["scale"] is not None:
                value = value * np.array(term["scale"])
            length = term["history_length"]
            if length:
                kept = history.setdefault(term["name"], [value] * length)
                kept.append(value)
                value = np.concatenate(kept[-length:])
            assert value.size == term["width"]
            parts.append(value)
        return np.concatenate(parts)

    def effort(action: np.ndarray) -> np.ndarray:
        (term,) = described["actions"]
        return np.clip(np.array(term["scale"]) * action + np.array(term["offset"]), *np.array(term["clip"]).T)

    cfg = make_env_cfg()
    env = cfg.build("cpu")
    data = env.scene["robot"].data
    observations = env.get_observations()["policy"]
    session = onnxruntime.InferenceSession(exported)
    for _ in range(10):
        rebuilt = observe(data.joint_pos[0].double().numpy(), data.joint_vel[0].double().numpy())
        np.testing.assert_allclose(rebuilt, observations[0].numpy(), atol=1e-6)
        (action,) = session.run(["actions"], {"obs": np.tile(rebuilt.astype(np.float32), (3, 1))})
        observations = env.step(torch.from_numpy(action))[0]["policy"]
        target = data.joint_effort_target[0, robot["joint_names"].index("slider_to_cart")]
        np.testing.assert_allclose(effort(action[0].astype(np.float64)), target, rtol=1e-6)


@pytest.mark.parametrize(
    ("action_cfg", "target"),
    [(JointPositionActionCfg, "joint_pos_target"), (JointVelocityActionCfg, "joint_vel_target")],
)
@pytest.mark.parametrize("use_default", [True, False])
def test_offset_of_an_action_holds_the_default_pose(trained, action_cfg, target, use_default):
    cfg = make_env_cfg()
    cfg.scene.entities["robot"].init_state.joint_vel = {"slider_to_cart": -0.5}
    cfg.actions["cart_effort"] = action_cfg(
        joint_names=("slider_to_cart",), scale=0.5, offset=0.125, use_default_offset=use_default
    )
    env = cfg.build("cpu")
    (term,) = policy_metadata(StubPolicy(env), trained)["actions"]
    env.step(torch.full((3, 1), 0.25))
    expected = term["scale"][0] * 0.25 + term["offset"][0]
    assert expected == getattr(env.scene["robot"].data, target)[0, 0]


def test_metadata_say_what_a_robot_needs(exported):
    described = json.loads(metadata_of(exported)["lab"])
    assert described["task"] == "Task" and described["iteration"] == 2 and len(described["config_hash"]) == 64
    assert described["timing"] == {"physics_dt": 1 / 120, "decimation": 2, "control_dt": 2 / 120}
    assert described["conventions"]["quaternions"] == "xyzw" and "SI" in described["conventions"]["units"]
    columns = [(term["name"], term["start"], term["width"]) for term in described["observations"]]
    assert columns == [("joint_pos_rel", 0, 2), ("joint_vel_rel", 2, 6)]
    assert described["actions"][0]["joint_names"] == ["slider_to_cart"]
    assert described["actions"][0]["scale"] == [SCALE]  # full precision
    robot = described["entities"]["robot"]
    assert robot["joint_names"] == ["slider_to_cart", "cart_to_pole"] and robot["joint_damping"] == [10.0, 0.0]
    assert robot["joint_pos_limits"] == [[-4.0, 4.0], [None, None]]
    assert "noise" not in described["observations"][1] and described["output"]["clipped_to"] == 0.8
    assert described["versions"]["rsl-rl-lib"] == "5.5.1"


@pytest.mark.slow
def test_sensors_are_described(trained):
    """Whoever builds a height scan for a robot must know the grid."""
    pytest.importorskip("lab_tasks")
    cfg = get_task("Lab-Velocity-Rough-Go2").make_env_cfg(play=True)
    cfg.scene.num_envs = cfg.scene.terrain.num_rows = cfg.scene.terrain.num_cols = 1
    env = cfg.build("cpu")
    try:
        metadata = policy_metadata(StubPolicy(env), trained)
    finally:
        env.close()
    (scan,) = (term for term in metadata["observations"] if term["name"] == "height_scan")
    assert scan["params"] == {"sensor_cfg": {"sensor": "height_scanner"}, "offset": 0.5}
    sensor = metadata["sensors"]["height_scanner"]
    assert (sensor["class"], sensor["body_name"], sensor["alignment"]) == ("RayCasterCfg", "base", "yaw")
    assert (sensor["pattern"]["size"], sensor["pattern"]["resolution"]) == ([1.6, 1.0], 0.1)


def test_keys_of_mjlab_are_there(exported):
    entries = metadata_of(exported)
    assert entries["joint_names"] == "slider_to_cart,cart_to_pole"
    assert entries["observation_names"] == "joint_pos_rel,joint_vel_rel"
    assert entries["observation_terms_scale"] == "1.0,0.3;2.0"
    assert entries["observation_terms_history_length"] == "0,3"
    assert entries["action_scale"] == str(SCALE)
    assert {"run_path", "joint_stiffness", "joint_damping", "default_joint_pos", "command_names"} <= entries.keys()


def test_scales_of_zero_are_told_as_zero(trained):
    cfg = make_env_cfg()
    cfg.observations["policy"].terms["joint_pos_rel"].scale = 0.0
    cfg.actions["cart_effort"] = replace(cfg.actions["cart_effort"], scale=0.0)
    entries = mjlab_metadata(policy_metadata(StubPolicy(cfg.build("cpu")), trained))
    assert entries["observation_terms_scale"] == "0.0,0.3;2.0"
    assert entries["action_scale"] == "0.0"


def test_file_that_acts_differently_is_refused(exported):
    with pytest.raises(ExportError, match="differs from the trained one by"):
        check_onnx(exported.read_bytes(), torch.randn(20, 8), torch.full((20, 1), 0.7))


def test_a_file_that_acts_differently_on_one_observation_alone_is_refused():
    """Here each action also depends on the rows of the batch before it."""
    obs, actions = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 1]) for name in ("obs", "actions")
    )
    axis = onnx.helper.make_tensor("axis", onnx.TensorProto.INT64, [], [0])
    sums = onnx.helper.make_node("CumSum", ["obs", "axis"], ["actions"])
    graph = onnx.helper.make_graph([sums], "sums", [obs], [actions], [axis])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    observations = torch.ones(8, 1)
    with pytest.raises(ExportError, match="differs from the trained one by"):
        check_onnx(model.SerializeToString(), observations, observations.cumsum(0))


def test_a_file_without_the_clip_of_the_actions_is_refused(trained, tmp_path, monkeypatch):
    policy = trained.attach(trained.cfg.env.build("cpu"))
    monkeypatch.setattr(policy, "exported", lambda: policy.network.as_onnx(verbose=False))
    with pytest.raises(ExportError, match="differs from the trained one by"):
        export_onnx(trained, policy, tmp_path / "policy.onnx")


def test_offsets_follow_the_names_of_the_joints_whatever_their_order(trained):
    cfg = make_env_cfg()
    cfg.actions["cart_effort"] = JointPositionActionCfg(
        joint_names=("cart_to_pole", "slider_to_cart"), preserve_order=True, scale={"cart_.*": 2.0, "slider.*": 0.5}
    )
    (term,) = policy_metadata(StubPolicy(cfg.build("cpu")), trained)["actions"]
    assert term["joint_names"] == ["cart_to_pole", "slider_to_cart"]
    assert term["offset"] == pytest.approx([0.1, 0.25]) and term["scale"] == [2.0, 0.5]


def test_each_action_term_has_its_own_scale_and_columns(trained):
    cfg = make_env_cfg()
    cfg.actions = {
        "cart": JointPositionActionCfg(joint_names=("slider_to_cart",), scale=0.5),
        "pole": JointPositionActionCfg(joint_names=("cart_to_pole",), scale=3.0, clip={".*": (-1.0, 2.0)}),
    }
    metadata = policy_metadata(StubPolicy(cfg.build("cpu")), trained)
    cart, pole = metadata["actions"]
    assert (cart["start"], cart["width"], cart["scale"]) == (0, 1, [0.5])
    assert (pole["start"], pole["width"], pole["scale"], pole["clip"]) == (1, 1, [3.0], [[-1.0, 2.0]])
    assert metadata["output"]["width"] == 2
    assert mjlab_metadata(metadata)["action_scale"] == "0.5,3.0"


def test_environment_with_other_terms_is_refused(trained):
    cfg = make_env_cfg()
    cfg.observations["policy"].terms["joint_vel_rel"].history_length = 2
    with pytest.raises(
        LabError, match=r"joint_vel_rel 6\) in training and is 6 wide \(joint_pos_rel 2, joint_vel_rel 4"
    ):
        trained.attach(cfg.build("cpu"))


def test_other_suffix_is_refused(trained, tmp_path):
    with pytest.raises(LabError, match=r"must end in \.onnx, got 'policy\.pt'"):
        export_onnx(trained, trained.attach(trained.cfg.env.build("cpu")), tmp_path / "policy.pt")
