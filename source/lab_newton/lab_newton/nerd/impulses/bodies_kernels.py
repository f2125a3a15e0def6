"""Kernels of the equations of motion of a robot with a free root, in the frame of that root.

Spatial vectors (Featherstone) have their angular part first and are about the origin of the root: a motion (w, v) holds
the velocity of what passes there, a force (n, f) the torque about it. P parts move by themselves, the root first; V
velocities. Arrays have worlds in their last dimension, so that neighbouring threads read neighbouring numbers.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Robot:
    """What does not change."""

    body: wp.array[wp.int32]
    """(P,) body of each part in the slice of a world."""
    mass: wp.array[wp.float32]
    """(P,) of the part with all that is welded to it [kg]."""
    com: wp.array[wp.vec3]
    """(P,) its centre of mass, in the frame of its body [m]."""
    inertia: wp.array[wp.mat33]
    """(P,) about that, in the axes of its body [kg m^2]."""
    axis: wp.array[wp.vec3]
    """(P,) of the part's joint, in the frame of its body."""
    origin: wp.array[wp.vec3]
    """(P,) of that joint [m]."""
    is_hinge: wp.array[wp.bool]
    """(P,) whether the joint turns."""
    moves: wp.array2d[wp.bool]
    """(V, P) whether a velocity moves a part."""
    part: wp.array[wp.int32]
    """(V,) part that each velocity belongs to."""
    is_actuated: wp.array[wp.bool]
    """(V,) whether an effort acts on it."""
    armature: wp.array[wp.float32]
    """(V,) [kg m^2 or kg]."""
    damping: wp.array[wp.float32]
    """(V,) [N m s/rad or N s/m]."""
    root_com: wp.vec3
    """Centre of mass of the root's body alone, whose velocity the first three numbers are [m]."""
    gravity: wp.vec3
    """World frame [m/s^2]."""


@wp.struct
class State:
    """Of all worlds."""

    body_q: wp.array[wp.transform]
    joint_q: wp.array[wp.float32]
    joint_qd: wp.array[wp.float32]
    effort: wp.array[wp.float32]


@wp.func
def root_pose(state: State, robot: Robot, bodies: wp.int32, world: wp.int32) -> wp.transform:
    return state.body_q[world * bodies + robot.body[0]]


@wp.func
def cross_motion(a: wp.spatial_vector, b: wp.spatial_vector) -> wp.spatial_vector:
    """Rate of the motion ``b`` of what moves with ``a``."""
    angular, linear = wp.spatial_top(a), wp.spatial_bottom(a)
    return wp.spatial_vector(
        wp.cross(angular, wp.spatial_top(b)),
        wp.cross(angular, wp.spatial_bottom(b)) + wp.cross(linear, wp.spatial_top(b)),
    )


@wp.func
def momentum(mass: wp.float32, com: wp.vec3, inertia: wp.mat33, motion: wp.spatial_vector) -> wp.spatial_vector:
    """Of a body with ``inertia`` about ``com``."""
    angular = wp.spatial_top(motion)
    linear = mass * (wp.spatial_bottom(motion) + wp.cross(angular, com))
    return wp.spatial_vector(inertia * angular + wp.cross(com, linear), linear)


@wp.kernel
def place_parts(
    state: State,
    robot: Robot,
    bodies: wp.int32,
    com: wp.array2d[wp.vec3],
    inertia: wp.array2d[wp.mat33],
):
    """Centres of mass and inertias (P, N) in the frame of the root. Launch over (P, N)."""
    part, world = wp.tid()
    root = root_pose(state, robot, bodies, world)
    pose = wp.transform_multiply(wp.transform_inverse(root), state.body_q[world * bodies + robot.body[part]])
    turn = wp.quat_to_matrix(wp.transform_get_rotation(pose))
    com[part, world] = wp.transform_point(pose, robot.com[part])
    inertia[part, world] = turn * robot.inertia[part] * wp.transpose(turn)


@wp.kernel
def find_columns(
    state: State,
    robot: Robot,
    bodies: wp.int32,
    column: wp.array2d[wp.spatial_vector],
    velocity: wp.array2d[wp.float32],
):
    """Motion (V, N) that each velocity of 1 is, and the velocities (V, N) in the frame of the root. Launch over (V, N).

    The first six are of the root: of its centre of mass along three axes, and its turning about them.
    """
    dof, world = wp.tid()
    root = root_pose(state, robot, bodies, world)
    first = world * column.shape[0]
    if dof < 6:
        unit = wp.vec3(0.0)
        unit[dof % 3] = 1.0
        start = first + 3 * (dof // 3)
        given = wp.vec3(state.joint_qd[start], state.joint_qd[start + 1], state.joint_qd[start + 2])
        velocity[dof, world] = wp.quat_rotate_inv(wp.transform_get_rotation(root), given)[dof % 3]
        if dof < 3:
            column[dof, world] = wp.spatial_vector(wp.vec3(0.0), unit)
        else:
            column[dof, world] = wp.spatial_vector(unit, wp.cross(robot.root_com, unit))
        return
    part = robot.part[dof]
    pose = wp.transform_multiply(wp.transform_inverse(root), state.body_q[world * bodies + robot.body[part]])
    axis = wp.transform_vector(pose, robot.axis[part])
    velocity[dof, world] = state.joint_qd[first + dof]
    if robot.is_hinge[part]:
        column[dof, world] = wp.spatial_vector(axis, wp.cross(wp.transform_point(pose, robot.origin[part]), axis))
    else:
        column[dof, world] = wp.spatial_vector(wp.vec3(0.0), axis)


@wp.kernel
def find_part_motions(
    robot: Robot,
    column: wp.array2d[wp.spatial_vector],
    velocity: wp.array2d[wp.float32],
    motion: wp.array2d[wp.spatial_vector],
):
    """Motions (P, N) of the parts. Launch over (P, N)."""
    part, world = wp.tid()
    total = wp.spatial_vector()
    for dof in range(column.shape[0]):
        if robot.moves[dof, part]:
            total += velocity[dof, world] * column[dof, world]
    motion[part, world] = total


@wp.kernel
def find_part_forces(
    state: State,
    robot: Robot,
    bodies: wp.int32,
    column: wp.array2d[wp.spatial_vector],
    velocity: wp.array2d[wp.float32],
    motion: wp.array2d[wp.spatial_vector],
    com: wp.array2d[wp.vec3],
    inertia: wp.array2d[wp.mat33],
    force: wp.array2d[wp.spatial_vector],
):
    """Forces (P, N) that the parts need, beside gravity, where no velocity changes. Launch over (P, N)."""
    part, world = wp.tid()
    # The origin of the root accelerates about its centre of mass, which does not.
    spin = wp.spatial_top(motion[0, world])
    centre = wp.vec3(velocity[0, world], velocity[1, world], velocity[2, world])
    acceleration = wp.spatial_vector(wp.vec3(0.0), wp.cross(centre, spin))
    for dof in range(6, column.shape[0]):
        if robot.moves[dof, part]:
            acceleration += cross_motion(motion[robot.part[dof], world], velocity[dof, world] * column[dof, world])
    down = wp.quat_rotate_inv(wp.transform_get_rotation(root_pose(state, robot, bodies, world)), robot.gravity)
    acceleration -= wp.spatial_vector(wp.vec3(0.0), down)
    mass, centre_of_mass, about = robot.mass[part], com[part, world], inertia[part, world]
    held = momentum(mass, centre_of_mass, about, motion[part, world])
    angular, linear = wp.spatial_top(motion[part, world]), wp.spatial_bottom(motion[part, world])
    turning = wp.spatial_vector(
        wp.cross(angular, wp.spatial_top(held)) + wp.cross(linear, wp.spatial_bottom(held)),
        wp.cross(angular, wp.spatial_bottom(held)),
    )
    force[part, world] = momentum(mass, centre_of_mass, about, acceleration) + turning


@wp.kernel
def find_missing_forces(
    state: State,
    robot: Robot,
    column: wp.array2d[wp.spatial_vector],
    velocity: wp.array2d[wp.float32],
    com: wp.array2d[wp.vec3],
    inertia: wp.array2d[wp.mat33],
    force: wp.array2d[wp.spatial_vector],
    carried: wp.array2d[wp.spatial_vector],
    missing: wp.array2d[wp.float32],
):
    """Momenta (V, N) of all that a velocity of 1 moves, and what accelerates each velocity (V, N): efforts and gravity,
    less what turning parts and damping take. Launch over (V, N)."""
    dof, world = wp.tid()
    own = column[dof, world]
    total = wp.spatial_vector()
    needed = wp.float32(0.0)
    for part in range(com.shape[0]):
        if robot.moves[dof, part]:
            total += momentum(robot.mass[part], com[part, world], inertia[part, world], own)
            needed += wp.dot(own, force[part, world])
    carried[dof, world] = total
    effort = wp.float32(0.0)
    if robot.is_actuated[dof]:
        effort = state.effort[world * column.shape[0] + dof]
    missing[dof, world] = effort - needed - robot.damping[dof] * velocity[dof, world]


@wp.kernel
def assemble_masses(
    robot: Robot,
    dt: wp.float32,
    column: wp.array2d[wp.spatial_vector],
    carried: wp.array2d[wp.spatial_vector],
    matrix: wp.array3d[wp.float32],
):
    """Rows of the mass matrix (V, V, N), with the damping that acts at the end of a step. Launch over (V, N)."""
    row, world = wp.tid()
    for other in range(column.shape[0]):
        value = wp.float32(0.0)
        if robot.moves[other, robot.part[row]]:
            value = wp.dot(column[other, world], carried[row, world])
        elif robot.moves[row, robot.part[other]]:
            value = wp.dot(column[row, world], carried[other, world])
        matrix[row, other, world] = value
    matrix[row, row, world] += robot.armature[row] + dt * robot.damping[row]


@wp.kernel
def respond(
    inverse: wp.array3d[wp.float32],
    force: wp.array2d[wp.float32],
    dt: wp.float32,
    free: wp.array2d[wp.float32],
    change: wp.array2d[wp.float32],
):
    """Changes of velocity (V, N) by forces (V, N) in a step, once as those without contacts, and once as those that
    contacts are about to change. Launch over (V, N)."""
    row, world = wp.tid()
    total = wp.float32(0.0)
    for col in range(force.shape[0]):
        total += inverse[row, col, world] * force[col, world]
    free[row, world] = dt * total
    change[row, world] = dt * total


@wp.func
def exponential(turn: wp.vec3) -> wp.quat:
    """Rotation by the vector ``turn`` [rad]."""
    half = 0.5 * wp.length(turn)
    ratio = 0.5 - half * half / 12.0
    if half > 1.0e-3:
        ratio = 0.5 * wp.sin(half) / half
    return wp.quat(ratio * turn[0], ratio * turn[1], ratio * turn[2], wp.cos(half))


@wp.kernel
def move(
    state: State,
    robot: Robot,
    dt: wp.float32,
    change: wp.array2d[wp.float32],
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    """Adds changes of velocity (V, N) and moves poses by the velocities at the end. Launch over N.

    q' = q + dt qd', R' = Exp(dt w') R and, with the root's centre of mass c, p' = p + dt (v' - w' x R' c).
    """
    world = wp.tid()
    size = change.shape[0]
    q, qd = world * (size + 1), world * size
    turn = wp.quat(state.joint_q[q + 3], state.joint_q[q + 4], state.joint_q[q + 5], state.joint_q[q + 6])
    linear = wp.vec3(state.joint_qd[qd], state.joint_qd[qd + 1], state.joint_qd[qd + 2])
    spin = wp.vec3(state.joint_qd[qd + 3], state.joint_qd[qd + 4], state.joint_qd[qd + 5])
    linear += wp.quat_rotate(turn, wp.vec3(change[0, world], change[1, world], change[2, world]))
    spin += wp.quat_rotate(turn, wp.vec3(change[3, world], change[4, world], change[5, world]))
    turned = wp.normalize(exponential(dt * spin) * turn)
    velocity = linear - wp.cross(spin, wp.quat_rotate(turned, robot.root_com))
    for axis in range(3):
        joint_q[q + axis] = state.joint_q[q + axis] + dt * velocity[axis]
        joint_qd[qd + axis] = linear[axis]
        joint_qd[qd + 3 + axis] = spin[axis]
    for axis in range(4):
        joint_q[q + 3 + axis] = turned[axis]
    for dof in range(6, size):
        speed = state.joint_qd[qd + dof] + change[dof, world]
        joint_qd[qd + dof] = speed
        joint_q[q + 1 + dof] = state.joint_q[q + 1 + dof] + dt * speed
