"""Updates that are left out, Muon, and resuming."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from lab_rl.supermimic.networks import ResidualMLP
from lab_rl.supermimic.optimizer import GuardedOptimizer, orthogonalized


def make(muon: bool) -> tuple[ResidualMLP, GuardedOptimizer]:
    torch.manual_seed(1)
    network = ResidualMLP(3, (8, 8, 4), 1)
    torch.nn.init.normal_(network.last.weight)
    matrices = network.hidden_matrices() if muon else ()
    optimizer = GuardedOptimizer(
        network.parameters(), 1e-2, 1.0, weight_decay=1e-2, matrices=matrices, matrix_learning_rate=0.02
    )
    return network, optimizer


def update(network: ResidualMLP, optimizer: GuardedOptimizer, target: float = 1.0) -> float:
    inputs = torch.linspace(-1, 1, 30).reshape(10, 3)
    optimizer.zero_grad()
    loss = (network(inputs) - target * inputs.sum(-1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@pytest.mark.parametrize("muon", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted(muon):
    network, optimizer = make(muon)
    update(network, optimizer)
    before, state = copy.deepcopy(network.state_dict()), copy.deepcopy(optimizer.state_dict())
    for number in (1, 2):
        update(network, optimizer, target=math.inf)
        assert int(optimizer.skipped) == int(optimizer.skipped_in_a_row) == number
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    for name in ("adamw", "momenta"):
        stored = torch.utils._pytree.tree_leaves(optimizer.state_dict()[name])
        assert all(map(torch.equal, stored, torch.utils._pytree.tree_leaves(state[name])))
    update(network, optimizer)
    assert int(optimizer.skipped) == 2 and int(optimizer.skipped_in_a_row) == 0
    assert not torch.equal(network.last.weight, before["last.weight"])


@pytest.mark.parametrize("muon", [False, True])
def test_it_learns(muon):
    network, optimizer = make(muon)
    first = update(network, optimizer)
    last = [update(network, optimizer) for _ in range(100)][-1]
    assert last < 0.02 * first


def test_muon_moves_the_hidden_matrices_alone():
    network, optimizer = make(muon=True)
    before = copy.deepcopy(network)
    update(network, optimizer)
    moved = network.layers[1].weight - before.layers[1].weight
    gradient = network.layers[1].weight.grad  # the first momentum points the same way
    torch.testing.assert_close(moved.detach(), -0.02 * orthogonalized(gradient), rtol=1e-3, atol=1e-6)
    assert (network.layers[0].weight - before.layers[0].weight).abs().max() < 0.0102  # AdamW's first step


def test_orthogonalized_keeps_singular_vectors():
    torch.manual_seed(0)
    for shape in ((6, 4), (4, 6)):
        left, values, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
        result = orthogonalized(left @ torch.diag(values) @ right)
        inner = left.T @ result @ right.T
        assert (inner - torch.diag(inner.diagonal())).abs().max() < 1e-4
        assert inner.diagonal().min() > 0.6 and inner.diagonal().max() < 1.3


def test_a_gradient_is_limited_as_a_whole():
    network, optimizer = make(muon=False)
    update(network, optimizer, target=1e4)
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in network.parameters()])
    assert float(optimizer.grad_norm) > 100.0 and float(norm) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("muon", [False, True])
def test_resuming_is_exact(muon):
    network, optimizer = make(muon)
    for _ in range(5):
        update(network, optimizer)
    weights, state = copy.deepcopy(network.state_dict()), copy.deepcopy(optimizer.state_dict())
    again, resumed = make(muon)
    again.load_state_dict(weights)
    resumed.load_state_dict(state)
    for number in range(5):
        for each in (optimizer, resumed):
            each.learning_rate.fill_(1e-2 / (1 + number))
        update(network, optimizer)
        update(again, resumed)
    assert all(map(torch.equal, network.parameters(), again.parameters()))


def test_resuming_takes_the_learning_rate_that_is_configured_now():
    network, optimizer = make(muon=False)
    update(network, optimizer)
    edited = GuardedOptimizer(network.parameters(), 1e-4, 1.0, weight_decay=1e-3)
    edited.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert float(edited.learning_rate) == pytest.approx(1e-4)
    assert {group["weight_decay"] for group in edited._adamw.param_groups} == {1e-3}
