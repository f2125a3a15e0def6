"""Imagined rollouts: gradients, references, ends and returns."""

from __future__ import annotations

import pytest
import torch

from lab_rl.supermimic import SuperMimicRunner
from lab_rl.supermimic.returns import RolloutEnds
from lab_rl.supermimic.rollout import Imaginer, _LimitGradient
from lab_rl.supermimic.state import RobotState


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture
def runner(made, cart_cfg, settings) -> SuperMimicRunner:
    """One that has collected and fitted a little."""
    if not made:
        made["runner"] = SuperMimicRunner(cart_cfg(16).build("cpu"), settings(horizon=8, batch_size=16))
        made["runner"].iterate()
    return made["runner"]


def test_the_gradient_is_that_of_the_imagined_return(runner):
    """Central differences in float64 against back-propagation, through model, terms and the target critic."""
    update = runner.policy_update
    actor, model, target = update.actor.double(), runner.fit.model.double(), update.target.double()
    inputs = update.draw()
    doubled = type(inputs)(runner.task, 8, 16, 6)
    for name in ("env_ids", "clip", "frame", "finite"):
        getattr(doubled, name).copy_(getattr(inputs, name))
    doubled.state = RobotState(*(part.double() for part in inputs.state.tensors()))
    for name in ("prev_action", "action_noise", "observation_noise"):
        setattr(doubled, name, getattr(inputs, name).double())
    context = runner._context.double()

    def value() -> torch.Tensor:
        rollout = Imaginer(runner.task, model, actor)(doubled, context)
        ends = RolloutEnds.find(rollout.terminated, rollout.clip_ended, doubled.finite)
        return ends.returns(rollout.reward, target(rollout.critic_inputs[1:]), 0.99).sum()

    try:
        parameters = list(actor.network.parameters())
        grads = torch.autograd.grad(value(), parameters)
        draw = torch.Generator().manual_seed(2)
        for _ in range(20):
            index = int(torch.randint(len(parameters), (), generator=draw))
            flat, grad = parameters[index].detach().view(-1), grads[index].flatten()
            place = int(torch.randint(len(flat), (), generator=draw))
            differences = []
            for step in (1e-6, -1e-6):
                flat[place] += step
                differences.append(value().detach() / (2 * step))
                flat[place] -= step
            torch.testing.assert_close(sum(differences), grad[place], rtol=1e-3, atol=1e-5)
    finally:
        for module in (actor, model, target):
            module.float()


def test_a_step_earns_by_its_end_and_the_frame_that_was_shown(runner):
    inputs = runner.policy_update.draw()
    inputs.action_noise.zero_()
    rollout = runner.policy_update.imagine(inputs, runner._context)
    state, model = inputs.state, runner.fit.model
    command = runner.task.command
    action = rollout.actions[0]
    for step in range(3):
        state, _ = model(state, 100.0 * rollout.actions[step], runner._context[inputs.env_ids])
        shown = command.reference(inputs.clip, inputs.frame + step).position[:, 0]
        error = state.joint_pos[:, 0] - shown
        earned = torch.exp(-((error / 0.1) ** 2))  # weight 60 times 1/60 s
        torch.testing.assert_close(rollout.reward[step], earned, rtol=1e-4, atol=1e-5)
        assert torch.equal(rollout.terminated[step], error.abs() > 0.4)
    # What the critic is shown first is what the policy is shown in the simulation: reference, joints, last action.
    first = torch.cat(
        [command.reference(inputs.clip, inputs.frame).command, inputs.state.joint_pos,
         inputs.state.joint_vel, inputs.prev_action], dim=1)  # fmt: skip
    torch.testing.assert_close(rollout.critic_inputs[0], first)
    torch.testing.assert_close(rollout.critic_inputs[1, :, -1:], action)


def test_imagined_rewards_are_those_of_the_simulation_on_recorded_states(runner):
    """Terms on the recorded end of steps, against what the managers said in them."""
    env, rewards, ended = runner.env, [], []
    for _ in range(6):
        _, reward, terminated, _, _ = env.step(2.0 * torch.randn(16, 1))
        rewards.append(reward)
        ended.append(terminated)
    runner.replay.index(6)
    values, _ = runner.replay.newest()
    env_ids = torch.arange(16).repeat(6)
    end = runner.fit.states(values, "end", torch.arange(16)).map(lambda part: part.flatten(0, 1))
    now, before = (values[f"action/{name}"].flatten(0, 1) for name in ("now", "before"))
    shown = runner.task.command.reference(values["reference/clip"].flatten(), values["reference/frame"].flatten())
    view = runner.task.view(end, env_ids, now, before, shown)
    imagined = runner.task.imagination.reward(view)
    torch.testing.assert_close(imagined, torch.cat(rewards), rtol=0, atol=1e-4)
    assert torch.equal(runner.task.imagination.terminated(view), torch.cat(ended))


def test_after_a_failure_nothing_counts_and_after_the_end_of_a_clip_the_value_does():
    reward, value = torch.ones(3, 4), torch.full((3, 4), 10.0)
    terminated, clip_ended = torch.zeros(3, 4, dtype=torch.bool), torch.zeros(3, 4, dtype=torch.bool)
    terminated[1, 1] = clip_ended[1, 2] = True
    counts = torch.tensor([True, True, True, False])
    ends = RolloutEnds.find(terminated, clip_ended, counts)
    returns = ends.returns(reward, value, gamma=0.5)
    assert returns.tolist() == [1 + 0.5 + 0.25 + 0.125 * 10, 1 + 0.5, 1 + 0.5 + 0.25 * 10, 0.0]
    reward[2, 1:3] = 1e9  # behind the ends
    assert torch.equal(ends.returns(reward, value, gamma=0.5), returns)


def test_targets_of_the_critic():
    reward, value = torch.rand(4, 3), torch.rand(4, 3)
    terminated, clip_ended = torch.zeros(4, 3, dtype=torch.bool), torch.zeros(4, 3, dtype=torch.bool)
    terminated[2, 1] = clip_ended[1, 2] = True
    ends = RolloutEnds.find(terminated, clip_ended, torch.ones(3, dtype=torch.bool))
    one_step = ends.td_lambda(reward, value, 0.9, lam=0.0)
    torch.testing.assert_close(one_step, ends.alive * (reward + 0.9 * torch.where(terminated, 0.0, value)))
    whole = ends.td_lambda(reward, value, 0.9, lam=1.0)
    torch.testing.assert_close(whole[0], ends.returns(reward, value, 0.9))
    mixed = ends.td_lambda(reward, value, 0.9, lam=0.5)
    expected = reward[2, 0] + 0.9 * (0.5 * value[2, 0] + 0.5 * (reward[3, 0] + 0.9 * value[3, 0]))
    torch.testing.assert_close(mixed[2, 0], expected)


def test_gradients_between_states_are_limited_row_by_row():
    a, b = torch.zeros(3, 2, requires_grad=True), torch.zeros(3, 1, requires_grad=True)
    x, y = _LimitGradient.apply(1.0, a, b)
    slopes = torch.tensor([[3.0, 0.0, 4.0], [0.1, 0.2, 0.2], [torch.nan, 0.0, 1.0]])
    (torch.cat([x, y], dim=1) * slopes).sum().backward()
    given = torch.cat([a.grad, b.grad], dim=1)
    torch.testing.assert_close(given, torch.tensor([[0.6, 0.0, 0.8], [0.1, 0.2, 0.2], [0.0, 0.0, 0.0]]))
