"""A cart-pole in closed form, as recorded physics steps and as a model that predicts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lab_core.datasets import Episode, EpisodeInfo, Provenance, RecordedDataset, Shard
from lab_newton import FitCfg
from lab_newton.nerd import NeRDModel, Network, RobotLayout
from lab_rl.nerd.fit import FitData, held_out_rows
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.teacher import Teacher
from lab_rl.nerd.trainer import Trainer, prepare_model

JOINTS = ("slider_to_cart", "cart_to_pole")
DT = 1.0 / 120.0
LEVER, INERTIA, MASS, GRAVITY = 0.47, 0.3045, 2.0, 9.81


def velocity_change(sine: Tensor, cosine: Tensor, spin: Tensor, force: Tensor) -> Tensor:
    """The change (..., 2) of the velocities of cart and pole over a step."""
    coupling = -LEVER * cosine
    push, torque = force - LEVER * sine * spin**2, LEVER * GRAVITY * sine
    determinant = MASS * INERTIA - coupling**2
    linear, angular = INERTIA * push - coupling * torque, MASS * torque - coupling * push
    return DT * torch.stack((linear, angular), dim=-1) / determinant[..., None]


class ClosedForm(Network):
    """Predicts what :func:`velocity_change` says, off by ``drift`` (2,) on the common scale."""

    def __init__(self, model: NeRDModel) -> None:
        super().__init__(model.representation.feature_owners, model.representation.change_owners, context=1)
        self.inputs, self.changes = model.inputs, model.changes
        self.drift = torch.nn.Parameter(torch.zeros(2))

    def mix(self, tokens, length=None):
        sine, cosine, _, _, spin, force = self.inputs.inverse(tokens).unbind(-1)
        return self.changes(velocity_change(sine, cosine, spin, force)) + self.drift


@pytest.fixture(scope="session")
def layout() -> RobotLayout:
    return RobotLayout(
        joint_names=JOINTS,
        joint_kinds=("slide", "hinge"),
        continuous=(False, True),
        actuated=JOINTS[:1],
        floating=False,
        root_com=(0.0, 0.0, 0.0),
        gravity=(0.0, 0.0, -GRAVITY),
        dt=DT,
    )


@pytest.fixture(scope="session")
def make_steps() -> Callable[..., PhysicsSteps]:
    """Moves a cart-pole through an episode for each of ``lengths``, the regimes in turn."""

    def make(lengths: Sequence[int] = (20,) * 12, regimes: tuple[str, ...] = ("swing",), seed: int = 0) -> PhysicsSteps:
        generator = torch.Generator().manual_seed(seed)
        count, longest = len(lengths), max(lengths)
        q = 3.0 * torch.rand(count, 2, generator=generator) - 1.5
        qd = 4.0 * torch.rand(count, 2, generator=generator) - 2.0
        columns: dict[str, list[Tensor]] = {name: [] for name in ("q", "qd", "effort", "q_next", "qd_next")}
        for _ in range(longest):
            effort = torch.zeros(count, 2)
            effort[:, 0] = 20.0 * torch.randn(count, generator=generator)
            qd_next = qd + velocity_change(q[:, 1].sin(), q[:, 1].cos(), qd[:, 1], effort[:, 0])
            q_next = q + DT * qd_next
            for column, value in zip(columns.values(), (q, qd, effort, q_next, qd_next), strict=True):
                column.append(value)
            q, qd = q_next, qd_next
        ages, ends = torch.arange(longest), torch.tensor(lengths)[:, None]
        kept = ages < ends
        episode = torch.arange(count)[:, None].expand(-1, longest)
        return PhysicsSteps(
            **{name: torch.stack(values, dim=1)[kept] for name, values in columns.items()},
            joins=(ages < ends - 1)[kept],
            episode=torch.unique_consecutive(episode[kept], return_inverse=True)[1],
            regime=(episode % len(regimes))[kept],
            regimes=regimes,
        )

    return make


@pytest.fixture(scope="session")
def write_recording() -> Callable[..., RecordedDataset]:
    """Writes steps as :func:`lab_core.recorder.physics_step_terms` would have recorded them, two in each step of the
    environment.

    ``leave_out`` are beginnings of keys, ``failed`` the episodes whose physics failed in their last step.
    """

    def write(
        path: Path,
        steps: PhysicsSteps,
        joints: Sequence[str] = JOINTS,
        leave_out: tuple[str, ...] = (),
        failed: Sequence[int] = (),
    ) -> RecordedDataset:
        shard = Shard(Provenance({"names": json.dumps({"robot": {"joint_names": list(joints)}})}, ""))
        for number in range(steps.num_episodes):
            rows = steps.episode == number
            pairs = {
                name: getattr(steps, name)[rows].unflatten(0, (-1, 2))
                for name in ("q", "qd", "effort", "q_next", "qd_next")
            }
            values = {"substep_efforts/robot": pairs["effort"]}
            for prefix, q, qd in (
                ("pre_states", pairs["q"][:, 0], pairs["qd"][:, 0]),
                ("substep_states", pairs["q_next"], pairs["qd_next"]),
            ):
                where = f"{prefix}/articulation/robot"
                values[f"{where}/root_pose"] = torch.zeros(*q.shape[:-1], 7)
                values[f"{where}/root_velocity"] = torch.zeros(*q.shape[:-1], 6)
                values |= {f"{where}/joint_position": q, f"{where}/joint_velocity": qd}
            info = EpisodeInfo(
                env_id=0,
                episode_index=number,
                start_step=0,
                length=int(rows.sum()) // 2,
                non_finite=number in failed,
                label=steps.regimes[int(steps.regime[rows][0])],
            )
            kept = {key: value.contiguous() for key, value in values.items() if not key.startswith(leave_out or ("-",))}
            shard.add(number, Episode(info, kept, {}))
        shard.save(path)
        return RecordedDataset(path)

    return write


@pytest.fixture(scope="session")
def make_model(layout) -> Callable[..., NeRDModel]:
    """A small network that nobody trained."""

    def make(network: str = "MLP", **options) -> NeRDModel:
        torch.manual_seed(0)
        return NeRDModel(layout, network, options or {"hidden": [16, 16]})

    return make


@pytest.fixture(scope="session")
def make_closed_form(make_model) -> Callable[[PhysicsSteps], tuple[NeRDModel, Tensor]]:
    """A model that predicts the steps, up to rounding, with the scale of their changes of pose."""

    def make(steps: PhysicsSteps) -> tuple[NeRDModel, Tensor]:
        model = make_model()
        pose_scale = prepare_model(model, steps)
        model.network = ClosedForm(model)
        return model, pose_scale

    return make


@pytest.fixture(scope="session")
def make_cfg() -> Callable[..., FitCfg]:
    def make(**changes) -> FitCfg:
        settings = {"options": {"hidden": [16, 16]}, "updates": 12, "batch_size": 32, "warmup_updates": 2}
        return FitCfg(**{**settings, "eval_interval": 4, "save_interval": 6, **changes})

    return make


@pytest.fixture
def make_trainer(make_model, make_steps, make_cfg) -> Callable[..., Trainer]:
    def make(
        steps: PhysicsSteps | None = None, processes=None, device: str = "cpu", captured: bool = True, **changes
    ) -> Trainer:
        cfg, steps = make_cfg(**changes), make_steps() if steps is None else steps
        model = make_model(cfg.network, **cfg.options)
        scale = prepare_model(model, steps).to(device)
        return Trainer(cfg, model.to(device), scale, steps.to(torch.device(device)), processes, captured)

    return make


@pytest.fixture(scope="session")
def make_fit_data(layout, make_steps) -> Callable[..., FitData]:
    def make(steps: PhysicsSteps | None = None) -> FitData:
        steps = make_steps() if steps is None else steps
        held_out = held_out_rows(steps, 0.25, 1)
        teacher = Teacher("Lab-Closed-Form", "robot", layout, {"timing": {"dt": DT}})
        sources = [{"file": "dataset-00000.hdf5", "episodes": steps.num_episodes, "sha256": "12ab"}]
        return FitData(teacher, steps.select(~held_out), steps.select(held_out), sources)

    return make


@pytest.fixture
def assert_same() -> Callable[[object, object], None]:
    """Asserts that two nested states hold the same bits."""

    def check(a, b, where: str = "") -> None:
        assert type(a) is type(b), where
        if isinstance(a, Tensor):
            assert a.dtype == b.dtype and torch.equal(a, b), where
        elif isinstance(a, dict):
            assert a.keys() == b.keys(), where
            for key in a:
                check(a[key], b[key], f"{where}/{key}")
        elif isinstance(a, list | tuple):
            assert len(a) == len(b), where
            for index, pair in enumerate(zip(a, b, strict=True)):
                check(*pair, f"{where}/{index}")
        else:
            assert a == b, where

    return check
