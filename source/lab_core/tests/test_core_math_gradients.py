"""Gradients of the rotation maths: right limits at the points where the usual formulas give NaN or zero."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from lab_core import math as lm
from lab_core.seeding import make_generator

PI = math.pi
IDENTITY = [0.0, 0.0, 0.0, 1.0]


def grad(function, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [value.clone().requires_grad_() for value in inputs]
    return torch.autograd.grad(function(*leaves).sum(), leaves)


def jacobian(function, value: list[float] | torch.Tensor) -> torch.Tensor:
    result = torch.autograd.functional.jacobian(function, torch.as_tensor(value, dtype=torch.float64))
    assert isinstance(result, torch.Tensor)
    return result


def random_quats(count: int, stream: str = "") -> torch.Tensor:
    quat = lm.random_orientation((count,), make_generator(2, stream=stream)).double()
    return lm.normalize(quat).requires_grad_()


def random_vectors(count: int, stream: str = "v") -> torch.Tensor:
    draws = torch.randn(count, 3, generator=make_generator(2, stream=stream), dtype=torch.float64)
    return draws.requires_grad_()


ONE_QUAT = {
    "quat_log": lm.quat_log,
    "quat_inv": lm.quat_inv,
    "matrix_from_quat": lm.matrix_from_quat,
    "quat_matrix_quat": lambda q: lm.quat_from_matrix(lm.matrix_from_quat(q)),
    "rotation_6d": lambda q: lm.matrix_from_rotation_6d(lm.rotation_6d_from_matrix(lm.matrix_from_quat(q))),
    "euler_xyz_from_quat": lambda q: torch.stack(lm.euler_xyz_from_quat(q)),
}
TWO_QUATS = {
    "quat_mul": lm.quat_mul,
    "quat_box_minus": lm.quat_box_minus,
    "quat_error_magnitude": lm.quat_error_magnitude,
    "quat_angle_squared": lm.quat_angle_squared,
    "quat_slerp": lambda a, b: lm.quat_slerp(a, b, 0.3),
    "rotation_angle_squared": lambda a, b: lm.rotation_angle_squared(lm.matrix_from_quat(a), lm.matrix_from_quat(b)),
}


@pytest.mark.parametrize("name", ONE_QUAT)
def test_random_quaternions(name):
    assert gradcheck(ONE_QUAT[name], random_quats(8))


@pytest.mark.parametrize("name", TWO_QUATS)
def test_random_pairs(name):
    assert gradcheck(TWO_QUATS[name], (random_quats(8, "a"), random_quats(8, "b")))


def test_random_vectors_and_rotations():
    quats, vectors = random_quats(8), random_vectors(8)
    assert gradcheck(lm.quat_exp, vectors)
    assert gradcheck(lm.quat_apply, (quats, vectors))
    assert gradcheck(lm.quat_apply_inverse, (quats, vectors))
    assert gradcheck(lm.quat_box_plus, (quats, vectors))
    assert gradcheck(lm.normalize, vectors)
    assert gradcheck(lm.wrap_to_pi, 3.0 * vectors)
    assert gradcheck(lm.link_lin_vel_from_com, (vectors, random_vectors(8, "w"), quats, random_vectors(8, "c")))


# Each test below is one row of the table of places where gradients break.


@pytest.mark.parametrize("w", [1.0, -1.0, 2.0, -2.0])
def test_log_at_no_rotation(w):
    expected = torch.cat((2.0 / w * torch.eye(3), torch.zeros(3, 1)), dim=1).double()
    torch.testing.assert_close(jacobian(lm.quat_log, [0.0, 0.0, 0.0, w]), expected)


@pytest.mark.parametrize("length", [1e-12, 1e-8, 9.9e-6, 1.01e-5, 1e-3, 1.0, PI - 1e-3])
def test_log_across_its_two_formulas(length):
    quat = lm.quat_exp(length * lm.normalize(random_vectors(4))).detach()
    for sign in (1.0, -1.0):
        assert gradcheck(lm.quat_log, (sign * quat).requires_grad_(), eps=1e-7 * min(1.0, max(length, 1e-3)), atol=1e-4)


def test_log_at_half_a_turn_is_finite_and_keeps_the_slope_in_w():
    # 2 atan2(n, w) has slope -2 in w there; |w| would give 0
    slope = jacobian(lm.quat_log, [1.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(slope[:, 3], torch.tensor([-2.0, 0.0, 0.0], dtype=torch.float64))
    assert slope.isfinite().all()


def test_box_minus_of_equal_rotations():
    quat = random_quats(1)[0].detach()
    for other in (quat, -quat):
        # turning the first argument by a small vector changes the difference by that vector
        change = jacobian(lambda d, q2=other: lm.quat_box_minus(lm.quat_box_plus(quat, d), q2), torch.zeros(3))
        torch.testing.assert_close(change, torch.eye(3, dtype=torch.float64))


def test_error_magnitude_of_equal_rotations_has_subgradient_zero():
    quat = torch.tensor(IDENTITY)
    for other in (quat, -quat):
        gradient, _ = grad(lm.quat_error_magnitude, quat, other)
        assert torch.equal(gradient[:3], torch.zeros(3)) and gradient.isfinite().all()


@pytest.mark.parametrize("squared", [lm.quat_angle_squared, TWO_QUATS["rotation_angle_squared"]])
def test_squared_angle_and_its_exponential_at_equal_rotations(squared):
    quat = random_quats(16).detach().float()
    for function in (squared, lambda a, b: torch.exp(-squared(a, b) / 0.16)):
        for gradient in grad(function, quat, quat):
            assert gradient.isfinite().all() and gradient.abs().max() < 1e-4


def test_squared_angle_of_matrices_has_slope_two_at_zero():
    # x = |R1 - R2|^2 / 4, so d(angle^2)/dR = 2 dx/dR = R1 - R2 to first order
    offset = torch.full((3, 3), 1e-9, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)
    gradient, _ = grad(lm.rotation_angle_squared, eye + offset, eye)
    torch.testing.assert_close(gradient, offset, rtol=1e-6, atol=0.0)


def test_squared_angle_of_matrices_at_half_a_turn_is_finite():
    half_turn = torch.diag(torch.tensor([1.0, -1.0, -1.0]))
    for gradient in grad(lm.rotation_angle_squared, half_turn, torch.eye(3)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("angle", [0.1414, 0.1415, 0.5, 3.1])
def test_squared_angle_of_matrices_across_its_two_formulas(angle):
    quat = lm.quat_exp(angle * lm.normalize(random_vectors(4))).detach().requires_grad_()
    eye = torch.eye(3, dtype=torch.float64)
    assert gradcheck(lambda q: lm.rotation_angle_squared(lm.matrix_from_quat(q), eye), quat)


def test_exp_and_box_plus_at_zero():
    expected = torch.cat((0.5 * torch.eye(3), torch.zeros(1, 3))).double()
    torch.testing.assert_close(jacobian(lm.quat_exp, torch.zeros(3)), expected)
    identity = torch.tensor(IDENTITY, dtype=torch.float64)
    torch.testing.assert_close(jacobian(lambda d: lm.quat_box_plus(identity, d), torch.zeros(3)), expected)


@pytest.mark.parametrize("length", [1e-8, 9.9e-5, 1.01e-4, 1.0, PI, 2 * PI])
def test_exp_across_its_two_formulas(length):
    assert gradcheck(lm.quat_exp, (length * lm.normalize(random_vectors(4))).detach().requires_grad_(), eps=1e-7)


def test_slerp_of_equal_rotations():
    quat = random_quats(8).detach()
    for gradient in grad(lambda a, b: lm.quat_slerp(a, b, 0.4), quat, quat):
        assert gradient.isfinite().all() and gradient.abs().max() < 10.0


def test_normalize_of_zero_has_gradient_zero():
    assert torch.equal(grad(lm.normalize, torch.zeros(3))[0], torch.zeros(3))


@pytest.mark.parametrize("pitch", [PI / 2, -PI / 2, PI / 2 - 1e-3, PI / 2 - 0.04])
def test_heading_has_no_gradient_near_the_pole(pitch):
    angles = (torch.tensor([0.3]), torch.tensor([pitch]), torch.tensor([1.0]))
    quat = lm.quat_from_euler_xyz(*angles)
    for previous in (None, torch.tensor([0.2])):
        for function in (lm.heading, lm.yaw_quat):
            assert torch.equal(grad(lambda q: function(q, previous), quat)[0], torch.zeros(1, 4))  # noqa: B023


def test_heading_gradient_is_bounded_on_the_way_to_the_pole():
    pitch = torch.linspace(-PI / 2, PI / 2, 20_001)
    for previous in (None, torch.zeros(20_001)):
        quat = lm.quat_from_euler_xyz(torch.full_like(pitch, 0.3), pitch, torch.full_like(pitch, 3.0))
        gradient = grad(lambda q: lm.heading(q, previous), quat)[0]  # noqa: B023
        assert gradient.isfinite().all() and gradient.norm(dim=-1).max() < 100.0


@pytest.mark.parametrize("pitch", [0.0, 1.3, -1.3, PI, 2.0])
def test_heading_gradient_is_exact_away_from_the_pole(pitch):
    roll, yaw = torch.tensor([0.4, -2.0]).double(), torch.tensor([0.3, 2.5]).double()
    quat = lm.quat_from_euler_xyz(roll, torch.full_like(roll, pitch), yaw).requires_grad_()
    assert gradcheck(lm.heading, quat)
    assert gradcheck(lm.yaw_quat, quat)


def test_blended_heading_gradient_is_that_of_its_value():
    lengths = torch.tensor([0.06, 0.1, 0.15, 0.19]).double()
    zero = torch.zeros_like(lengths)
    quat = lm.quat_from_euler_xyz(zero, torch.acos(lengths), zero + 0.5).requires_grad_()
    assert gradcheck(lambda q: lm.heading(q, zero), quat)


def test_euler_angles_at_the_pole_are_finite():
    quat = lm.quat_from_euler_xyz(torch.zeros(1), torch.full((1,), PI / 2), torch.zeros(1))
    exact = torch.tensor([[0.0, 0.5, 0.0, 0.5]])  # w - y and x + z are exactly zero
    for value in (quat, exact):
        assert grad(lambda q: torch.stack(lm.euler_xyz_from_quat(q)), value)[0].isfinite().all()


def test_matrix_of_the_zero_quaternion_is_finite():
    assert lm.matrix_from_quat(torch.zeros(4)).isfinite().all()
    assert grad(lm.matrix_from_quat, torch.zeros(4))[0].isfinite().all()


@pytest.mark.parametrize("quat", [IDENTITY, [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
def test_quat_from_matrix_at_no_and_half_a_turn(quat):
    matrix = lm.matrix_from_quat(torch.tensor(quat))
    gradient = grad(lambda m: lm.quat_from_matrix(m).square()[..., :2], matrix)[0]
    assert gradient.isfinite().all() and gradient.abs().max() < 10.0


@pytest.mark.parametrize("second", [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 5e-5, 0.0]])
def test_degenerate_rotation_6d_has_gradient_zero(second):
    six = torch.stack((torch.tensor([1.0, 0.0, 0.0]), torch.tensor(second)), dim=-1).flatten()
    for value in (six, torch.zeros(6)):
        assert torch.equal(grad(lm.matrix_from_rotation_6d, value)[0], torch.zeros(6))


@pytest.mark.parametrize("length", [0.0, 1e-38, 1e-20, 1e-10, 1e-7, 1e-5, 1e-4, 1e-3])
def test_float32_stays_finite_near_zero(length):
    delta = torch.tensor([[length, 0.0, 0.0], [length, -length, length]])
    quat = lm.quat_exp(delta)
    gradient = grad(lm.quat_exp, delta)[0]
    assert gradient.isfinite().all() and gradient.abs().max() <= 0.51
    for sign in (1.0, -1.0):
        for function in (
            lm.quat_log,
            lambda q: lm.quat_box_minus(q, torch.tensor(IDENTITY)),
            lambda q: lm.quat_error_magnitude(q, torch.tensor(IDENTITY)),
            lambda q: lm.quat_angle_squared(q, torch.tensor(IDENTITY)),
        ):
            gradient = grad(function, sign * quat)[0]
            assert gradient.isfinite().all() and gradient.abs().max() < 10.0
