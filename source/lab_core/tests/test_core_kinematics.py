"""Forward kinematics in torch against closed forms, differences in time, and its own gradients."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck

from lab_core.errors import LabError
from lab_core.kinematics import ForwardKinematics, KinematicTree
from lab_core.math import matrix_from_quat, normalize, quat_apply, quat_box_minus, quat_box_plus
from lab_core.names import UnknownNameError
from lab_core.scene import SceneCfg
from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

LEVEL = (0.0, 0.0, 0.0, 1.0)
SIN, COS = math.sin(0.35), math.cos(0.35)
# Two arms on a free base: a hinge with frames turned in both bodies, then a welded tool; a slide, then a hinge.
TREE = KinematicTree(
    body_names=("base", "arm", "tool", "rail", "finger"),
    parents=(-1, 0, 1, 0, 3),
    body_joints=(-1, 0, -1, 1, 2),
    parent_frames=(
        (0.0, 0.0, 0.0, *LEVEL),
        (0.3, 0.1, -0.2, SIN, 0.0, 0.0, COS),
        (0.0, 0.4, 0.1, 0.0, SIN, 0.0, COS),
        (-0.2, 0.0, 0.1, 0.0, 0.0, SIN, COS),
        (0.1, 0.2, 0.3, *LEVEL),
    ),
    child_frames=(
        (0.0, 0.0, 0.0, *LEVEL),
        (0.1, -0.2, 0.05, 0.0, SIN, 0.0, COS),
        (0.0, 0.0, 0.1, *LEVEL),
        (0.0, 0.1, 0.0, *LEVEL),
        (0.02, 0.03, 0.04, SIN, 0.0, 0.0, COS),
    ),
    centers_of_mass=((0.01, 0.02, 0.03), (0.0, 0.1, 0.0), (0.1, 0.0, 0.0), (0.0, 0.0, 0.2), (0.05, 0.05, 0.0)),
    joint_names=("elbow", "push", "curl"),
    joint_kinds=("hinge", "slide", "hinge"),
    joint_axes=((0.0, 0.6, 0.8), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    free_root=True,
)
FRAMES = (TREE.parent_frames, TREE.child_frames)
EYE = torch.eye(3, dtype=torch.float64)


def random_state(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)

    def draw(size: int) -> torch.Tensor:
        return torch.randn(*shape, size, generator=generator, dtype=torch.float64)

    root = torch.cat((draw(3), normalize(draw(4))), dim=-1)
    return draw(3), draw(3), root, draw(6)


def exact(bodies: str | list[str] | None = None, tree: KinematicTree = TREE) -> ForwardKinematics:
    return ForwardKinematics(tree, bodies, dtype=torch.float64)


def test_cart_pole_bodies_follow_the_closed_form():
    cfg = analytic_cartpole_env_cfg(num_envs=16)
    backend = AnalyticCartpoleBackend(cfg.physics, SceneCfg(entities=cfg.scene.entities), 16, torch.device("cpu"))
    data = backend.entities["robot"]
    generator = torch.Generator().manual_seed(0)
    data.joint_pos.copy_(torch.randn(16, 2, generator=generator))
    data.joint_vel.copy_(torch.randn(16, 2, generator=generator))
    backend.mark_written(torch.ones(16, dtype=torch.bool))
    backend.forward()
    found = ForwardKinematics(backend.kinematic_tree("robot")).states(data.joint_pos, data.joint_vel)
    torch.testing.assert_close(found.pose, data.body_link_pose_w, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(found.com_vel, data.body_com_vel_w, atol=1e-6, rtol=0.0)


def homogeneous(pos: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    result = torch.eye(4, dtype=torch.float64).repeat(*pos.shape[:-1], 1, 1)
    result[..., :3, 3], result[..., :3, :3] = pos, matrix
    return result


def of_pose(pose: torch.Tensor) -> torch.Tensor:
    return homogeneous(pose[..., :3], matrix_from_quat(pose[..., 3:]))


def test_bodies_are_where_products_of_matrices_put_them():
    """T = T_parent A J B^-1, where J turns by the matrix exponential of the axis or moves along it."""
    position, _, root, _ = random_state(8)
    expected = [of_pose(root)]
    for body in range(1, 5):
        a, b = (of_pose(torch.tensor(frames[body], dtype=torch.float64)) for frames in FRAMES)
        moved, joint = torch.eye(4, dtype=torch.float64).expand(8, 4, 4), TREE.body_joints[body]
        if joint != -1:
            axis = torch.tensor(TREE.joint_axes[joint], dtype=torch.float64) * position[:, joint, None]
            x, y, z = axis.unbind(-1)
            zero = torch.zeros_like(x)
            skew = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).view(8, 3, 3)
            is_hinge = TREE.joint_kinds[joint] == "hinge"
            moved = homogeneous(0.0 * axis, torch.matrix_exp(skew)) if is_hinge else homogeneous(axis, 0.0 * skew + EYE)
        expected.append(expected[TREE.parents[body]] @ a @ moved @ torch.linalg.inv(b))
    torch.testing.assert_close(of_pose(exact().poses(position, root)), torch.stack(expected, dim=1))


def test_velocities_are_how_poses_change():
    position, velocity, root, root_vel = random_state(32)
    fk, dt = exact(), 1e-6
    states = fk.states(position, velocity, root, root_vel)

    def moved(time: float) -> torch.Tensor:
        com = torch.tensor(TREE.centers_of_mass[0], dtype=torch.float64).expand(32, 3)
        turned = quat_box_plus(root[:, 3:], time * root_vel[:, 3:])
        origin = root[:, :3] + quat_apply(root[:, 3:], com) + time * root_vel[:, :3] - quat_apply(turned, com)
        return fk.poses(position + time * velocity, torch.cat((origin, turned), dim=-1))

    before, after = moved(-dt), moved(dt)
    linear = (after[..., :3] - before[..., :3]) / (2 * dt)
    angular = quat_box_minus(after[..., 3:], before[..., 3:]) / (2 * dt)
    torch.testing.assert_close(states.link_vel, torch.cat((linear, angular), dim=-1), atol=1e-7, rtol=1e-7)
    com = torch.tensor(TREE.centers_of_mass, dtype=torch.float64).expand(32, 5, 3)
    centre = [pose[..., :3] + quat_apply(pose[..., 3:], com) for pose in (before, after)]
    torch.testing.assert_close(states.com_vel[..., :3], (centre[1] - centre[0]) / (2 * dt), atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(states.pose, fk.poses(position, root))


def test_chosen_bodies_are_those_of_all_in_the_given_order():
    state = random_state(2, 3)
    everything, some = exact().states(*state), exact(["finger", "base", "tool"])
    assert some.body_names == ("finger", "base", "tool")
    chosen = some.states(*state)
    for name in ("pose", "link_vel", "com_vel"):
        assert torch.equal(getattr(chosen, name), getattr(everything, name)[..., [4, 0, 2], :]), name
    assert TREE.levels([4]) == [[0], [3], [4]]
    with pytest.raises(UnknownNameError, match="hand"):
        exact("hand")


def test_root_of_the_result_is_what_was_given():
    position, velocity, root, root_vel = random_state(4)
    com = torch.zeros(4, 5, 3, dtype=torch.float64)
    found = exact("base").states(position, velocity, root, root_vel, com + 0.1)
    torch.testing.assert_close(found.pose[:, 0], root, atol=0.0, rtol=0.0)
    torch.testing.assert_close(found.com_vel[:, 0], root_vel)
    arm = torch.linalg.cross(root_vel[:, 3:], quat_apply(root[:, 3:], com[:, 0] + 0.1))
    torch.testing.assert_close(found.link_vel[:, 0, :3], root_vel[:, :3] - arm)


def test_held_root_may_move_by_its_joint():
    held = replace(
        TREE, body_joints=(0, 1, -1, 2, 3), joint_names=("hinge", *TREE.joint_names),
        joint_kinds=("hinge", *TREE.joint_kinds), joint_axes=((0.0, 0.0, 1.0), *TREE.joint_axes), free_root=False,
    )  # fmt: skip
    position, velocity, _, _ = random_state(8)
    angle, rate = torch.full((8, 1), 0.7, dtype=torch.float64), torch.full((8, 1), -2.0, dtype=torch.float64)
    found = exact(tree=held).states(torch.cat((angle, position), -1), torch.cat((rate, velocity), -1))
    root = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, SIN, COS], dtype=torch.float64).expand(8, 7)
    spin = torch.tensor([0.0, 0.0, -2.0], dtype=torch.float64).expand(8, 3)
    com = torch.tensor(TREE.centers_of_mass[0], dtype=torch.float64).expand(8, 3)
    root_vel = torch.cat((torch.linalg.cross(spin, quat_apply(root[:, 3:], com)), spin), dim=-1)
    free = exact().states(position, velocity, root, root_vel)
    torch.testing.assert_close(found.pose, free.pose)
    torch.testing.assert_close(found.com_vel, free.com_vel)


@pytest.mark.parametrize("scale", [1.0, 1e-8, 0.0])
def test_gradients(scale: float):
    """Also where all joints are at zero, where formulas by axis and angle fail."""
    position, velocity, root, root_vel = random_state(2)
    inputs = [value.requires_grad_() for value in (scale * position, scale * velocity, root, scale * root_vel)]

    def flat(*values: torch.Tensor) -> torch.Tensor:
        found = exact().states(*values)
        return torch.cat((found.pose, found.link_vel, found.com_vel), dim=-1)

    assert gradcheck(flat, inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parents": (-1, 2, 1, 0, 3)}, "'arm' hangs on itself"),
        ({"parents": (-1, 0, 1, 0, 7)}, "'finger' has parent 7"),
        ({"parents": (-1, 0, 1, 0)}, "5 bodies has 4 parents"),
        ({"parents": (1, 0, 1, 0, 3)}, "first body"),
        ({"body_joints": (-1, 0, -1, 1, 1)}, "moves one body"),
        ({"body_joints": (2, 0, -1, 1, -1)}, "free root 'base'"),
        ({"joint_axes": ((1.0, 0.0, 0.0),)}, "3 joints has 1 joint_axes"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict, message: str):
    with pytest.raises(LabError, match=message):
        replace(TREE, **change)


def test_free_root_must_be_given():
    position, velocity, root, _ = random_state(1)
    with pytest.raises(LabError, match="'base' is free: give its pose"):
        exact().poses(position)
    with pytest.raises(LabError, match="'base' is free: give its velocity"):
        exact().states(position, velocity, root)


def test_a_body_alone_is_where_it_is_among_all():
    kinematics = ForwardKinematics(TREE, dtype=torch.float64)
    joint_pos, _, root, _ = random_state(4)
    poses = kinematics.poses(joint_pos, root)
    for body in range(len(TREE.body_names)):
        alone = kinematics.of_body(body)
        torch.testing.assert_close(alone.poses(joint_pos, root)[:, 0], poses[:, body])
        assert kinematics.of_body(body) is alone
