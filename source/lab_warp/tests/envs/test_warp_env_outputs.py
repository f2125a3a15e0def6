"""What a step of a Warp environment returns."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import gymnasium
import pytest
import torch
import warp as wp

from lab_core.envs import DirectRLEnv, DirectRLEnvCfg, ManagerBasedRLEnvCfg, choose_frontend, make_env
from lab_core.managers import EventTermCfg, ManagerTermBase, MetricTermCfg, ObservationTermCfg
from lab_core.signals import ConstantNoiseCfg, NoiseWithBiasCfg, UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import DirectRLEnvWarp, ManagerBasedRLEnvWarp, build_env
from lab_warp.testing import assert_same_results, rollout, same_bits, step_report
from lab_warp.twins import twin_of

N = 6


class CountingCfg(DirectRLEnvCfg):
    """A task that shows and logs how many steps it has made."""

    def build(self, device: str | torch.device = "cpu") -> DirectRLEnv:
        raise NotImplementedError("There is only a twin.")


@twin_of(CountingCfg)
class CountingEnv(DirectRLEnvWarp):
    log_names = ("steps",)

    def _setup(self) -> None:
        self.steps = torch.zeros(1, device=self.device)
        self.episodes = torch.zeros(self.num_envs, device=self.device)
        self.warp.steps, self.warp.episodes = wp.from_torch(self.steps), wp.from_torch(self.episodes)

    def _apply_actions(self) -> None:
        target = self.scene["robot"].data.warp.joint_effort_target
        wp.launch(
            _apply,
            dim=self.num_envs,
            inputs=[self.warp.actions],
            outputs=[target, self.warp.steps],
            device=self.wp_device,
        )

    def _get_observations(self, out: wp.array) -> None:
        data = self.scene["robot"].data.warp
        wp.launch(_observe, dim=self.num_envs, inputs=[data.joint_pos], outputs=[out], device=self.wp_device)

    def _get_rewards(self, out: wp.array) -> None:
        out.fill_(1.0)

    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        data = self.scene["robot"].data.warp
        inputs = [data.joint_pos, self.warp.episode_length, self.max_episode_length]
        wp.launch(_end, dim=self.num_envs, inputs=inputs, outputs=[terminated, time_outs], device=self.wp_device)

    def _reset_state(self, mask: wp.array) -> None:
        """Episodes start from the default state."""

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        wp.launch(
            _clear,
            dim=self.num_envs,
            inputs=[mask, self.warp.reset_count, self.warp.steps],
            outputs=[self.warp.episodes, log],
            device=self.wp_device,
        )


@wp.kernel
def _apply(actions: wp.array2d[wp.float32], target: wp.array2d[wp.float32], steps: wp.array[wp.float32]):
    env = wp.tid()
    target[env, 0] = 100.0 * actions[env, 0]
    if env == 0:
        steps[0] = steps[0] + 1.0


@wp.kernel
def _observe(joint_pos: wp.array2d[wp.float32], out: wp.array2d[wp.float32]):
    env = wp.tid()
    out[env, 0] = joint_pos[env, 0]


@wp.kernel
def _end(
    joint_pos: wp.array2d[wp.float32],
    episode_length: wp.array[wp.int64],
    longest: int,
    terminated: wp.array[wp.bool],
    time_outs: wp.array[wp.bool],
):
    env = wp.tid()
    terminated[env] = wp.abs(joint_pos[env, 0]) > 3.0
    time_outs[env] = episode_length[env] >= wp.int64(longest)


@wp.kernel
def _clear(
    mask: wp.array[wp.bool],
    count: wp.array[wp.int32],
    steps: wp.array[wp.float32],
    episodes: wp.array[wp.float32],
    log: wp.array[wp.float32],
):
    env = wp.tid()
    if mask[env]:
        episodes[env] = episodes[env] + 1.0
    if env == 0 and count[0] > 0:
        log[0] = steps[0]


def direct_cfg(**changes: Any) -> CountingCfg:
    manager_based = analytic_cartpole_env_cfg(N)
    return CountingCfg(
        physics=manager_based.physics,
        scene=manager_based.scene,
        decimation=2,
        num_actions=1,
        num_observations=1,
        **{"episode_length_s": 0.5} | changes,
    )


def manager_cfg(episode_length_s: float = 0.5) -> ManagerBasedRLEnvCfg:
    return analytic_cartpole_env_cfg(N, episode_length_s)


class steps_seen(ManagerTermBase):
    """Observation of how often it was asked; looking at the end of a step does not count."""

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self._count = torch.zeros(env.num_envs, 1)

    def __call__(self, env: Any) -> torch.Tensor:
        return self._count.add_(1.0)


@twin_of(steps_seen)
class StepsSeenWarp(ManagerTermBase):
    def __call__(self, env: Any, out: wp.array) -> None:
        raise AssertionError("The twin of an observation with a memory was used.")


CFGS = [pytest.param(manager_cfg, id="managers"), pytest.param(direct_cfg, id="direct")]


@pytest.mark.parametrize("make_cfg", CFGS)
def test_final_obs_is_the_observation_before_the_reset(make_cfg, device):
    """The cart is put beyond 3 m in some environments; the others are seen the same before and after."""
    env = build_env(make_cfg(), device)
    env.step(torch.zeros(N, 1, device=device))
    env.scene["robot"].data.joint_pos[[1, 4], 0] = 3.5
    obs, _, terminated, _, extras = env.step(torch.zeros(N, 1, device=device))
    assert terminated.tolist() == [False, True, False, False, True, False]
    assert (extras["final_obs"]["policy"][terminated, 0] > 3.0).all()
    assert (obs["policy"][terminated, 0].abs() <= 1.0).all()
    assert same_bits(extras["final_obs"]["policy"][~terminated], obs["policy"][~terminated])


def test_final_obs_has_the_noise_of_the_observation_that_it_replaces(device):
    """In every group, each of which has noise of its own."""
    cfg = manager_cfg(5.0)
    cfg.observations["policy"].enable_corruption = True
    for term in cfg.observations["policy"].terms.values():
        term.noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    cfg.observations["clean"] = dataclasses.replace(cfg.observations["policy"], enable_corruption=False)
    cfg.observations["critic"] = copy.deepcopy(cfg.observations["policy"])
    for result in rollout(build_env(cfg, device), 20)[:5]:
        for group in ("policy", "clean", "critic"):
            assert same_bits(result[f"final_obs.{group}"], result[f"obs.{group}"]), group
        noise = [result[f"final_obs.{group}"] - result["final_obs.clean"] for group in ("policy", "critic")]
        assert (noise[0] != noise[1]).all()


@pytest.mark.parametrize("make_cfg", CFGS)
def test_final_obs_is_absent_where_it_is_switched_off(make_cfg):
    results = []
    for compute in (True, False):
        cfg = make_cfg()
        cfg.compute_final_obs = compute
        results.append(rollout(build_env(cfg), 40, scale=3.0))
    assert all(("final_obs.policy" in step) is (steps is results[0]) for steps in results for step in steps)
    for with_it in results[0]:
        del with_it["final_obs.policy"]
    assert_same_results(*results)


@pytest.mark.parametrize("make_cfg", CFGS)
def test_metadata_declares_same_step_autoreset_and_pictures(make_cfg):
    env = build_env(make_cfg())
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    assert "rgb_array" in env.metadata["render_modes"]
    assert env.metadata["render_fps"] == 60


@pytest.mark.parametrize("make_cfg", CFGS)
def test_final_obs_is_there_in_every_step(make_cfg):
    results = rollout(build_env(make_cfg()), 4)
    assert all(result["final_obs.policy"].shape == result["obs.policy"].shape for result in results)


@pytest.mark.parametrize("make_cfg", CFGS)
def test_what_a_step_returned_keeps_its_values(make_cfg):
    """The log, and everything else."""
    env = build_env(make_cfg())
    kept, copies = [], []
    for _ in range(70):
        obs, reward, terminated, truncated, extras = env.step(torch.ones(N, 1))
        kept.append([*obs.values(), reward, terminated, truncated, *extras["final_obs"].values()])
        kept[-1] += [extras["reset_count"], *extras["log"].values()]
        copies.append([tensor.clone() for tensor in kept[-1]])
    assert all(
        same_bits(a, b) for one, other in zip(kept, copies, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_the_log_of_a_direct_environment_counts_on():
    env = build_env(direct_cfg(episode_length_s=3 / 60))
    logs = [env.step(torch.zeros(N, 1))[-1]["log"] for _ in range(9)]
    assert [int(log["steps"]) for log in logs] == [0, 0, 3, 3, 3, 6, 6, 6, 9]


def test_a_direct_environment_resets_and_logs_only_where_something_ends(monkeypatch):
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")
    env = build_env(direct_cfg(episode_length_s=10 / 60))
    assert isinstance(env, CountingEnv)
    env.episodes.zero_()
    results = rollout(env, 20, scale=0.0)
    assert (env.episodes == 2.0).all()
    assert [int(result["reset_count"]) for result in results] == ([0] * 9 + [N]) * 2


def test_direct_environments_have_events_and_noise(device):
    """Reset and interval events, noise on actions and on observations."""
    masks: list[torch.Tensor] = []
    noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    cfg = direct_cfg(observation_noise=noise, action_noise=noise, episode_length_s=5 / 60)
    for mode, interval in (("reset", None), ("interval", (2 / 60, 2 / 60))):
        cfg.events[mode] = EventTermCfg(
            func=lambda env, mask: masks.append(mask.clone()), mode=mode, interval_range_s=interval
        )
    env = build_env(cfg, device)
    masks.clear()
    for _ in range(10):
        obs, *_ = env.step(torch.ones(N, 1, device=device))
        position = env.scene["robot"].data.joint_pos[:, :1]
        difference = (obs["policy"] - position).abs()
        assert difference.max() <= 0.1 + 1e-6 and difference.unique().numel() == N
    assert env.actions.unique().numel() == N or not env.actions.any()
    assert sum(int(mask.sum()) for mask in masks) > N


def test_direct_environments_follow_noise_that_changes_without_a_new_capture(device):
    expected = {"add": torch.add, "scale": torch.mul, "abs": torch.full_like}
    cfg = direct_cfg(
        observation_noise=ConstantNoiseCfg(bias=0.0), action_noise=ConstantNoiseCfg(bias=0.0), compute_final_obs=True
    )
    env = build_env(cfg, device)
    action = torch.full((N, 1), 0.25, device=device)
    for bias, operation in ((0.0, "add"), (0.5, "add"), (2.0, "scale"), (3.0, "abs"), (0.0, "add")):
        for noise in (env.cfg.observation_noise, env.cfg.action_noise):
            noise.bias, noise.operation = bias, operation
        observed, *_, extras = env.step(action)
        position = env.scene["robot"].data.joint_pos[:, :1]
        assert torch.equal(env.actions, expected[operation](action, bias))
        for given in (observed, extras["final_obs"]):
            assert torch.equal(given["policy"], expected[operation](position, bias))
    env.cfg.observation_noise.bias = 1.0
    assert (env.reset()[0]["policy"] == 1.0 + env.scene["robot"].data.joint_pos[:, :1]).all()
    assert step_report(env).num_captures == 1


def test_direct_environments_refuse_noise_with_a_memory():
    noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    with pytest.raises(ValueError, match="has a memory"):
        build_env(direct_cfg(observation_noise=NoiseWithBiasCfg(noise=noise, bias=noise)))


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_the_maximum_of_an_episode_with_a_nan_is_one(frontend):
    shown = torch.zeros(N)
    cfg = manager_cfg()
    cfg.metrics = {"most": MetricTermCfg(func=lambda env: shown, mode="max")}
    env = make_env(cfg, frontend=frontend)
    most = []
    for value in (-3.0, -1.0, -2.0, float("nan"), 5.0):
        shown.fill_(value)
        env.step(torch.zeros(N, 1))
        most.append(env.metrics_manager._values[0, 0].item())
    assert most == pytest.approx([-3.0, -1.0, -1.0, float("nan"), float("nan")], nan_ok=True)


@pytest.mark.parametrize("make_cfg", CFGS)
def test_an_action_can_be_processed_and_applied_by_hand(make_cfg, device):
    """As a replay of captured actions does."""
    env, by_hand = build_env(make_cfg(), device), build_env(make_cfg(), device)
    action = torch.full((N, 1), 0.3, device=device)
    env.step(action)
    by_hand._take_actions(action)
    by_hand._process_actions()
    by_hand._apply_actions()
    efforts = [one.scene["robot"].data.joint_effort_target for one in (env, by_hand)]
    assert efforts[0].any() and torch.equal(*efforts)


def test_an_observation_with_a_memory_runs_in_torch_though_it_has_a_twin():
    cfg = manager_cfg(5.0)
    cfg.observations["policy"].terms["seen"] = ObservationTermCfg(func=steps_seen)
    env = ManagerBasedRLEnvWarp(cfg)
    seen = []
    for mask in (None, [1], None):
        obs, *_ = env.reset(mask=mask) if mask else env.step(torch.zeros(N, 1))
        seen.append(obs["policy"][:2, -1].tolist())
    assert seen == [[2.0, 2.0], [2.0, 3.0], [3.0, 4.0]]
    assert "observation term 'policy/seen': its memory" in step_report(env).islands
    env.observation_manager.set_term_cfg("policy/seen", ObservationTermCfg(func=steps_seen))
    env.step(torch.zeros(N, 1))


def test_a_configuration_without_a_twin_is_refused_and_runs_in_torch_by_default():
    class Other(CountingCfg):
        pass

    cfg = direct_cfg()
    other = Other(**{name: getattr(cfg, name) for name in cfg.__dataclass_fields__})
    with pytest.raises(ValueError, match="Other has no Warp twin"):
        build_env(other)
    choice = choose_frontend("auto", other)
    assert (choice.name, choice.reason) == ("torch", "not warp: the environment of Other has no Warp twin")
    for runs in (cfg, manager_cfg(5.0)):
        assert choose_frontend("auto", runs).name == "warp"


def test_a_world_that_goes_non_finite_is_terminated_alone():
    env = build_env(manager_cfg(5.0))
    assert isinstance(env, ManagerBasedRLEnvWarp)
    expected = rollout(build_env(manager_cfg(5.0)), 5)
    env.scene["robot"].data.joint_vel[2, 0] = float("nan")
    given = rollout(env, 5)
    assert given[0]["terminated"].nonzero().flatten().tolist() == [2]
    others = torch.arange(N) != 2
    for ours, theirs in zip(given, expected, strict=True):
        assert ours["obs.policy"].isfinite().all() and ours["reward"].isfinite().all()
        assert same_bits(ours["obs.policy"][others], theirs["obs.policy"][others])
    assert given[0]["log.Episode_Termination/non_finite"] == pytest.approx(1 / N)
    assert step_report(env).num_captures == 1
