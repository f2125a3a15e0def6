"""An exported policy, its metadata and the robot's model file are all that another simulator needs."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import mujoco
import numpy as np
import pytest

from lab_core.registry import get_task

TASK = "Lab-Velocity-Rough-Go2"


class Controller:
    """Computes joint efforts from the state of a MuJoCo model, as the metadata of a policy say, on flat ground."""

    def __init__(self, path: str, model: mujoco.MjModel) -> None:
        onnxruntime = pytest.importorskip("onnxruntime")
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.lab: dict[str, Any] = json.loads(self.session.get_modelmeta().custom_metadata_map["lab"])
        (action,) = self.lab["actions"]
        robot = self.lab["entities"][action["entity"]]
        at = [robot["joint_names"].index(name) for name in action["joint_names"]]
        self.default, self.kp, self.kd, self.limit = (
            np.array(robot[field])[at]
            for field in ("default_joint_pos", "joint_stiffness", "joint_damping", "joint_effort_limits")
        )
        joints = [model.joint(name) for name in action["joint_names"]]
        self.q, self.v = np.array([joint.qposadr[0] for joint in joints]), np.array([j.dofadr[0] for j in joints])
        self.scale, self.offset = np.array(action["scale"]), np.array(action["offset"])
        self.com = model.body("base").ipos
        self.action = np.zeros(len(at), dtype=np.float32)

    def act(self, data: mujoco.MjData, command: tuple[float, float, float]) -> None:
        parts = [np.clip(self.observe(term, data, command), *(term["clip"] or (-np.inf, np.inf)))
                 for term in self.lab["observations"]]  # fmt: skip
        (actions,) = self.session.run(["actions"], {"obs": np.concatenate(parts)[None].astype(np.float32)})
        self.action = actions[0]

    def observe(self, term: dict[str, Any], data: mujoco.MjData, command: tuple[float, float, float]) -> np.ndarray:
        to_base = data.body("base").xmat.reshape(3, 3).T
        turning = data.qvel[3:6]
        match term["function"]:
            case "base_lin_vel":
                return to_base @ data.qvel[:3] + np.cross(turning, self.com)
            case "base_ang_vel":
                return turning
            case "projected_gravity":
                return to_base @ (0.0, 0.0, -1.0)
            case "generated_commands":
                return np.array(command)
            case "joint_pos_rel":
                return data.qpos[self.q] - self.default
            case "joint_vel_rel":
                return data.qvel[self.v]
            case "last_action":
                return self.action
            case "height_scan":
                return np.full(term["width"], data.body("base").xpos[2] - term["params"]["offset"])
        raise AssertionError(f"unknown observation {term['function']}")

    def apply_efforts(self, data: mujoco.MjData) -> None:
        target = self.offset + self.scale * self.action
        efforts = self.kp * (target - data.qpos[self.q]) - self.kd * data.qvel[self.v]
        data.qfrc_applied[self.v] = efforts.clip(-self.limit, self.limit)


def flat_world(timestep: float) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(str(files("lab_tasks") / "robots/go2/go2.xml"))
    for geom in spec.geoms:  # touch the ground, but not each other
        geom.contype, geom.conaffinity = 0, geom.contype
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[20.0, 20.0, 0.1])
    spec.option.timestep = timestep
    return spec.compile()


@pytest.mark.parametrize("command", [(0.8, 0.0, 0.0), (-0.8, 0.0, 0.0), (0.0, 0.6, 0.0), (0.5, 0.0, 0.8)])
def test_the_demo_of_the_go2_walks_in_plain_mujoco(command):
    path = str(get_task(TASK).demo_path())
    model = flat_world(timestep=0.005)
    data = mujoco.MjData(model)
    controller = Controller(path, model)
    timing = controller.lab["timing"]
    assert model.opt.timestep == timing["physics_dt"]
    data.qpos[:7] = 0.0, 0.0, 0.4, 1.0, 0.0, 0.0, 0.0
    data.qpos[controller.q] = controller.default
    mujoco.mj_forward(model, data)
    velocities = []
    for step in range(250):
        controller.act(data, command)
        for _ in range(timing["decimation"]):
            controller.apply_efforts(data)
            mujoco.mj_step(model, data)
        if step >= 50:
            to_base = data.body("base").xmat.reshape(3, 3).T
            velocities.append([*(to_base @ data.qvel[:3])[:2], data.qvel[5]])
    assert data.body("base").xpos[2] > 0.2, "it fell"
    np.testing.assert_allclose(np.mean(velocities, axis=0), np.array(command), atol=0.2)
