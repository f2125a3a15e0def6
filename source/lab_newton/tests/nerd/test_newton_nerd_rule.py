"""The rule that moves poses is that of the solver that models learn from, through Newton's own arrays."""

from __future__ import annotations

import torch
import warp as wp

from lab_newton.backend import NewtonBackend
from lab_newton.nerd import Representation, RobotLayout


def test_of_a_cart_pole(cart_pole):
    check_rule(cart_pole)


def test_of_a_floating_robot_in_the_air_and_in_contact(rover):
    check_rule(rover)


def check_rule(backend: NewtonBackend) -> None:
    layout = RobotLayout.from_model(backend._model, backend.dt)
    representation = Representation(layout).to(backend.device)
    data = backend.entities["robot"]
    generator = torch.Generator(device=backend.device).manual_seed(0)
    data.joint_vel.normal_(generator=generator)
    if layout.floating:
        data.root_com_vel_w.normal_(generator=generator)
        data.root_link_pose_w[1, 2] += 2.0  # one flies, the others are in contact
    backend.mark_written(torch.ones(backend.num_envs, dtype=torch.bool, device=backend.device))
    backend.forward()
    worst = torch.zeros(layout.num_velocities, device=backend.device)
    for _ in range(60):
        data.joint_effort_target.normal_(generator=generator)
        before = wp.to_torch(backend._state.joint_q).view(backend.num_envs, -1).clone()
        backend.step(1)
        after, qd = (
            wp.to_torch(x).view(backend.num_envs, -1) for x in (backend._state.joint_q, backend._state.joint_qd)
        )
        error = representation.pose_change(representation.integrate(before, qd), after)
        worst = torch.maximum(worst, error.abs().amax(dim=0))
    assert not backend.health().non_finite_envs
    assert worst.max() < 2e-6, dict(zip(representation.pose_names, worst.tolist(), strict=True))
