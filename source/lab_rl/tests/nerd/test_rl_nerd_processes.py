"""Several processes that fit one model make the updates of one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_rl.nerd.checkpoint import load_checkpoint
from lab_rl.nerd.trainer import Trainer, prepare_model
from lab_rl.nerd.windows import WindowSampler
from lab_rl.processes import Processes, joined_processes, own_device

WORKER = Path(__file__).with_name("fit_in_processes.py")
BATCH = 33  # one process takes 17 windows, the other one 16


@given(total=st.integers(0, 10_000), world_size=st.integers(1, 16))
def test_shares_add_up(total, world_size):
    shares = [Processes(rank, world_size).share(total) for rank in range(world_size)]
    assert sum(shares) == total and max(shares) - min(shares) <= 1


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined_processes(torch.device("cpu")) as processes:
        value = torch.tensor([1.0])
        processes.sum_([value])
        assert processes.is_first and processes.gather("a") == ["a"] and value == 1.0
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("rank", "given", "own"), [("3", "cuda:0", "cuda:3"), (None, "cuda:1", "cuda:1"), ("3", "cpu", "cpu")]
)
def test_each_process_has_a_gpu_of_its_own(monkeypatch, rank, given, own):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert own_device(torch.device(given)) == torch.device(own)


class Drawn:
    """Draws what the samplers of all processes would draw together."""

    def __init__(self, samplers: list[WindowSampler]) -> None:
        self._samplers = samplers

    def draw(self, count: int) -> torch.Tensor:
        processes = [Processes(rank, len(self._samplers)) for rank in range(len(self._samplers))]
        shares = zip(self._samplers, processes, strict=True)
        return torch.cat([sampler.draw(process.share(count)) for sampler, process in shares])


@pytest.fixture(scope="module")
def inputs(make_cfg, make_fit_data, make_steps):
    return make_cfg(batch_size=BATCH, horizon=2), make_fit_data(make_steps((20, 11) * 8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, inputs):
    """Where two processes have left what they came to."""
    folder = tmp_path_factory.mktemp("processes")
    cfg, data = inputs
    for name in ("run", "again"):
        (folder / name / "checkpoints").mkdir(parents=True)
    torch.save(
        {
            "cfg": dataclasses.asdict(cfg),
            "layout": data.teacher.layout.to_dict(),
            "train": vars(data.train),
            "held_out": vars(data.held_out),
        },
        folder / "inputs.pt",
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}  # whatever the host is called
    done = subprocess.run(
        [*command, str(WORKER), str(folder)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def outputs(folder):
    return [torch.load(folder / f"outputs-{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
def test_two_processes_equal_one_with_the_combined_batch(inputs, outputs, make_model):
    cfg, data = inputs
    steps, model = data.train, make_model()
    trainer = Trainer(cfg, model, prepare_model(model, steps), steps)
    trainer.sampler = Drawn([WindowSampler(steps, cfg.horizon, cfg.seed + 1 + rank) for rank in range(2)])
    losses = [trainer.update() for _ in outputs[0]["train"]["losses"]]
    for found in (output["train"] for output in outputs):
        torch.testing.assert_close(found["losses"], losses, rtol=1e-6, atol=1e-6)
        for name in ("model", "averaged"):
            expected = trainer.state_dict()[name]
            torch.testing.assert_close(dict(found[name]), dict(expected), rtol=0.0, atol=1e-6)


@pytest.mark.slow
def test_processes_have_one_model_and_streams_of_their_own(outputs, assert_same):
    for part in ("whole", "resumed"):
        first, second = (output[part] for output in outputs)
        assert_same(first["trainer"], second["trainer"])
        assert not torch.equal(first["sampler"]["generator"], second["sampler"]["generator"])
        assert first["episodes"] == second["episodes"] == 6  # of 12
        assert first["update"] == second["update"] == 12 and not first["interrupted"]
    assert [output["gathered"] for output in outputs] == [["from 0", "from 1"]] * 2


@pytest.mark.slow
def test_each_process_goes_on_with_its_own_stream(folder, outputs, assert_same):
    for rank, output in enumerate(outputs):
        assert_same(output["resumed"], output["whole"])
        for run in ("run", "again"):
            stored = load_checkpoint(folder / run / "checkpoints" / "12.pt")
            assert_same(stored.samplers[rank], output["whole"]["sampler"])
    assert len(load_checkpoint(folder / "run" / "checkpoints" / "6.pt").samplers) == 2
