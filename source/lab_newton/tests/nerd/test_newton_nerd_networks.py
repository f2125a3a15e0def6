"""Networks: causal, blind to the order of contacts, right in half precision, and the same when compiled."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from lab_core.errors import ConfigError
from lab_newton.nerd import NETWORKS, Contacts, History, NeRDModel, Network
from lab_newton.nerd.networks import attention, contacts

CHANNELS = 13
OPTIONS = {
    "MLP": {"hidden": [16]},
    "VectorNeRD": {"context": 5, "size": 24, "depth": 2, "heads": 3},
    "ParallelNeRD": {"context": 5, "size": 24, "depth": 2, "body_depth": 1, "heads": 3},
}
INPUT_OWNERS = (0, 0, 0, 1, 1, 2, 2, 2, 3)
OUTPUT_OWNERS = (0, 0, 0, 0, 0, 0, 1, 2, 3)


def make(name: str, touches: bool = False, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    options = OPTIONS[name] | ({"contact_channels": CHANNELS} if touches else {})
    network = NETWORKS[name](INPUT_OWNERS, OUTPUT_OWNERS, **json.loads(json.dumps(options)))
    # As if it were trained: at first what it says hardly depends on what it sees.
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return network.eval()


def draw_frames(batch: int, length: int) -> torch.Tensor:
    return torch.randn(batch, length, len(INPUT_OWNERS), generator=torch.Generator().manual_seed(1))


def draw_contacts(batch: int, length: int, places: int = 12) -> Contacts:
    generator = torch.Generator().manual_seed(2)
    return Contacts(
        geometry=torch.randn(batch, length, places, CHANNELS, generator=generator),
        owner=torch.randint(0, 3, (batch, length, places), generator=generator),  # body 3 touches nothing
        valid=torch.rand(batch, length, places, generator=generator) < 0.6,
    )


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("touches", [False, True])
def test_shapes_and_gradients(name, touches):
    network = make(name, touches)
    frames = draw_frames(2, network.context).requires_grad_(True)
    outputs = network(frames, draw_contacts(2, network.context) if touches else None)
    assert outputs.shape == (2, network.context, len(OUTPUT_OWNERS))
    outputs.square().sum().backward()
    assert frames.grad.any()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


@pytest.mark.parametrize("name", ["VectorNeRD", "ParallelNeRD"])
def test_what_it_says_of_a_frame_depends_on_no_later_one(name):
    network = make(name)
    frames = draw_frames(2, 5)
    whole = network(frames)
    for length in range(1, 5):
        part = network(frames[:, :length])
        torch.testing.assert_close(part, whole[:, :length], rtol=0.0, atol=1e-5)
    changed = frames.clone()
    changed[:, 0] += 1.0
    assert (network(changed)[:, -1] - whole[:, -1]).abs().max() > 1e-3  # it looks back


@pytest.mark.parametrize("name", ["VectorNeRD", "ParallelNeRD"])
def test_windows_of_different_lengths_share_a_batch(name):
    network = make(name)
    frames = draw_frames(3, 5)
    length = torch.tensor([2, 5, 1])
    dirty = frames.clone()
    dirty[0, 2:] = float("nan")
    dirty[2, 1:] = float("inf")
    outputs = network(dirty, length=length)
    for row, count in enumerate(length.tolist()):
        alone = network(frames[row : row + 1, :count])[0, -1]
        torch.testing.assert_close(outputs[row, count - 1], alone, rtol=0.0, atol=1e-5)


def test_a_body_of_its_own_sees_what_is_its_own_and_the_root():
    """Without blocks among the bodies, channels of another joint do not matter."""
    network = make("ParallelNeRD")
    network.body_blocks = nn.Identity()
    frames = draw_frames(1, 3)
    changed = frames.clone()
    changed[..., 3] += 1.0  # of body 1
    moved = (network(changed) - network(frames)).abs().amax(dim=(0, 1)) > 1e-6
    assert moved.tolist() == [owner == 1 for owner in OUTPUT_OWNERS]
    changed = frames.clone()
    changed[..., 0] += 1.0  # of the root
    assert ((network(changed) - network(frames)).abs().amax(dim=(0, 1)) > 1e-6).all()


@pytest.mark.parametrize("name", OPTIONS)
def test_the_order_of_contacts_and_what_lies_in_empty_places_do_not_matter(name):
    network = make(name, touches=True)
    frames, touch = draw_frames(2, network.context), draw_contacts(2, network.context)
    expected = network(frames, touch)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    shuffled = Contacts(touch.geometry[:, :, order], touch.owner[:, :, order], touch.valid[:, :, order])
    torch.testing.assert_close(network(frames, shuffled), expected, rtol=0.0, atol=1e-5)
    garbage = torch.where(touch.valid[..., None], touch.geometry, float("nan"))
    assert torch.equal(network(frames, touch._replace(geometry=garbage)), expected)
    longer = Contacts(*(torch.cat((value, torch.zeros_like(value)), dim=2) for value in touch))
    torch.testing.assert_close(network(frames, longer), expected, rtol=0.0, atol=1e-5)
    removed = touch.valid.clone()
    removed[:, :, 0] = False
    assert (network(frames, touch._replace(valid=removed)) - expected).abs().max() > 1e-4


def test_contacts_are_counted_per_body_and_a_body_without_has_zeros():
    network = make("VectorNeRD", touches=True)
    touch = draw_contacts(2, 3)
    codes = network.contact_encoder(touch)
    assert codes.shape == (2, 3, 4, 16) and not codes[:, :, 3].any()
    twice = Contacts(*(torch.cat((value, value), dim=2) for value in touch))
    assert (network.contact_encoder(twice) - codes).abs().max() > 1e-3  # the mean is the same, the number is not


def test_a_network_that_looks_at_contacts_asks_for_them():
    with pytest.raises(ValueError, match="looks at contacts, and was given none"):
        make("VectorNeRD", touches=True)(draw_frames(1, 2))


def test_numbers_of_contacts_are_scaled_where_there_is_one(rover_layout, make_state):
    torch.manual_seed(0)
    model = NeRDModel(rover_layout, "VectorNeRD", OPTIONS["VectorNeRD"] | {"contact_channels": CHANNELS})
    touch = draw_contacts(2, 5)
    model.contacts.fit(5.0 + 3.0 * touch.geometry[touch.valid])
    scaled = model._scaled(touch)
    assert scaled.owner is touch.owner and scaled.valid is touch.valid
    assert not scaled.geometry[~touch.valid].any()
    torch.testing.assert_close(scaled.geometry[touch.valid], model.contacts(touch.geometry[touch.valid]))
    assert "contacts.std" in model.state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPTIONS)
def test_half_precision_is_close(name, dtype):
    network = make(name, touches=True)
    frames, touch = draw_frames(4, network.context), draw_contacts(4, network.context)
    expected = network(frames, touch)
    with torch.autocast("cpu", dtype):
        found = network(frames, touch).float()
    assert (found - expected).square().mean() < 0.02 * expected.square().mean()


@pytest.mark.parametrize("protected", [True, False])
def test_sums_over_contacts_need_single_precision(protected, monkeypatch):
    """Each of 64 contacts has a code of 2,000: FP16 ends at 65,504. Without the protection the sum is infinite."""
    encoder = contacts.ContactEncoder(2, CHANNELS).eval()
    with torch.no_grad():
        encoder.encode[-1].bias.fill_(2000.0)
    if not protected:
        monkeypatch.setattr(contacts, "full_precision", lambda tensor: nullcontext())
        monkeypatch.setattr(contacts, "_sum_dtype", lambda codes: codes.dtype)
    touch = Contacts(
        torch.zeros(1, 1, 64, CHANNELS), torch.zeros(1, 1, 64, dtype=torch.int64), torch.ones(1, 1, 64) > 0
    )
    with torch.autocast("cpu", torch.float16):
        assert torch.isfinite(encoder(touch)).all() == protected


def test_norms_are_taken_in_single_precision():
    """Numbers of 300 have squares beyond FP16."""
    tokens = torch.full((1, 2, 8), 300.0, dtype=torch.float16)
    tokens[..., ::2] = -300.0
    with torch.autocast("cpu", torch.float16):
        found = attention.Norm(8)(tokens)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.abs(), torch.ones(1, 2, 8))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MLP", "ParallelNeRD"])
def test_compiled_is_like_eager(name, rover_layout, make_model, make_state):
    model = make_model(rover_layout, name, **OPTIONS[name])
    state = make_state(rover_layout, 4)
    eager, compiled = model.make_history(4), model.make_history(4)
    step = torch.compile(lambda *state: model.step(compiled, *state), dynamic=False)
    with torch.no_grad():
        for _ in range(7):
            expected, found = model.step(eager, *state), step(*state)
            for one, two in zip(expected, found, strict=True):
                torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-5)
            state = (*expected, state[2])


def test_a_ring_holds_what_a_list_would_hold():
    history, lists = History(3, 4, 2, "cpu"), [[], [], []]
    generator = torch.Generator().manual_seed(0)
    for step in range(40):
        cleared = torch.rand(3, generator=generator) < 0.15
        history.clear(cleared)
        tokens = torch.randn(3, 2, generator=generator)
        history.push(tokens)
        window = history.window()
        for world in range(3):
            lists[world] = ([] if cleared[world] else lists[world])[-3:] + [tokens[world]]
            count = len(lists[world])
            assert history.length[world] == count, step
            assert torch.equal(window[world, :count], torch.stack(lists[world]))
            assert not window[world, count:].any()


def test_heads_that_do_not_divide_are_refused(rover_layout):
    with pytest.raises(ConfigError, match="5 heads do not divide a token of 24 numbers"):
        NeRDModel(rover_layout, "VectorNeRD", {"size": 24, "heads": 5})
