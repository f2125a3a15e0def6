"""Recorded files: their layout, their origin, and what happens to files that are there already."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from lab_core.config import load_yaml
from lab_core.datasets import DatasetCfg, Episode, EpisodeInfo, RecordedDataset
from lab_core.datasets.index import find_shards, shard_path
from lab_core.datasets.provenance import Provenance, physics_attributes, physics_differences
from lab_core.datasets.shard import Shard
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import ConfigError
from lab_core.managers import TerminationTermCfg
from lab_core.recorder import (
    EpisodeBatch,
    EpisodeCollector,
    RecorderCfg,
    RecorderError,
    RecorderManager,
    RecorderTermCfg,
    RetentionCfg,
)
from lab_core.recorder.monitor import CopyEvent
from lab_core.recorder.presets import action_state_terms, transition_terms
from lab_core.recorder.rows import RowLayout
from lab_core.recorder.sinks import PackedRows
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def make(
    folder: Path, steps: int = 5, num_envs: int = 2, terms=None, seed: int = 42, device: str = "cpu", **dataset
) -> ManagerBasedRLEnv:
    """An environment whose episodes of ``steps`` steps are written to ``folder``."""
    cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s=steps / 60)
    cfg.terminations["cart_out_of_bounds"] = None
    cfg.seed = seed
    cfg.recorder = RecorderCfg(
        terms=action_state_terms() if terms is None else terms,
        dataset=DatasetCfg(folder=folder, env_name="Stub-Cartpole", **dataset),
    )
    return cfg.build(device)


def run(env, steps: int) -> None:
    for step in range(steps):
        env.step(torch.full((env.num_envs, 1), 0.1 * step, device=env.device))


def record(folder: Path, steps: int = 12, **changes) -> None:
    """Records two environments for so many steps; their episodes have five."""
    env = make(folder, **changes)
    run(env, steps)
    env.close()


def test_layout(tmp_path):
    """Groups, types, shapes and attributes of a file, as Isaac Lab and robomimic know them, and ours beside them."""
    record(tmp_path, label="sway", terms=action_state_terms())
    with h5py.File(tmp_path / "dataset-00000.hdf5") as file:
        found = {}
        file.visititems(
            lambda name, item: found.update({name: (item.dtype.str, item.shape)}) if hasattr(item, "shape") else None
        )
        expected = {"lab/config": ("|O", ()), "lab/episodes": ("|O", ())}
        lengths = {"demo_0": 5, "demo_1": 5, "demo_2": 5, "demo_3": 5, "demo_4": 2, "demo_5": 2}
        state = {"root_pose": 7, "root_velocity": 6, "joint_position": 2, "joint_velocity": 2}
        for name, length in lengths.items():
            expected |= {
                f"data/{name}/obs": ("<f4", (length, 4)),
                f"data/{name}/actions": ("<f4", (length, 1)),
                f"data/{name}/processed_actions": ("<f4", (length, 1)),
            }
            for key, width in state.items():
                expected[f"data/{name}/initial_state/articulation/robot/{key}"] = ("<f4", (1, width))
                expected[f"data/{name}/states/articulation/robot/{key}"] = ("<f4", (length, width))
        assert found == expected
        assert dict(file.attrs) == {"format_version": 1, "lab_version": 1}
        assert set(file["data"].attrs) == {
            *("total", "env_args", "quaternion", "names", "step_dt", "physics_dt", "decimation", "physics"),
            *("physics_fingerprint", "config_hash", "versions", "git", "command", "initial_keys"),
        }
        assert {name: value.item() if hasattr(value, "item") else value for name, value in
                file["data/demo_4"].attrs.items()} == {
            "num_samples": 2, "success": False, "seed": 42, "env_id": 0, "episode_index": 2, "start_step": 10,
            "length": 2, "dropped_steps": 0, "terminated": False, "truncated": False, "complete": False,
            "non_finite": False, "label": "sway",
        }  # fmt: skip
        assert file["data/demo_0"].attrs["truncated"] and file["data/demo_0"].attrs["success"].dtype == bool


def test_what_robomimic_does_with_a_file_works(tmp_path):
    record(tmp_path, terms=transition_terms())
    with h5py.File(tmp_path / "dataset-00000.hdf5", "r") as f:
        demos = sorted(f["data"].keys(), key=lambda name: int(name[5:]))
        assert f["data"].attrs["total"] == sum(f["data"][demo].attrs["num_samples"] for demo in demos)
        env_args = json.loads(f["data"].attrs["env_args"])
        assert (env_args["env_name"], env_args["type"], env_args["env_kwargs"]) == ("Stub-Cartpole", 2, {})
        assert env_args["sim_args"]["decimation"] == 2
        for demo in demos:
            for key in ("actions", "rewards", "dones", "obs"):
                assert len(f[f"data/{demo}/{key}"][:]) == f["data"][demo].attrs["num_samples"]
        assert (1 - f["data/demo_0/dones"][:]).tolist() == [1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=pytest.mark.gpu,
        ),
    ],
)
def test_read_values_are_those_that_were_recorded(tmp_path, device):
    env = make(tmp_path, terms=transition_terms(), device=device)
    collector = EpisodeCollector()
    env.recorder_manager.retention.sinks.append(collector)
    run(env, 23)
    env.close()
    dataset = RecordedDataset(tmp_path)
    assert len(dataset) == len(collector.episodes) == 10
    for stored, live in zip(dataset, collector.episodes, strict=True):
        assert stored.info == live.info
        for found, expected in ((stored.steps, live.steps), (stored.initial, live.initial)):
            assert found.keys() == expected.keys()
            assert all(torch.equal(found[key], expected[key].cpu()) for key in expected)
            assert all(found[key].dtype == expected[key].dtype for key in expected)


def test_a_file_tells_where_it_comes_from(tmp_path):
    record(tmp_path)
    dataset = RecordedDataset(tmp_path)
    cfg = load_yaml(dataset.config)
    assert cfg.recorder is None and cfg.scene.num_envs == 2 and cfg.decimation == 2
    assert dataset.entity_names("robot", "joint_names") == ["slider_to_cart", "cart_to_pole"]
    assert dataset.entity_names("robot", "body_names") == ["slider", "cart", "pole"]
    versions = json.loads(dataset.attributes["versions"])
    assert {"lab_core", "torch", "h5py", "hdf5", "numpy", "python"} <= versions.keys()
    assert dataset.attributes["quaternion"] == "xyzw"
    assert dataset.attributes["step_dt"] == pytest.approx(1 / 60)


def test_the_fingerprint_names_what_differs_in_the_physics_and_nothing_else():
    def attributes(change: str = "") -> dict:
        cfg = analytic_cartpole_env_cfg(2)
        exec(change, {"cfg": cfg})
        return physics_attributes(cfg.build())

    plain = attributes()
    actuators = "cfg.scene.entities['robot'].actuators['cart']"
    for change, field in (
        ("cfg.physics.dt = 1 / 100", "timing.dt: 0.01, was 0.008333333333333333"),
        ("cfg.physics.gravity = (0.0, 0.0, -1.6)", "forces.gravity: [0.0, 0.0, -1.6], was [0.0, 0.0, -9.81]"),
        ("cfg.decimation = 3", "decimation: 3, was 2"),
        (f"{actuators}.damping = 11.0", "actuators.robot.slider_to_cart.damping: 11.0, was 10.0"),
        (f"{actuators}.effort_limit = 300.0", "actuators.robot.slider_to_cart.effort_limit: 300.0, was 400.0"),
        ("cfg.scene.ground.friction = 0.5", "materials.ground: 0.5, was 1.0"),
    ):
        found = physics_differences(attributes(change), plain)
        assert found[-1] == field
        assert all("dt" in other for other in found[:-1]), found
    for change in (
        "cfg.scene.num_envs = 3",
        "cfg.seed = 7",
        "cfg.episode_length_s = 1.0",
        "cfg.rewards.clear()",
        "cfg.scene.entities['robot'].asset = 'elsewhere.xml'",
    ):
        assert physics_differences(attributes(change), plain) == [], change


def test_a_configuration_larger_than_an_attribute_may_be_is_stored(tmp_path):
    cfg = analytic_cartpole_env_cfg(2)
    cfg.scene.entities["robot"].asset = 100_000 * "x"
    env = cfg.build()
    settings = RecorderCfg(terms=action_state_terms(), dataset=DatasetCfg(folder=tmp_path))
    env.set_recorder(RecorderManager(settings, env))
    run(env, 1)
    env.close()
    config = RecordedDataset(tmp_path).config
    assert load_yaml(config).scene.entities["robot"].asset == 100_000 * "x"


def test_a_configuration_that_has_no_text_form_is_left_out_with_a_notice(tmp_path, capsys):
    cfg = analytic_cartpole_env_cfg(2)
    cfg.rewards["alive"].func = lambda env: torch.ones(2)
    cfg.recorder = RecorderCfg(terms=action_state_terms(), dataset=DatasetCfg(folder=tmp_path))
    env = cfg.build()
    run(env, 1)
    env.close()
    assert "the files will lack the configuration: rewards.alive.func" in capsys.readouterr().err
    assert RecordedDataset(tmp_path).config == ""


def test_episodes_are_read_in_the_order_of_writing(tmp_path):
    terms: dict = {"x": RecorderTermCfg(func=lambda env: env.episode_length_buf + 0, phase="post_step")}
    env = make(tmp_path, steps=1, num_envs=40, terms=terms, shard_megabytes=0.0004)
    run(env, 30)
    env.close()
    dataset = RecordedDataset(tmp_path)
    assert len(dataset) == 1200 and len(dataset.files) > 10
    assert dataset.names == [f"demo_{index}" for index in range(1200)]
    assert [info.start_step for info in dataset.infos] == [index // 40 for index in range(1200)]
    with h5py.File(dataset.files[3][0]) as file:  # also for a reader that takes the order of the file
        assert [*file["data"]] == sorted(file["data"], key=lambda name: int(name[5:]))


class TestModes:
    def record(self, folder: Path, mode: str) -> ManagerBasedRLEnv:
        cfg = analytic_cartpole_env_cfg(4, episode_length_s=3 / 60)
        cfg.terminations["success"] = TerminationTermCfg(func=first_environment_at_the_end)
        cfg.recorder = RecorderCfg(terms=action_state_terms(), dataset=DatasetCfg(folder=folder, mode=mode))  # pyright: ignore[reportArgumentType]
        env = cfg.build()
        run(env, 7)
        self.counts = env.recorder_manager.counts
        env.close()
        return env

    @pytest.mark.parametrize(("mode", "exported"), [("all", 8), ("successful", 2), ("separate", 8)])
    def test_counts_add_up(self, tmp_path, mode, exported):
        self.record(tmp_path, mode)
        counts = self.counts
        assert (counts.ended, counts.successful, counts.failed, counts.running) == (8, 2, 6, 4)
        assert (counts.exported, counts.filtered) == (exported, 8 - exported)

    def test_only_successful_episodes_with_their_own_numbers(self, tmp_path):
        self.record(tmp_path, "successful")
        infos = RecordedDataset(tmp_path).infos
        assert [(info.env_id, info.episode_index, info.success) for info in infos] == [(0, 0, True), (0, 1, True)]

    def test_failed_episodes_in_files_of_their_own(self, tmp_path):
        self.record(tmp_path, "separate")
        assert len(RecordedDataset(tmp_path, "dataset")) == 2
        assert len(RecordedDataset(tmp_path, "dataset_failed")) == 6 + 4

    def test_an_unknown_mode(self, tmp_path):
        with pytest.raises(ConfigError, match=r"dataset.mode: got 'none' \(str\), expected Literal\['all', "):
            self.record(tmp_path, "none")


def first_environment_at_the_end(env) -> torch.Tensor:
    return (torch.arange(env.num_envs) == 0) & (env.episode_length_buf == env.max_episode_length)


class TestExistingFiles:
    def test_a_recording_is_not_overwritten_by_accident(self, tmp_path):
        record(tmp_path)
        before = (tmp_path / "dataset-00000.hdf5").read_bytes()
        with pytest.raises(RecorderError, match=r"already holds a recording 'dataset' \(1 files\); choose another"):
            make(tmp_path)
        assert (tmp_path / "dataset-00000.hdf5").read_bytes() == before
        record(tmp_path, name="other")
        assert len(RecordedDataset(tmp_path, "dataset")) == 6

    def test_overwriting_leaves_nothing_of_the_old_recording(self, tmp_path):
        record(tmp_path, steps=12, shard_megabytes=0.0001)
        assert len(list(tmp_path.glob("*.hdf5"))) == 6
        record(tmp_path, existing="overwrite")
        assert len(RecordedDataset(tmp_path)) == 6 and len(list(tmp_path.glob("*.hdf5"))) == 1

    def test_resuming_goes_on_counting(self, tmp_path):
        record(tmp_path)
        record(tmp_path, existing="resume", seed=43)
        dataset = RecordedDataset(tmp_path)
        assert dataset.names == [f"demo_{index}" for index in range(12)]
        assert [info.seed for info in dataset.infos] == [42] * 6 + [43] * 6
        assert [path.name for path, _ in dataset.files] == ["dataset-00000.hdf5", "dataset-00001.hdf5"]
        assert not dataset.notices

    def test_other_physics_cannot_be_resumed(self, tmp_path):
        record(tmp_path)
        cfg = analytic_cartpole_env_cfg(2)
        cfg.decimation = 3
        dataset = DatasetCfg(folder=tmp_path, existing="resume")
        cfg.recorder = RecorderCfg(terms=action_state_terms(), dataset=dataset)
        with pytest.raises(RecorderError, match="cannot be resumed, the robot.*\n.*\n  decimation: 3, was 2"):
            cfg.build()

    def test_a_recording_without_episodes_leaves_no_file(self, tmp_path):
        record(tmp_path, steps=0)
        assert not list(tmp_path.iterdir())
        record(tmp_path)

    def test_a_recorder_that_is_refused_leaves_no_file(self, tmp_path):
        cfg = analytic_cartpole_env_cfg(2)
        retention = RetentionCfg(memory_limit_gib=1e-7)
        dataset = DatasetCfg(folder=tmp_path / "out")
        cfg.recorder = RecorderCfg(terms=action_state_terms(), retention=retention, dataset=dataset)
        with pytest.raises(RecorderError, match="would keep"):
            cfg.build()
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(RecorderError, match="cannot record into .*file/below"):
            make(tmp_path / "file" / "below")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"existing": "replace"}, r"dataset.existing: got 'replace' \(str\), expected Literal\['refuse', "),
            ({"compression": 12}, "dataset.compression: got 12, expected int in 0 .. 9"),
            ({"name": "a/b"}, "name must be a file name, got 'a/b'"),
            ({"shard_megabytes": -1.0}, "dataset.shard_megabytes: got -1.0, expected finite float at least 0"),
            ({"shard_seconds": float("nan")}, "dataset.shard_seconds: got nan, expected finite float"),
        ],
    )
    def test_impossible_settings(self, tmp_path, changes, message):
        with pytest.raises(ConfigError, match=message):
            make(tmp_path, **changes)


class TestStorage:
    def test_plain_arrays_can_be_mapped_into_memory(self, tmp_path):
        record(tmp_path)
        dataset = RecordedDataset(tmp_path)
        mapped = dataset.array(1, "obs", mapped=True)
        assert isinstance(mapped, np.memmap) and np.array_equal(mapped, dataset.array(1, "obs"))

    def test_compressed_files_hold_the_same(self, tmp_path):
        for level in (0, 4):
            env = make(tmp_path / str(level), steps=60, compression=level)
            run(env, 60)
            env.close()
        plain, packed = (RecordedDataset(tmp_path / str(level)) for level in (0, 4))
        for a, b in zip(plain, packed, strict=True):
            assert all(torch.equal(a.steps[key], b.steps[key]) for key in a.steps)
        assert isinstance(packed.array(0, "obs", mapped=True), np.ndarray)

    @pytest.mark.parametrize("compression", [0, 4])
    @pytest.mark.parametrize(
        ("dtype", "numbers"),
        [
            (torch.bool, [True, False]),
            (torch.uint8, [0, 255]),
            (torch.int8, [-128, 127]),
            (torch.int16, [-(2**15), 2**15 - 1]),
            (torch.int32, [-(2**31), 2**31 - 1]),
            (torch.int64, [-(2**63), 2**63 - 1]),
            (torch.float16, [65504.0, -6.0e-8]),
            (torch.bfloat16, [1e30, -1e-30]),
            (torch.float32, [3.4e38, -1e-45]),
            (torch.float64, [1e300, 1.0 + 2**-52]),
        ],
    )
    def test_every_type_comes_back_with_its_range_and_precision(self, tmp_path, dtype, numbers, compression):
        values = torch.tensor([numbers, numbers[::-1]], dtype=dtype)
        info = EpisodeInfo(env_id=0, episode_index=0, start_step=0, length=2)
        shard = Shard(Provenance({}, ""), compression)
        shard.add(0, Episode(info, {"step/value": values}, {"first": values[0]}))
        shard.save(tmp_path / "all.hdf5")
        episode = RecordedDataset(tmp_path / "all.hdf5").load(0)
        stored = torch.float32 if dtype == torch.bfloat16 else dtype  # NumPy has no bfloat16, float32 holds all of it
        assert episode.steps["step/value"].dtype == stored
        assert torch.equal(episode.steps["step/value"], values.to(stored))
        assert torch.equal(episode.initial["first"], values[0].to(stored))

    def test_values_are_written_when_their_copy_is_complete(self, tmp_path, monkeypatch):
        """As from a GPU: the rows on the host hold nothing until then."""

        def late(batch: EpisodeBatch):
            steps = [PackedRows(rows.layout, torch.zeros_like(rows.rows)) for rows in batch.steps]
            initial = PackedRows(batch.initial.layout, torch.zeros_like(batch.initial.rows))

            def wait() -> None:
                for packed, source in zip([*steps, initial], [*batch.steps, batch.initial], strict=True):
                    packed.rows.copy_(source.rows)

            return EpisodeBatch(batch.infos, steps, initial), wait

        record(tmp_path / "prompt")
        monkeypatch.setattr(EpisodeBatch, "to_host", late)
        record(tmp_path / "late")
        prompt, late_one = (RecordedDataset(tmp_path / name) for name in ("prompt", "late"))
        for a, b in zip(prompt, late_one, strict=True):
            assert a.info == b.info and a.steps["obs"].any()
            assert all(torch.equal(a.steps[key], b.steps[key]) for key in a.steps)
            assert all(torch.equal(a.initial[key], b.initial[key]) for key in a.initial)

    def test_an_event_stands_behind_all_copies_of_a_batch(self, monkeypatch):
        order = []

        class Event(CopyEvent):
            def record(self) -> None:
                order.append("event")

            def wait(self) -> None:
                order.append("wait")

        monkeypatch.setattr("lab_core.recorder.sinks.CopyEvent", Event)
        monkeypatch.setattr(PackedRows, "to_host", lambda rows: order.append("copy") or rows)
        rows = PackedRows(RowLayout([]), torch.zeros(1, 0, dtype=torch.int64))
        _, wait = EpisodeBatch([], [rows, rows], rows).to_host()
        assert order == ["copy", "copy", "copy", "event"]
        wait()
        assert order[-1] == "wait"

    @pytest.mark.parametrize("numbers", [(99_999, 100_000), (9, 10), (1_000_000, 99_999, 2)])
    def test_files_are_in_the_order_of_their_numbers(self, tmp_path, numbers):
        """Text would put 100000 before 99999."""
        for name in ("walk", "walk-2"):
            for number in numbers:
                shard_path(tmp_path, name, number).touch()
        expected = [shard_path(tmp_path, "walk", number) for number in sorted(numbers)]
        assert find_shards(tmp_path, "walk") == expected
        assert find_shards(tmp_path) == expected + [
            shard_path(tmp_path, "walk-2", number) for number in sorted(numbers)
        ]

    def test_chunks_have_a_useful_size(self, tmp_path):
        def wide(env):
            return torch.zeros(env.num_envs, 100, 100)

        env = make(
            tmp_path,
            steps=40,
            compression=1,
            terms={
                "wide": RecorderTermCfg(func=wide, phase="post_step"),
                "narrow": RecorderTermCfg(func=lambda env: env.reward_buf, phase="post_step"),
            },
        )
        run(env, 40)
        env.close()
        with h5py.File(tmp_path / "dataset-00000.hdf5") as file:
            assert file["data/demo_0/wide"].chunks == (6, 100, 100)
            assert file["data/demo_0/narrow"].chunks == (40,)

    def test_files_are_finished_by_size_and_by_time(self, tmp_path):
        env = make(tmp_path, shard_megabytes=0.002)
        run(env, 20)
        env.close()
        assert [len(infos) for _, infos in RecordedDataset(tmp_path).files] == [4, 4]
        env = make(tmp_path / "time", shard_seconds=0.0)
        run(env, 10)
        env.close()
        assert len(RecordedDataset(tmp_path / "time").files) >= 2

    @pytest.mark.slow
    def test_memory_is_flat_over_thousands_of_episodes(self, tmp_path):
        env = make(tmp_path, num_envs=16, shard_megabytes=0.5)
        run(env, 700)
        before = resident_bytes()
        run(env, 600)
        assert resident_bytes() < 1.03 * before
        env.close()
        assert len(RecordedDataset(tmp_path)) == 260 * 16


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1])
