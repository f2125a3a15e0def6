"""Policies by name: built in, of a file, of a module, and the one that comes with a task."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.registry import TaskSpec
from lab_core.rollouts import find_policy, make_policy
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

TASK = TaskSpec(id="Task", env_cfg=analytic_cartpole_env_cfg)


def constant(env, observations) -> torch.Tensor:
    return torch.full((env.num_envs, 1), 0.5)


def narrow(env, observations) -> torch.Tensor:
    return torch.zeros(env.num_envs)


class TestPolicies:
    @pytest.fixture
    def env(self):
        return analytic_cartpole_env_cfg(4).build()

    def test_zero_and_random(self, env):
        observations = env.get_observations()
        assert not make_policy("zero", env)(observations).any()
        drawn = [make_policy("random", env)(observations) for _ in range(2)]
        assert drawn[0].shape == (4, 1) and torch.equal(*drawn) and drawn[0].abs().max() <= 1.0
        state = env.generator.get_state()
        make_policy("random", env, noise=1.0)(observations)
        assert torch.equal(env.generator.get_state(), state)

    def test_noise_is_added_to_any_policy(self, env):
        policy = make_policy("zero", env, noise=0.3)
        actions = torch.cat([policy(env.get_observations()) for _ in range(500)])
        assert float(actions.std()) == pytest.approx(0.3, rel=0.1)

    def test_a_function_of_a_module(self, env, monkeypatch):
        monkeypatch.setattr("lab_core.rollouts.policies.resolve_reference", {"my:function": constant}.__getitem__)
        assert make_policy("my:function", env)(env.get_observations()).tolist() == [[0.5]] * 4

    @pytest.mark.parametrize(
        ("description", "message"),
        [
            ("rnadom", "There is no policy 'rnadom'; use demo, random, zero, FILE.onnx"),
            ("lab_core.masks:nothing", "'lab_core.masks' has no 'nothing'"),
            ("lab_core.masks:expand", r"has no 'expand'; did you mean 'expand_mask'"),
            (r"lab_core.masks:resolve_mask", r"resolve_mask must take \(env, observations\)"),
            ("nowhere.onnx", "There is no file nowhere.onnx"),
        ],
    )
    def test_impossible_policies(self, env, description, message):
        with pytest.raises(ConfigError, match=message):
            make_policy(description, env)(env.get_observations())

    def test_actions_of_a_wrong_shape(self, env, monkeypatch):
        monkeypatch.setattr("lab_core.rollouts.policies.resolve_reference", {"my:function": narrow}.__getitem__)
        with pytest.raises(ConfigError, match=r"'my:function' must return actions \(4, 1\), got \(4,\)"):
            make_policy("my:function", env)(env.get_observations())


class TestOnnxPolicies:
    """``actions = obs @ weights``, with metadata as ``lab export`` writes them."""

    @pytest.fixture
    def write(self, tmp_path):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")

        def write(width: int, groups: list[str]) -> str:
            weights = onnx.numpy_helper.from_array(np.arange(width, dtype=np.float32)[:, None], "weights")
            tensor = onnx.helper.make_tensor_value_info
            graph = onnx.helper.make_graph(
                [onnx.helper.make_node("MatMul", ["obs", "weights"], ["actions"])],
                "policy",
                [tensor("obs", onnx.TensorProto.FLOAT, ["batch", width])],
                [tensor("actions", onnx.TensorProto.FLOAT, ["batch", 1])],
                [weights],
            )
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
            names = {"extra": ("joint_pos_rel",), "policy": ("joint_pos_rel", "joint_vel_rel"), "camera": ("rgb",)}
            terms = [{"group": group, "name": name} for group in groups for name in names[group]]
            model.metadata_props.add(key="lab", value=json.dumps({"observations": terms} if groups else {}))
            onnx.save(model, tmp_path / "policy.onnx")
            return str(tmp_path / "policy.onnx")

        return write

    @pytest.fixture
    def env(self):
        cfg = analytic_cartpole_env_cfg(4)
        cfg.observations["extra"] = copy.deepcopy(cfg.observations["policy"])
        cfg.observations["extra"].terms["joint_vel_rel"] = None
        return cfg.build()

    def test_it_reads_the_groups_that_its_metadata_name(self, env, write):
        observations = env.get_observations()
        joined = torch.cat([observations["extra"], observations["policy"]], dim=-1)
        actions = make_policy(write(6, ["extra", "policy"]), env)(observations)
        assert torch.allclose(actions, joined @ torch.arange(6.0)[:, None], atol=1e-5)
        actions = make_policy(write(4, []), env)(observations)
        assert torch.allclose(actions, observations["policy"] @ torch.arange(4.0)[:, None], atol=1e-5)

    def test_a_policy_of_another_task_is_refused(self, env, write):
        with pytest.raises(ConfigError, match=r"policy.onnx reads 5 observations; \['policy'\] of this task have 4"):
            make_policy(write(5, ["policy"]), env)
        with pytest.raises(
            ConfigError, match=r"reads the observation groups \['camera'\]; the task has \['extra', 'po"
        ):
            make_policy(write(4, ["camera"]), env)

    def test_a_file_of_another_kind_is_refused(self, env, tmp_path):
        pytest.importorskip("onnxruntime")
        (tmp_path / "policy.onnx").write_text("hello")
        with pytest.raises(ConfigError, match="policy.onnx is no ONNX policy"):
            make_policy(str(tmp_path / "policy.onnx"), env)


class TestFindPolicy:
    """Before an environment is built."""

    @pytest.mark.parametrize("description", ["zero", "random", "lab_core.masks:expand_mask"])
    def test_what_needs_no_file_stays_as_it_is(self, description):
        assert find_policy(description, TASK) == description

    def test_a_file_must_be_there(self, tmp_path):
        (tmp_path / "policy.onnx").touch()
        assert find_policy(f"{tmp_path}/policy.onnx", TASK) == f"{tmp_path}/policy.onnx"
        with pytest.raises(ConfigError, match="There is no file nowhere.onnx"):
            find_policy("nowhere.onnx", TASK)

    def test_an_unknown_name_is_refused_with_those_that_exist(self):
        with pytest.raises(ConfigError, match="no policy 'rnadom'; use demo, random, zero, FILE.onnx"):
            find_policy("rnadom", TASK)

    def test_a_function_must_be_there(self):
        with pytest.raises(ConfigError, match="'lab_core.masks' has no 'nothing'"):
            find_policy("lab_core.masks:nothing", TASK)

    def test_demo_is_what_comes_with_the_task(self):
        task = TaskSpec(id="Task", env_cfg=analytic_cartpole_env_cfg, demo="lab_core.cli:demos/task.onnx")
        assert find_policy("demo", task).endswith("lab_core/cli/demos/task.onnx")

    def test_a_task_without_one_says_how_to_get_one(self):
        with pytest.raises(ConfigError, match="No policy comes with Task; train one with `lab train Task`"):
            find_policy("demo", TASK)

    def test_the_package_of_a_demo_must_exist(self):
        task = TaskSpec(id="Task", env_cfg=analytic_cartpole_env_cfg, demo="no_such_package:policy.onnx")
        with pytest.raises(ConfigError, match="there is no package 'no_such_package'"):
            find_policy("demo", task)
