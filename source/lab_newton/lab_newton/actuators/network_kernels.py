"""Kernels of recurrent networks as actuator models."""

from __future__ import annotations

from functools import cache

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func
def _sigmoid(x: wp.float32):
    return 1.0 / (1.0 + wp.exp(-x))


@cache
def network_kernels(cells: int) -> tuple[wp.Kernel, wp.Kernel]:
    """Returns the kernels that step and reset networks of ``cells`` cells per layer."""
    vector = wp.types.vector(cells, wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def step_network(
        joints: wp.array[wp.int32],
        num_joints: wp.int32,
        positions: wp.array[wp.float32],
        velocities: wp.array[wp.float32],
        target_pos: wp.array[wp.float32],
        pos_indices: wp.array[wp.uint32],
        vel_indices: wp.array[wp.uint32],
        target_pos_indices: wp.array[wp.uint32],
        weight_in: wp.array2d[vector],
        weight_hidden: wp.array2d[vector],
        bias: wp.array2d[wp.float32],
        weight_out: vector,
        bias_out: wp.float32,
        in_scale: wp.vec2,
        out_scale: wp.float32,
        hidden: wp.array3d[vector],
        cell: wp.array3d[vector],
        efforts: wp.array[wp.float32],
    ):
        """Launch over (N, joints of the network)."""
        world, i = wp.tid()
        slot = world * num_joints + joints[i]
        x = vector()
        x[0] = in_scale[0] * (target_pos[target_pos_indices[slot]] - positions[pos_indices[slot]])
        x[1] = in_scale[1] * velocities[vel_indices[slot]]
        for layer in range(bias.shape[0]):
            h = hidden[world, i, layer]
            c = cell[world, i, layer]
            h_next = vector()
            for k in range(wp.static(cells)):
                row = k
                gate_in = bias[layer, row] + wp.dot(weight_in[layer, row], x) + wp.dot(weight_hidden[layer, row], h)
                row += wp.static(cells)
                forget = bias[layer, row] + wp.dot(weight_in[layer, row], x) + wp.dot(weight_hidden[layer, row], h)
                row += wp.static(cells)
                value = bias[layer, row] + wp.dot(weight_in[layer, row], x) + wp.dot(weight_hidden[layer, row], h)
                row += wp.static(cells)
                gate_out = bias[layer, row] + wp.dot(weight_in[layer, row], x) + wp.dot(weight_hidden[layer, row], h)
                c[k] = _sigmoid(forget) * c[k] + _sigmoid(gate_in) * wp.tanh(value)
                h_next[k] = _sigmoid(gate_out) * wp.tanh(c[k])
            hidden[world, i, layer] = h_next
            cell[world, i, layer] = c
            x = h_next
        efforts[slot] = efforts[slot] + out_scale * (wp.dot(weight_out, x) + bias_out)

    @wp.kernel(module="unique", enable_backward=False)
    def reset_network(mask: wp.array[wp.bool], hidden: wp.array3d[vector], cell: wp.array3d[vector]):
        """Launch over (N, joints of the network)."""
        world, i = wp.tid()
        if mask[world]:
            for layer in range(hidden.shape[2]):
                hidden[world, i, layer] = vector()
                cell[world, i, layer] = vector()

    return step_network, reset_network
