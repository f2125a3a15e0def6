"""Features without place and yaw, and states that are rebuilt from changes."""

from __future__ import annotations

import torch

from lab_core.math import normalize, quat_apply, quat_from_angle_axis, quat_mul
from lab_newton.nerd import Representation


def test_a_state_is_rebuilt_from_its_change(layout, make_state):
    representation = Representation(layout).double()
    q, qd, _ = (x.double() for x in make_state(layout, 4, 3, seed=0))
    if layout.floating:
        q[..., 3:7] = normalize(q[..., 3:7])  # anew, in double precision
    _, qd_next, _ = (x.double() for x in make_state(layout, 4, 3, seed=1))
    change = representation.velocity_change(q, qd, qd_next)
    q_next, again = representation.apply_change(q, qd, change)
    torch.testing.assert_close(again, qd_next, rtol=0.0, atol=1e-12)
    assert torch.equal(q_next, representation.integrate(q, again))
    pose = representation.pose_change(q, q_next)
    assert pose.shape == (4, 3, layout.num_velocities)
    torch.testing.assert_close(pose[..., -layout.num_joints :], layout.dt * qd_next[..., -layout.num_joints :])
    if layout.floating:
        turned = quat_apply(q[..., 3:7], pose[..., 3:6])
        torch.testing.assert_close(turned, layout.dt * qd_next[..., 3:6])
        torch.testing.assert_close(quat_apply(q[..., 3:7], pose[..., :3]), q_next[..., :3] - q[..., :3])


def test_the_centre_of_mass_moves_straight(rover_layout, make_state):
    """The root's origin circles around it."""
    representation = Representation(rover_layout).double()
    q, qd, _ = (x.double() for x in make_state(rover_layout, 16))
    com = torch.tensor(rover_layout.root_com, dtype=torch.float64).expand(16, 3)

    def centre(q):
        return q[..., :3] + quat_apply(q[..., 3:7], com)

    torch.testing.assert_close(
        centre(representation.integrate(q, qd)), centre(q) + rover_layout.dt * qd[..., :3], rtol=0.0, atol=2e-4
    )


def test_it_sees_neither_place_nor_yaw(rover_layout, make_state):
    representation = Representation(rover_layout).double()
    q, qd, effort = (x.double() for x in make_state(rover_layout, 8))
    yaw = quat_from_angle_axis(torch.tensor(1.2), torch.tensor([0.0, 0.0, 1.0])).double().expand(8, 4)
    moved_q, moved_qd = q.clone(), qd.clone()
    moved_q[:, :3] = quat_apply(yaw, q[:, :3]) + 5.0
    moved_q[:, 3:7] = quat_mul(yaw, q[:, 3:7])
    for part in (slice(0, 3), slice(3, 6)):
        moved_qd[:, part] = quat_apply(yaw, qd[:, part])
    features = representation.features(q, qd, effort)
    torch.testing.assert_close(features, representation.features(moved_q, moved_qd, effort), rtol=0.0, atol=1e-6)
    tilt = quat_from_angle_axis(torch.tensor(0.3), torch.tensor([1.0, 0.0, 0.0])).double().expand(8, 4)
    moved_q[:, 3:7] = quat_mul(tilt, q[:, 3:7])
    assert not torch.allclose(features, representation.features(moved_q, qd, effort), atol=1e-3)


def test_names_and_owners_say_what_each_channel_is(rover_layout, make_state):
    representation = Representation(rover_layout)
    q, qd, effort = make_state(rover_layout)
    effort[1] = 7.0  # of the wrist
    seen = dict(zip(representation.feature_names, representation.features(q, qd, effort).tolist(), strict=True))
    owners = dict(zip(representation.feature_names, representation.feature_owners, strict=True))
    assert seen["effort wrist"] == 7.0 and owners["effort wrist"] == 2
    assert seen["sin tail"] == torch.sin(q[9]).item() and owners["sin tail"] == 3
    assert seen["position shoulder"] == q[7].item() and owners["position shoulder"] == 1
    assert "effort tail" not in seen and "position tail" not in seen
    assert owners["root gravity z"] == 0
    assert representation.change_owners == (0, 0, 0, 0, 0, 0, 1, 2, 3)
    assert len(representation.change_names) == len(representation.pose_names) == rover_layout.num_velocities


def test_gravity_is_seen_in_the_frame_of_the_root(rover_layout):
    representation = Representation(rover_layout)
    q, qd = torch.zeros(10), torch.zeros(9)
    q[3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # upside down
    seen = dict(zip(representation.feature_names, representation.features(q, qd, torch.zeros(3)).tolist(), strict=True))
    assert [round(seen[f"root gravity {axis}"], 6) for axis in "xyz"] == [0.0, 0.0, 1.0]


def test_a_continuous_hinge_has_no_seam(cart_pole_layout):
    representation = Representation(cart_pole_layout)
    qd, effort = torch.zeros(2, 2), torch.zeros(2, 2)
    q = torch.tensor([[0.0, 3.1], [0.0, 3.1 - 2.0 * torch.pi]])
    features = representation.features(q, qd, effort)
    torch.testing.assert_close(features[0], features[1], rtol=0.0, atol=1e-6)
    change = representation.pose_change(torch.tensor([0.0, 3.1]), torch.tensor([5.0, -3.1]))
    torch.testing.assert_close(change, torch.tensor([5.0, 2.0 * torch.pi - 6.2]))


def test_it_is_differentiable_also_where_nothing_turns(layout, make_state):
    representation = Representation(layout)
    q, qd, effort = make_state(layout, 3)
    qd.zero_().requires_grad_(True)
    change = torch.zeros_like(qd, requires_grad=True)
    q_next, qd_next = representation.apply_change(q, qd, change)
    loss = representation.features(q_next, qd_next, effort).square().sum() + representation.pose_change(q, q_next).sum()
    loss.backward()
    assert torch.isfinite(qd.grad).all() and torch.isfinite(change.grad).all() and change.grad.any()
