"""Random streams: seeding, independence, replay, resume.
Numbers in names are rows of docs/requirements.md."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
import warp as wp

from lab_warp import CaptureContext, CapturedStage, WarpRng
from lab_warp.testing import rng_model


@wp.kernel
def _draw(mask: wp.array[wp.bool], state: wp.array[wp.uint32], out: wp.array[wp.float32]):
    env = wp.tid()
    if mask[env]:
        rng = state[env]
        out[env] = wp.randf(rng)
        state[env] = rng


@wp.kernel
def _draw_each(state: wp.array[wp.uint32], u: wp.array[wp.uint32], i: wp.array[wp.int32], f: wp.array[wp.float32]):
    env = wp.tid()
    rng = state[env]
    u[env] = wp.randu(rng)
    i[env] = wp.randi(rng, -5, 12)
    f[env] = wp.randf(rng)
    state[env] = rng


class Term:
    """Draws one number in each masked environment."""

    def __init__(self, rng: WarpRng) -> None:
        self.rng = rng
        device = rng.state.device
        self.mask = wp.ones(rng.num_envs, dtype=wp.bool, device=device)
        self.out = wp.zeros(rng.num_envs, dtype=wp.float32, device=device)

    def launch(self) -> None:
        wp.launch(
            _draw, dim=self.rng.num_envs, inputs=[self.mask, self.rng.state], outputs=[self.out], device=self.out.device
        )

    def draw(self) -> np.ndarray:
        self.launch()
        return self.out.numpy().copy()


def test_2_1_one_state_is_shared_and_every_draw_advances_every_environment(device: str) -> None:
    rng = WarpRng(16, device, seed=1)
    terms = Term(rng), Term(rng)
    before = rng.state.numpy().copy()
    first, second = (term.draw() for term in terms)
    assert terms[0].rng.state.ptr == terms[1].rng.state.ptr
    assert (rng.state.numpy() != before).sum() == 16
    assert len(np.unique(np.concatenate([first, second]))) == 32


@pytest.mark.parametrize("enabled", [True, False])
def test_2_2_reseeding_is_in_place_and_repeats_the_rollout(device: str, enabled: bool) -> None:
    rng = WarpRng(8, device, seed=1)
    pointers = rng.state.ptr, rng.global_state.ptr
    term = Term(rng)
    stage = CapturedStage(term.launch, CaptureContext(device, enabled=enabled))
    rollouts = []
    for _ in range(2):
        rng.seed(7)
        rollout = []
        for _ in range(5):
            stage()
            rollout.append(term.out.numpy().copy())
        rollouts.append(np.stack(rollout))
    np.testing.assert_array_equal(*rollouts)
    assert len(np.unique(rollouts[0])) == 40
    assert (rng.state.ptr, rng.global_state.ptr) == pointers
    assert stage.num_graphs == int(enabled)


def test_2_3_without_a_seed_torch_decides() -> None:
    torch.manual_seed(2**31 + 5)
    expected = rng_model.rand_init(5, np.arange(4))
    np.testing.assert_array_equal(WarpRng(4, "cpu").state.numpy(), expected)


@pytest.mark.slow
def test_2_3_processes_differ_without_a_seed() -> None:
    code = "import warp; warp.config.quiet = True; from lab_warp import WarpRng; print(WarpRng(2, 'cpu').state.list())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout.splitlines()[-1] != runs[1].stdout.splitlines()[-1]


@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1, 2**31 + 3, -1])
def test_2_4_states_and_draws_equal_the_host_model(device: str, seed: int) -> None:
    n = 1000
    rng = WarpRng(n, device, seed=seed)
    state = rng_model.rand_init(seed % 2**31, np.arange(n))
    np.testing.assert_array_equal(rng.state.numpy(), state)
    outputs = [wp.zeros(n, dtype=dtype, device=device) for dtype in (wp.uint32, wp.int32, wp.float32)]
    for _ in range(3):
        wp.launch(_draw_each, dim=n, inputs=[rng.state], outputs=outputs, device=device)
        u, state = rng_model.randu(state)
        i, state = rng_model.randi(state, -5, 12)
        f, state = rng_model.randf(state)
        for output, expected in zip(outputs, (u, i, f), strict=True):
            np.testing.assert_array_equal(output.numpy(), expected)
    np.testing.assert_array_equal(rng.state.numpy(), state)
    assert 0.0 <= f.min() and f.max() < 1.0
    assert (i.min(), i.max()) == (-5, 11)


def test_2_5_masked_out_environments_keep_their_state(device: str) -> None:
    rng = WarpRng(6, device, seed=3)
    term = Term(rng)
    selected = np.array([True, False, True, False, False, True])
    term.mask.assign(selected)
    before = rng.state.numpy().copy()
    term.draw()
    np.testing.assert_array_equal(rng.state.numpy() == before, ~selected)


def test_2_5_streams_do_not_depend_on_the_number_of_environments(device: str) -> None:
    small, large = (Term(WarpRng(n, device, seed=3)) for n in (4, 16))
    for _ in range(3):
        np.testing.assert_array_equal(small.draw(), large.draw()[:4])
    np.testing.assert_array_equal(*(WarpRng(n, device, seed=3).global_state.numpy() for n in (4, 16)))


def test_2_6_replays_draw_new_numbers_equal_to_the_eager_ones(device: str) -> None:
    rollouts = []
    for enabled in (True, False):
        term = Term(WarpRng(5, device, seed=9))
        stage = CapturedStage(term.launch, CaptureContext(device, enabled=enabled))
        rollout = []
        for _ in range(16):
            stage()
            rollout.append(term.out.numpy().copy())
        rollouts.append(np.stack(rollout))
    np.testing.assert_array_equal(*rollouts)
    assert len(np.unique(rollouts[0])) == 80


def test_2_8_global_draws_have_their_own_stream_and_are_reseeded(device: str) -> None:
    rng = WarpRng(1, device, seed=4)
    start = rng.global_state.numpy().copy()
    assert start != rng.state.numpy()
    rng.global_state.fill_(0)
    rng.seed(4)
    np.testing.assert_array_equal(rng.global_state.numpy(), start)
    rng.seed(5)
    assert rng.global_state.numpy() != start


def test_resume_goes_on_where_it_was(device: str) -> None:
    rng = WarpRng(5, device, seed=1)
    term = Term(rng)
    term.draw()
    saved = rng.state_dict()
    expected = [term.draw() for _ in range(3)]
    other = WarpRng(5, device, seed=2)
    pointer = other.state.ptr
    other.load_state_dict(saved)
    resumed = Term(other)
    np.testing.assert_array_equal([resumed.draw() for _ in range(3)], expected)
    assert other.state.ptr == pointer
    for name, value in saved.items():
        assert value.dtype == torch.int64 and value.device.type == "cpu", name
    np.testing.assert_array_equal(other.global_state.numpy(), rng.global_state.numpy())


def test_resume_with_another_number_of_environments_raises() -> None:
    with pytest.raises(ValueError, match="has 4 environments.*has 5"):
        WarpRng(4, "cpu", seed=0).load_state_dict(WarpRng(5, "cpu", seed=0).state_dict())


def test_two_environments_have_their_own_streams(device: str) -> None:
    first, second = Term(WarpRng(3, device, seed=1)), Term(WarpRng(3, device, seed=1))
    expected = [second.draw() for _ in range(2)]
    np.testing.assert_array_equal([first.draw() for _ in range(2)], expected)
