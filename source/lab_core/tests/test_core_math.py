"""Values of the rotation maths: identities, conventions, special points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_core import math as lm
from lab_core.seeding import make_generator

PI = math.pi
IDENTITY = torch.tensor([0.0, 0.0, 0.0, 1.0])
HALF_SQRT = math.sqrt(0.5)


def quats(count: int = 200, dtype: torch.dtype = torch.float64, stream: str = "") -> torch.Tensor:
    return lm.normalize(lm.random_orientation((count,), make_generator(0, stream=stream)).to(dtype))


def vectors(count: int = 200, dtype: torch.dtype = torch.float64, stream: str = "v") -> torch.Tensor:
    return torch.randn(count, 3, generator=make_generator(0, stream=stream)).to(dtype)


def close(actual: torch.Tensor, expected: torch.Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0.0)


def same_rotation(actual: torch.Tensor, expected: torch.Tensor, atol: float = 1e-10) -> None:
    close(lm.matrix_from_quat(actual), lm.matrix_from_quat(expected), atol)


# Conventions


def test_order_is_xyzw_and_yaw_turns_x_to_y():
    yaw_90 = torch.tensor([0.0, 0.0, HALF_SQRT, HALF_SQRT])
    close(lm.quat_apply(yaw_90, torch.tensor([1.0, 0.0, 0.0])), torch.tensor([0.0, 1.0, 0.0]), 1e-6)
    close(lm.quat_apply_inverse(yaw_90, torch.tensor([0.0, 1.0, 0.0])), torch.tensor([1.0, 0.0, 0.0]), 1e-6)


def test_product_applies_the_right_factor_first():
    q1, q2, v = quats(stream="a"), quats(stream="b"), vectors()
    close(lm.quat_apply(lm.quat_mul(q1, q2), v), lm.quat_apply(q1, lm.quat_apply(q2, v)))


def test_inverse_and_conjugate():
    q, v = quats(), vectors()
    close(lm.quat_mul(q, lm.quat_conjugate(q)), IDENTITY.double().expand_as(q))
    close(lm.quat_mul(3.0 * q, lm.quat_inv(3.0 * q)), IDENTITY.double().expand_as(q))
    close(lm.quat_apply_inverse(q, lm.quat_apply(q, v)), v)


def test_leading_dimensions_broadcast():
    q, gravity = quats(5), torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64)
    assert lm.quat_apply_inverse(q, gravity).shape == (5, 3)
    assert lm.quat_apply(q[:, None], vectors(7)).shape == (5, 7, 3)
    assert lm.quat_mul(q[:, None], quats(7)).shape == (5, 7, 4)


# Exponential, logarithm, differences


def test_exp_matches_angle_axis():
    axis = lm.normalize(vectors())
    angle = torch.linspace(-7.0, 7.0, 200, dtype=torch.float64)
    close(lm.quat_exp(axis * angle[:, None]), lm.quat_from_angle_axis(angle, axis))


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-9, 9e-5, 1.1e-4, 1e-2, 1.0, 3.0, PI - 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_inverts_exp_at_every_length(length, dtype):
    delta = length * lm.normalize(vectors(dtype=dtype))
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    close(lm.quat_log(lm.quat_exp(delta)), delta, tolerance * max(length, 1e-9))


def test_log_takes_the_short_way_and_does_not_see_the_sign():
    q = quats()
    close(lm.quat_log(-q), lm.quat_log(q))
    assert lm.quat_log(q).norm(dim=-1).max() <= PI
    close(lm.quat_log(-IDENTITY), torch.zeros(3))


def test_log_of_half_a_turn():
    for axis in torch.eye(3):
        close(lm.quat_log(torch.cat((axis, torch.zeros(1)))), PI * axis, 1e-6)


def test_box_minus_inverts_box_plus_in_the_world_frame():
    q, delta = quats(), 0.9 * vectors().clamp(-1.7, 1.7)
    close(lm.quat_box_minus(lm.quat_box_plus(q, delta), q), delta)
    yaw = torch.tensor([0.0, 0.0, 0.3], dtype=torch.float64).expand(200, 3)
    vector = lm.quat_apply(lm.quat_box_plus(q, yaw), vectors())
    close(vector, lm.quat_apply(lm.quat_exp(yaw), lm.quat_apply(q, vectors())))


def test_box_minus_does_not_jump_where_w_changes_sign():
    q = quats()
    close(lm.quat_box_minus(-q, q), torch.zeros(200, 3, dtype=torch.float64))
    step = torch.tensor([0.0, 0.0, 1e-3], dtype=torch.float64)
    base = lm.quat_exp(torch.tensor([0.0, 0.0, PI - 5e-4], dtype=torch.float64))
    close(lm.quat_box_minus(lm.quat_box_plus(base, step), base), step)


def test_angles_between_rotations():
    q, other = quats(stream="a"), quats(stream="b")
    axis = lm.normalize(vectors())
    angle = torch.linspace(0.0, PI, 200, dtype=torch.float64)
    turned = lm.quat_box_plus(q, axis * angle[:, None])
    close(lm.quat_error_magnitude(turned, q), angle)
    close(lm.quat_error_magnitude(-turned, q), angle)
    close(lm.quat_angle_squared(turned, q), angle.square())
    squared = lm.rotation_angle_squared(lm.matrix_from_quat(other), lm.matrix_from_quat(q))
    flat_top = (2.0 * math.asin(math.sqrt(1.0 - 5e-7))) ** 2
    close(squared, lm.quat_error_magnitude(other, q).square().clamp(max=flat_top))


@pytest.mark.parametrize("angle", [1e-7, 1e-5, 3e-4, 1e-2, 0.1, 0.1415, 0.1416, 1.0, 3.0])
def test_squared_angle_of_matrices_keeps_its_digits_in_float32(angle):
    q = lm.quat_exp(torch.tensor([angle, 0.0, 0.0]))
    squared = lm.rotation_angle_squared(lm.matrix_from_quat(q), torch.eye(3))
    assert squared.item() == pytest.approx(angle**2, rel=1e-4)


def test_squared_angle_of_matrices_at_half_a_turn():
    half_turn = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
    assert lm.rotation_angle_squared(half_turn, torch.eye(3)).item() == pytest.approx(PI**2, rel=2e-3)


def test_slerp_runs_at_constant_rate_the_short_way():
    q1, q2 = quats(stream="a"), quats(stream="b")
    same_rotation(lm.quat_slerp(q1, q2, 0.0), q1)
    same_rotation(lm.quat_slerp(q1, q2, 1.0), q2)
    fraction = torch.linspace(0.0, 1.0, 200, dtype=torch.float64)
    total = lm.quat_error_magnitude(q1, q2)
    close(lm.quat_error_magnitude(q1, lm.quat_slerp(q1, q2, fraction)), fraction * total)
    same_rotation(lm.quat_slerp(q1, -q2, fraction), lm.quat_slerp(q1, q2, fraction))
    close(lm.quat_slerp(q1, q1, 0.3), q1)


def test_unique_sign():
    q = quats()
    assert (lm.quat_unique(q)[:, 3] >= 0.0).all()
    same_rotation(lm.quat_unique(q), q)
    assert torch.equal(lm.quat_unique(-q), lm.quat_unique(q))


def test_random_orientations_are_uniform_and_repeat():
    q = lm.random_orientation((50_000,), make_generator(1))
    assert torch.equal(q, lm.random_orientation((50_000,), make_generator(1)))
    assert lm.random_orientation((2, 3), make_generator(1)).shape == (2, 3, 4)
    close(q.norm(dim=-1), torch.ones(50_000), 1e-5)
    turned = lm.quat_apply(q, torch.tensor([1.0, 0.0, 0.0]))
    close(turned.mean(dim=0), torch.zeros(3), 0.02)
    close(turned.square().mean(dim=0), torch.full((3,), 1.0 / 3.0), 0.02)
    # density of the angle of a uniform rotation: (1 - cos t) / pi, mean pi/2 + 2/pi
    assert lm.quat_log(q).norm(dim=-1).mean().item() == pytest.approx(PI / 2 + 2 / PI, abs=0.02)


# Matrices, six numbers, Euler angles


def test_matrix_is_a_rotation_and_acts_like_the_quaternion():
    q, v = quats(), vectors()
    matrix = lm.matrix_from_quat(q)
    close(matrix @ matrix.mT, torch.eye(3, dtype=torch.float64).expand_as(matrix))
    close(torch.linalg.det(matrix), torch.ones(200, dtype=torch.float64))
    close((matrix @ v[..., None]).squeeze(-1), lm.quat_apply(q, v))


def test_quat_from_matrix_in_every_branch():
    halves = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    near = lm.normalize(halves.double() + 1e-9)
    for q in (quats(), lm.normalize(halves.double()), near):
        same_rotation(lm.quat_from_matrix(lm.matrix_from_quat(q)), q)
    close(lm.quat_from_matrix(lm.matrix_from_quat(quats())), lm.quat_unique(quats()))


def test_rotation_6d_is_the_first_two_columns_row_by_row():
    matrix = lm.matrix_from_quat(quats())
    six = lm.rotation_6d_from_matrix(matrix)
    assert torch.equal(six[0], torch.stack([matrix[0, row, col] for row in range(3) for col in range(2)]))
    close(lm.matrix_from_rotation_6d(six), matrix)


def test_rotation_6d_of_any_numbers_is_a_rotation():
    six = torch.randn(200, 6, generator=make_generator(0), dtype=torch.float64)
    matrix = lm.matrix_from_rotation_6d(six)
    close(matrix @ matrix.mT, torch.eye(3, dtype=torch.float64).expand_as(matrix))
    close(torch.linalg.det(matrix), torch.ones(200, dtype=torch.float64))
    first = six.unflatten(-1, (3, 2))[..., 0]
    close(matrix[..., 0], first / first.norm(dim=-1, keepdim=True))


def test_degenerate_rotation_6d_is_the_identity():
    column = torch.tensor([1.0, 2.0, 3.0])
    zero, half = torch.zeros(3), 0.5 * column
    for first, second in ((zero, column), (column, zero), (column, half), (zero, zero)):
        six = torch.stack((first, second), dim=-1).flatten()
        assert torch.equal(lm.matrix_from_rotation_6d(six), torch.eye(3))


def test_euler_angles_turn_about_fixed_axes_in_order():
    roll, pitch, yaw = vectors().unbind(-1)
    x, y, z = torch.eye(3, dtype=torch.float64).unbind(0)
    pitch_roll = lm.quat_mul(lm.quat_from_angle_axis(pitch, y), lm.quat_from_angle_axis(roll, x))
    expected = lm.quat_mul(lm.quat_from_angle_axis(yaw, z), pitch_roll)
    close(lm.quat_from_euler_xyz(roll, pitch, yaw), expected)


def test_euler_round_trip():
    for q in (quats(), -quats()):
        roll, pitch, yaw = lm.euler_xyz_from_quat(q)
        same_rotation(lm.quat_from_euler_xyz(roll, pitch, yaw), q)
        assert roll.abs().max() <= PI and pitch.abs().max() <= PI / 2 and yaw.abs().max() <= PI
    angles = [torch.tensor([a], dtype=torch.float64) for a in (3.0, -1.2, -2.9)]
    for actual, expected in zip(lm.euler_xyz_from_quat(lm.quat_from_euler_xyz(*angles)), angles, strict=True):
        close(actual, expected)


@pytest.mark.parametrize("pitch", [PI / 2, PI / 2 - 1e-4, PI / 2 - 1e-7, -PI / 2, -PI / 2 + 1e-5])
def test_euler_angles_rebuild_the_rotation_near_the_pole_in_float32(pitch):
    roll, yaw = torch.linspace(-3, 3, 50), torch.linspace(2, -2, 50)
    q = lm.quat_from_euler_xyz(roll, torch.full((50,), pitch), yaw)
    rebuilt = lm.euler_xyz_from_quat(q)
    same_rotation(lm.quat_from_euler_xyz(*rebuilt), q, 1e-5)
    close(rebuilt[1], torch.full((50,), pitch), 1e-6)


# Angles


@settings(deadline=None)
@given(angle=st.floats(-1e4, 1e4))
def test_wrap_to_pi_stays_in_range_and_on_the_circle(angle):
    wrapped = lm.wrap_to_pi(torch.tensor(angle, dtype=torch.float64)).item()
    assert abs(wrapped) <= PI + 1e-9
    assert math.remainder(wrapped - angle, 2 * PI) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wrap_to_pi_at_the_seam(dtype):
    angles = torch.tensor([PI, -PI, 0.0, 1e-7, -1e-7], dtype=dtype)
    assert torch.equal(lm.wrap_to_pi(angles), angles)
    three_pi = torch.tensor([3 * PI, -3 * PI], dtype=torch.float64)
    close(lm.wrap_to_pi(three_pi), torch.tensor([PI, -PI], dtype=torch.float64))
    close(lm.wrap_to_pi(torch.tensor([PI + 0.1, -PI - 0.1])), torch.tensor([-PI + 0.1, PI - 0.1]), 1e-6)


def test_normalize():
    v = vectors()
    close(lm.normalize(v).norm(dim=-1), torch.ones(200, dtype=torch.float64))
    assert torch.equal(lm.normalize(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert lm.normalize(torch.tensor([float("nan"), 0.0])).isnan().any(), "a fault must stay visible"


# Heading


def test_heading_is_the_yaw_of_the_euler_angles():
    roll, yaw = torch.linspace(-3, 3, 100, dtype=torch.float64), torch.linspace(PI, -PI, 100, dtype=torch.float64)
    for pitch in (0.0, 1.3, -0.7):
        q = lm.quat_from_euler_xyz(roll, torch.full_like(roll, pitch), yaw)
        close(lm.wrap_to_pi(lm.heading(q) - yaw), torch.zeros_like(yaw))
        same_rotation(lm.yaw_quat(q), lm.quat_from_euler_xyz(0 * yaw, 0 * yaw, yaw))


def _pitched(pitch: float, yaw: float) -> torch.Tensor:
    return lm.quat_from_euler_xyz(*(torch.tensor([a], dtype=torch.float64) for a in (0.0, pitch, yaw)))


def test_heading_with_a_previous_value_holds_it_near_the_pole():
    previous = torch.tensor([0.5], dtype=torch.float64)
    lengths = [0.0, 0.03, 0.05, 0.08, 0.125, 0.17, 0.2, 0.5]
    values = [lm.heading(_pitched(math.acos(length), 1.5), previous).item() for length in lengths]
    assert values[:3] == pytest.approx([0.5] * 3)
    assert values[-2:] == pytest.approx([1.5] * 2)
    assert values == sorted(values)
    assert values[4] == pytest.approx(1.0), "half way where the weight is a half"


def test_heading_moves_from_the_previous_value_across_the_seam():
    previous = torch.tensor([PI - 0.1], dtype=torch.float64)
    value = lm.heading(_pitched(math.acos(0.125), -PI + 0.1), previous)
    assert abs(value.item()) == pytest.approx(PI)


# Frames


def test_subtract_inverts_combine():
    pos, quat = vectors(stream="p"), quats(stream="a")
    pos_12, quat_12 = vectors(stream="q"), quats(stream="b")
    pos_02, quat_02 = lm.combine_frame_transforms(pos, quat, pos_12, quat_12)
    back = lm.subtract_frame_transforms(pos, quat, pos_02, quat_02)
    close(back[0], pos_12)
    close(back[1], quat_12)


def test_frames_match_homogeneous_matrices():
    def homogeneous(pos: torch.Tensor, quat: torch.Tensor) -> np.ndarray:
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = lm.matrix_from_quat(quat), pos
        return matrix

    (pos, pos_12), (quat, quat_12) = vectors(2), quats(2)
    combined = lm.combine_frame_transforms(pos, quat, pos_12, quat_12)
    np.testing.assert_allclose(homogeneous(*combined), homogeneous(pos, quat) @ homogeneous(pos_12, quat_12))
    points = vectors(5)
    expected = (homogeneous(pos, quat) @ np.c_[points.numpy(), np.ones(5)].T).T[:, :3]
    np.testing.assert_allclose(lm.transform_points(points, pos, quat), expected)


def test_transform_points_of_a_batch():
    points, pos, quat = vectors(12).reshape(4, 3, 3), vectors(4, stream="p"), quats(4)
    moved = lm.transform_points(points, pos, quat)
    close(moved[2, 1], lm.quat_apply(quat[2], points[2, 1]) + pos[2])


def test_link_and_com_velocities():
    quat, com, com_vel, ang_vel = quats(), vectors(stream="c"), vectors(stream="v"), vectors(stream="w")
    link_vel = lm.link_lin_vel_from_com(com_vel, ang_vel, quat, com)
    close(lm.com_lin_vel_from_link(link_vel, ang_vel, quat, com), com_vel)
    # both points move with the body: compare with the displacement over a short time
    dt = 1e-6
    before = lm.quat_apply(quat, com)
    after = lm.quat_apply(lm.quat_box_plus(quat, ang_vel * dt), com) + link_vel * dt
    close((after - before) / dt, com_vel, 1e-4)


def test_quaternions_of_two_precisions_multiply_in_the_higher_one():
    single, double = torch.tensor([0.0, 0.0, 0.6, 0.8]), torch.tensor([0.6, 0.0, 0.0, 0.8], dtype=torch.float64)
    product = lm.quat_mul(single, double)
    assert product.dtype == torch.float64
    torch.testing.assert_close(product, lm.quat_mul(single.double(), double))
