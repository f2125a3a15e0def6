"""Markers: what terms, sensors and commands give to those who draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import ManagerTermBase, RewardTermCfg
from lab_core.markers import ArrowMarkers, Markers, SphereMarkers, choose_sources, collect_markers
from lab_core.mdp import NullCommandCfg
from lab_core.names import UnknownNameError
from lab_core.sensors import ContactSensorCfg, ContactSensorData, ImuCfg, ImuData, RayCasterCfg, RayCasterData
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

ARROWS = ArrowMarkers(start_w=torch.zeros(4, 2, 3), vector_w=torch.ones(4, 2, 3))


@dataclass(kw_only=True)
class PointingCfg(NullCommandCfg):
    def build(self, env):
        return Pointing(self, env)


class Pointing(mdp.NullCommand):
    asked = 0

    def markers(self) -> Sequence[Markers]:
        self.asked += 1
        return [ARROWS]


class DrawingReward(ManagerTermBase):
    """A reward that draws a point for each environment, as large as a parameter says."""

    def __call__(self, env, radius: float) -> torch.Tensor:
        return torch.zeros(env.num_envs)

    def markers(self) -> Sequence[Markers]:
        return [SphereMarkers(center_w=torch.zeros(4, 1, 3), radius=self.cfg.params["radius"])]


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.commands = {"null": NullCommandCfg(), "goal": PointingCfg()}
    cfg.rewards["drawn"] = RewardTermCfg(func=DrawingReward, weight=1.0, params={"radius": 0.1})
    return ManagerBasedRLEnv(cfg)


def test_terms_that_draw_are_sources_and_wait_for_somebody_to_look(env: ManagerBasedRLEnv) -> None:
    sources = env.physics.marker_sources
    assert sorted(sources) == ["commands/goal", "rewards/drawn"]
    env.step(torch.zeros(4, 1))
    term = env.command_manager.get_term("goal")
    assert term.asked == 0
    assert collect_markers(sources, ["commands/goal"], 4) == [ARROWS]
    assert term.asked == 1
    collect_markers(sources, ["rewards/drawn"], 4)
    assert term.asked == 1, "only those that are looked at"


def test_a_term_that_is_replaced_draws_as_the_new_one(env: ManagerBasedRLEnv) -> None:
    cfg = env.reward_manager.get_term_cfg("drawn")
    env.reward_manager.set_term_cfg("drawn", replace(cfg, params={"radius": 0.5}))
    (sphere,) = env.physics.marker_sources["rewards/drawn"]()
    assert sphere.radius == 0.5
    env.reward_manager.set_term_cfg("drawn", RewardTermCfg(func=mdp.is_alive, weight=1.0))
    assert not env.physics.marker_sources["rewards/drawn"]()


def test_names_and_patterns_choose_sources() -> None:
    names = ["sensors/feet", "commands/a", "commands/b"]
    assert choose_sources(("commands/.*", "sensors/feet"), names) == names
    assert choose_sources(("commands/.*",), ["sensors/feet"]) == []
    with pytest.raises(UnknownNameError, match="unknown markers 'commands/c'.*commands/a"):
        choose_sources(("commands/c",), names)


@pytest.mark.parametrize(
    ("markers", "message"),
    [
        (
            replace(ARROWS, start_w=torch.zeros(4, 3)),
            r"start_w of the ArrowMarkers of mine .* got \(4, 3\)",
        ),
        (replace(ARROWS, start_w=torch.zeros(3, 2, 3)), r"\(4, K, 3\), got \(3, 2, 3\)"),
        (replace(ARROWS, start_w=torch.zeros(4, 1, 3)), "of mine are not equally many"),
        (ARROWS.start_w, "mine must give markers to draw, got Tensor"),
    ],
)
def test_markers_that_cannot_be_drawn_are_named(markers, message: str) -> None:
    with pytest.raises(LabError, match=message):
        collect_markers({"mine": lambda: [markers]}, ["mine"], 4)


@dataclass
class Carrier:
    body_names: tuple[str, ...]
    body_mass: torch.Tensor
    body_link_pose_w: torch.Tensor


@pytest.fixture
def carrier() -> Carrier:
    pose = torch.arange(2 * 3 * 7, dtype=torch.float32).view(2, 3, 7)
    return Carrier(("trunk", "left", "right"), torch.full((2, 3), 2.0), pose)


def test_contact_forces_are_arrows_at_their_bodies_as_long_as_their_share_of_the_weight(carrier: Carrier) -> None:
    data = ContactSensorData(ContactSensorCfg(), 2, ("right", "left"), 0.005, torch.device("cpu"))
    data.net_forces_w[1, 0] = torch.tensor((0.0, 0.0, 6.0 * 9.81))
    (arrows,) = data.markers(carrier)
    assert isinstance(arrows, ArrowMarkers)
    torch.testing.assert_close(arrows.start_w, carrier.body_link_pose_w[:, [2, 1], :3])
    torch.testing.assert_close(arrows.vector_w[1, 0], torch.tensor((0.0, 0.0, 1.0)))


def test_ray_hits_are_points_and_sensors_without_pictures_draw_nothing(carrier: Carrier) -> None:
    data = RayCasterData(RayCasterCfg(body_name="trunk"), 2, torch.device("cpu"))
    (points,) = data.markers(carrier)
    assert isinstance(points, SphereMarkers) and points.center_w is data.ray_hits_w
    assert ImuData(ImuCfg(body_name="trunk"), 2, torch.device("cpu")).markers(carrier) == ()
