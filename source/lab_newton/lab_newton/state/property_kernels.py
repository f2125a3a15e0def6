"""Kernels that hand changed properties to Newton's model."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def write_inertia(
    places: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    mass: wp.array2d[wp.float32],
    inertia: wp.array2d[wp.mat33],
    com: wp.array2d[wp.vec3],
    model_mass: wp.array[wp.float32],
    model_inverse_mass: wp.array[wp.float32],
    model_inertia: wp.array[wp.mat33],
    model_inverse_inertia: wp.array[wp.mat33],
    model_com: wp.array[wp.vec3],
):
    """Launch over (N, B)."""
    world, i = wp.tid()
    body = world * bodies_per_world + places[i]
    m = mass[world, i]
    tensor = inertia[world, i]
    model_mass[body] = m
    model_inertia[body] = tensor
    model_com[body] = com[world, i]
    model_inverse_mass[body] = wp.where(m > 0.0, 1.0 / m, 0.0)
    model_inverse_inertia[body] = wp.where(wp.determinant(tensor) > 0.0, wp.inverse(tensor), wp.mat33())


@wp.kernel
def write_friction(shapes: wp.array[wp.vec3i], friction: wp.array2d[wp.float32], model_friction: wp.array[wp.float32]):
    """Launch over all shapes of the entity."""
    place = shapes[wp.tid()]
    model_friction[place[0]] = friction[place[1], place[2]]


@wp.kernel
def write_joints(
    places: wp.array[wp.int32],
    dofs_per_world: wp.int32,
    values: wp.array2d[wp.float32],
    model_values: wp.array[wp.float32],
):
    """Launch over (N, J)."""
    world, joint = wp.tid()
    model_values[world * dofs_per_world + places[joint]] = values[world, joint]
