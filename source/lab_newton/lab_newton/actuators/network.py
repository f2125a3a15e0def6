"""Recurrent networks as actuator models, inside the physics graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import LSTMActuatorCfg
from lab_newton.actuators.drive import Drive
from lab_newton.actuators.network_kernels import network_kernels
from lab_newton.robot_files import asset_path
from lab_newton.state import NewtonEntity


class DriveNetwork(Drive):
    """An LSTM with a linear output, with a memory for each of its joints in each world.

    effort = out_scale * (W h + b), h from the last layer of the LSTM over in_scale * [q* - q, v].

    Raises:
        ConfigError: there is no such file, or it holds another kind of network.
    """

    def __init__(self, cfg: LSTMActuatorCfg, joints: Sequence[int], entity: NewtonEntity) -> None:
        weights = read_weights(f"Actuator of {entity.layout.joint_names[joints[0]]!r}", cfg.network_file)
        layers, rows, hidden = weights["recurrent"].shape
        vector = wp.types.vector(hidden, wp.float32)
        self._shape = (entity.num_envs, len(joints))
        self._num_joints = len(entity.layout.joint_names)
        with wp.ScopedDevice(entity.device):
            self._joints = wp.array(list(joints), dtype=wp.int32)
            self._weights = [
                wp.array(weights["input"].numpy(), dtype=vector, shape=(layers, rows)),
                wp.array(weights["recurrent"].numpy(), dtype=vector, shape=(layers, rows)),
                wp.array(weights["bias"].numpy(), dtype=wp.float32),
            ]
            self._memory = {name: wp.zeros((*self._shape, layers), dtype=vector) for name in ("hidden", "cell")}
        self._output = vector(*weights["output"].tolist())
        self._constants = [float(weights["output_bias"]), wp.vec2(*weights["in_scale"].tolist())]
        self._constants.append(float(weights["out_scale"]))
        self._step_kernel, self._reset_kernel = network_kernels(hidden)

    def change_efforts(
        self,
        positions: wp.array,
        velocities: wp.array,
        target_pos: wp.array,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        efforts: wp.array,
    ) -> None:
        """Advances the memories by a physics step and adds the network's efforts."""
        wp.launch(
            self._step_kernel,
            dim=self._shape,
            inputs=[self._joints, self._num_joints, positions, velocities, target_pos]
            + [pos_indices, vel_indices, target_pos_indices]
            + [*self._weights, self._output, *self._constants],
            outputs=[*self._memory.values(), efforts],
            device=efforts.device,
        )

    def reset(self, mask: wp.array) -> None:
        wp.launch(
            self._reset_kernel, dim=self._shape, inputs=[mask], outputs=[*self._memory.values()], device=mask.device
        )

    def memory(self) -> dict[str, torch.Tensor]:
        """Hidden and cell state, each (N, joints, layers, hidden)."""
        return {name: wp.to_torch(array) for name, array in self._memory.items()}


def read_weights(what: str, network_file: str) -> dict[str, torch.Tensor]:
    """Returns the weights of an LSTM of L layers of H cells; rows of gates in the order input, forget, cell, output.

    ``input`` and ``recurrent`` (L, 4 H, H), the first layer's two inputs filled up with zeros; ``bias`` (L, 4 H);
    ``output`` (H,), ``output_bias`` (), ``in_scale`` (2,), ``out_scale`` ().

    Raises:
        ConfigError: there is no such file, or it holds another kind of network.
    """
    path = asset_path(network_file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the file format is what drives are published in
            state = torch.jit.load(str(path), map_location="cpu").state_dict()
        layers = sum(name.startswith("lstm.weight_hh_l") for name in state)
        hidden = state["lstm.weight_hh_l0"].shape[1]
        inputs = torch.zeros(layers, 4 * hidden, hidden)
        inputs[0, :, :2] = state["lstm.weight_ih_l0"]
        for i in range(1, layers):
            inputs[i] = state[f"lstm.weight_ih_l{i}"]
        return {
            "input": inputs,
            "recurrent": torch.stack([state[f"lstm.weight_hh_l{i}"] for i in range(layers)]),
            "bias": torch.stack([state[f"lstm.bias_ih_l{i}"] + state[f"lstm.bias_hh_l{i}"] for i in range(layers)]),
            "output": state["linear.weight"].reshape(hidden),
            "output_bias": state["linear.bias"].reshape(()),
            "in_scale": state["in_scale"].reshape(2),
            "out_scale": state["out_scale"].reshape(()),
        }
    except (RuntimeError, KeyError) as error:
        raise ConfigError(
            f"{what}: {str(path)!r} is no TorchScript file of an LSTM from 2 inputs to 1 output with in_scale and "
            f"out_scale: {type(error).__name__}: {error}"
        ) from error
