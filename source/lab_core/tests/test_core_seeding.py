"""Seeds, named random streams, and the explicit samplers."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core import sampling
from lab_core.errors import ConfigError
from lab_core.seeding import make_generator, rng_state, seed_everything, set_rng_state
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


@pytest.fixture(autouse=True)
def _restore_global_state(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    state = rng_state()
    deterministic, benchmark = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    yield
    set_rng_state(state)
    torch.set_deterministic_debug_mode(deterministic)
    torch.backends.cudnn.benchmark = benchmark


def _draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), torch.rand(()).item()


def test_one_seed_drives_every_global_generator():
    assert seed_everything(42) == 42
    first = _draw()
    seed_everything(42)
    assert _draw() == first
    seed_everything(43)
    assert all(a != b for a, b in zip(_draw(), first, strict=True))
    assert os.environ["PYTHONHASHSEED"] == "43"


@pytest.mark.parametrize("request_seed", [None, -1])
def test_a_drawn_seed_is_returned_and_repeats_the_run(request_seed):
    seed_everything(0)
    used = seed_everything(request_seed)
    first = _draw()
    assert seed_everything(used) == used
    assert _draw() == first
    assert seed_everything(request_seed) != used, "the drawn seed must not come from the seeded generators"


@pytest.mark.parametrize("seed", [-2, 2**32])
def test_seeds_out_of_range_are_refused(seed):
    with pytest.raises(ConfigError, match=str(seed)):
        seed_everything(seed)


PROGRAM = """
import hashlib, torch
from lab_core import mdp
from lab_core.managers import EventTermCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

def digest(seed: int, steps: int) -> str:
    \"\"\"Of the gains drawn at start-up and of all that the steps return.\"\"\"
    cfg = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.2)
    cfg.seed = seed
    gains = {"damping_distribution_params": (5.0, 15.0)}
    cfg.events["gains"] = EventTermCfg(func=mdp.randomize_actuator_gains, mode="startup", params=gains)
    env = cfg.build()
    values = [env.scene["robot"].data.joint_damping]
    for _ in range(steps):
        observations, *rest, extras = env.step(torch.randn(4, 1))
        values += [observations["policy"], *rest, *extras["log"].values()]
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in values)).hexdigest()
"""


def test_a_seed_repeats_the_run_in_another_process():
    """From the draws at start-up on, and whatever the order of sets, which another hash seed changes."""
    scope: dict[str, Any] = {}
    exec(PROGRAM, scope)
    other = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM}\nprint(digest(42, 50))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.strip() == scope["digest"](42, 50)
    assert scope["digest"](42, 0) != scope["digest"](43, 0)


def test_deterministic_switches_torch_over():
    torch.set_deterministic_debug_mode("default")
    seed_everything(1)
    assert not torch.are_deterministic_algorithms_enabled()
    seed_everything(1, deterministic=True)
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_deterministic_environment_asks_its_physics_too():
    for wanted in (False, True):
        cfg = analytic_cartpole_env_cfg(num_envs=1)
        cfg.deterministic = wanted
        assert cfg.build().physics.cfg.deterministic is wanted


def test_global_state_survives_a_file(tmp_path):
    seed_everything(5)
    _draw(), random.gauss(0, 1), np.random.randn()
    torch.save(rng_state(), tmp_path / "rng.pt")
    expected = (*_draw(), random.gauss(0, 1), np.random.randn())
    seed_everything(6)
    set_rng_state(torch.load(tmp_path / "rng.pt", weights_only=True))
    assert (*_draw(), random.gauss(0, 1), np.random.randn()) == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_state_of_a_gpu_run_is_refused_without_a_gpu():
    state = rng_state()
    before = _draw()
    set_rng_state(state)
    with pytest.raises(ValueError, match="GPU"):
        set_rng_state({**rng_state(), "torch": state["torch"], "cuda": torch.zeros(16, dtype=torch.uint8)})
    set_rng_state(state)
    assert _draw() == before


def test_streams_repeat_and_differ_by_name_and_seed():
    def draws(seed: int, stream: str) -> list[float]:
        return torch.rand(4, generator=make_generator(seed, stream=stream)).tolist()

    assert draws(1, "commands") == draws(1, "commands")
    assert len({tuple(draws(seed, stream)) for seed in range(20) for stream in ("", "commands", "noise")}) == 60


def test_samplers_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    generator = make_generator(0)
    sampling.uniform(0.0, 1.0, (3,), generator)
    sampling.log_uniform(0.1, 1.0, (3,), generator)
    sampling.gaussian(0.0, 1.0, (3,), generator)
    assert torch.equal(torch.get_rng_state(), before)


@settings(deadline=None)
@given(low=st.floats(-1e3, 1e3, width=32), width=st.floats(0.0, 1e3, width=32), seed=st.integers(0, 2**31))
def test_uniform_stays_in_its_range(low, width, seed):
    draws = sampling.uniform(low, low + width, (32,), make_generator(seed))
    tolerance = 1e-6 * (abs(low) + width)
    assert draws.dtype == torch.float32
    assert (draws >= low - tolerance).all() and (draws <= low + width + tolerance).all()


def test_uniform_and_gaussian_moments():
    generator = make_generator(0)
    values = sampling.uniform(-2.0, 4.0, (200_000,), generator)
    assert values.mean().item() == pytest.approx(1.0, abs=0.02)
    assert values.std().item() == pytest.approx(6.0 / math.sqrt(12.0), abs=0.02)
    values = sampling.gaussian(3.0, 0.5, (200_000,), generator)
    assert values.mean().item() == pytest.approx(3.0, abs=0.01)
    assert values.std().item() == pytest.approx(0.5, abs=0.01)


def test_log_uniform_is_uniform_in_the_logarithm():
    values = sampling.log_uniform(0.01, 100.0, (200_000,), make_generator(0))
    assert values.min() >= 0.01 and values.max() <= 100.0
    assert values.log10().mean().item() == pytest.approx(0.0, abs=0.02)
    assert values.log10().std().item() == pytest.approx(4.0 / math.sqrt(12.0), abs=0.02)


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 1234.5])
def test_empty_ranges_return_the_value_exactly(value):
    generator, exact = make_generator(0), torch.full((8,), value)
    assert torch.equal(sampling.uniform(value, value, (8,), generator), exact)
    assert torch.equal(sampling.log_uniform(value, value, (8,), generator), exact)
    assert torch.equal(sampling.gaussian(value, 0.0, (8,), generator), exact)


def test_bounds_may_differ_by_column():
    low, high = torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0])
    draws = sampling.uniform(low, high, (100, 2), make_generator(0))
    assert (draws >= low).all() and (draws <= high).all()
    draws = sampling.log_uniform(0.5, high, (100, 2), make_generator(0))
    assert (draws >= 0.5).all() and (draws <= high).all()


def test_wrong_ranges_are_refused():
    generator = make_generator(0)
    with pytest.raises(ValueError, match=r"\(2.0, 1.0\)"):
        sampling.uniform(2.0, 1.0, (1,), generator)
    with pytest.raises(ValueError, match="positive"):
        sampling.log_uniform(0.0, 1.0, (1,), generator)
    with pytest.raises(ValueError, match="-1.0"):
        sampling.gaussian(0.0, -1.0, (1,), generator)
