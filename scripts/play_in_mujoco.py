"""Plays an exported policy in plain MuJoCo: with the robot's model file, and what the policy's file says of itself.

    python scripts/play_in_mujoco.py policy.onnx cartpole.xml --seconds 5
    python scripts/play_in_mujoco.py policy.onnx go2.xml --command base_velocity 0.8 0 0 --viewer

Needs mujoco, numpy and onnxruntime, and no package of lab. :class:`Controller` knows nothing of MuJoCo either: it is
what a robot's own control program has to do. What it cannot do, it refuses by name. Not in the policy's file, and so
not played: the torque-speed line and the delay of motors, which a robot has by itself, and masses and friction, which
are what the model file says.
"""

# MuJoCo comes without types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnxruntime

FORMAT = "lab policy 1"


class UnsupportedError(Exception):
    """A policy needs what this program does not do."""


@dataclass
class Sensed:
    """What is known of the robot at one time. Joints are in the order of the policy's file."""

    joint_pos: np.ndarray
    joint_vel: np.ndarray
    rotation: np.ndarray
    """(3, 3) from the frame of the root body to the world, z up."""
    com_velocity: np.ndarray
    """(3,) of the root body's centre of mass, in the frame of the root body [m/s]."""
    angular_velocity: np.ndarray
    """(3,) of the root body, in its frame [rad/s]."""
    heights: Mapping[str, float]
    """Of bodies, above flat ground [m]."""


class Controller:
    """Turns what is sensed into joint efforts, as the policy's file says.

    Args:
        path: A file that ``lab export`` wrote.
        seed: For delays and losses of observations that are drawn.

    Raises:
        UnsupportedError: The policy needs something that is not done here; the message names it.
    """

    def __init__(self, path: str | Path, seed: int = 0) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.lab: dict[str, Any] = json.loads(self.session.get_modelmeta().custom_metadata_map.get("lab", "{}"))
        if self.lab.get("format") != FORMAT:
            raise UnsupportedError(f"{path} is of format {self.lab.get('format')!r}, not {FORMAT!r}.")
        self.action_cfg = _only_action(self.lab["actions"])
        robot = self.lab["entities"][self.action_cfg["entity"]]
        self.joint_names: list[str] = robot["joint_names"]
        self.body_names: list[str] = robot["body_names"]
        """The root first."""
        self.default_pos, self.default_vel, self.stiffness, self.damping = (
            np.array(robot[field])
            for field in ("default_joint_pos", "default_joint_vel", "joint_stiffness", "joint_damping")
        )
        self.effort_limits = _numbers(robot["joint_effort_limits"], null=np.inf)
        self.driven = self.joint_indices(self.action_cfg["joint_names"])
        self.scale, self.offset = np.array(self.action_cfg["scale"]), np.array(self.action_cfg["offset"])
        self.clip = _bounds(self.action_cfg["clip"])
        self._check_stiffness()
        random = np.random.default_rng(seed)
        self.terms = [Term(cfg, self.action_cfg["entity"], random) for cfg in self.lab["observations"]]
        self.commands: dict[str, Sequence[float]] = {}
        """To be set by the user."""
        self.reset()

    def reset(self) -> None:
        """Begins an episode: nothing was seen or done before, and the targets hold the default pose."""
        self.action = np.zeros(self.lab["output"]["width"], dtype=np.float32)
        """The latest one of the policy (A,)."""
        self.memory = {
            part["input"]: np.zeros((part["layers"], 1, part["width"]), dtype=np.float32)
            for part in self.lab.get("memory", [])
        }
        """What the policy remembers from step to step."""
        nothing = np.zeros(len(self.joint_names))
        self.targets = {"position": self.default_pos.copy(), "velocity": nothing, "effort": nothing.copy()}
        for term in self.terms:
            term.reset()

    def act(self, sensed: Sensed) -> np.ndarray:
        """Lets the policy set the joints' targets, to be called every ``control_dt``; returns what it saw (D,)."""
        groups: dict[str, list[Term]] = {}
        for term in self.terms:
            term.take(OBSERVATIONS[term.cfg["function"]](self, sensed, term.cfg))
            groups.setdefault(term.cfg["group"], []).append(term)
        observation = np.concatenate([_joined(terms) for terms in groups.values()]).astype(np.float32)
        remembered = [part["output"] for part in self.lab.get("memory", [])]
        actions, *memory = self.session.run(["actions", *remembered], {"obs": observation[None], **self.memory})
        self.action, self.memory = np.asarray(actions)[0], dict(zip(self.memory, memory, strict=True))
        kind, relative = ACTIONS[self.action_cfg["class"]]
        target = np.clip(self.scale * self.action + self.offset, *self.clip)
        self.targets[kind][self.driven] = target + (sensed.joint_pos[self.driven] if relative else 0.0)
        return observation

    def efforts(self, joint_pos: np.ndarray, joint_vel: np.ndarray) -> np.ndarray:
        """Returns what the motors apply (J,) [N m or N]. To be called every ``physics_dt``."""
        efforts = self.stiffness * (self.targets["position"] - joint_pos)
        efforts += self.damping * (self.targets["velocity"] - joint_vel) + self.targets["effort"]
        return np.clip(efforts, -self.effort_limits, self.effort_limits)

    def joint_indices(self, names: Sequence[str]) -> list[int]:
        """Returns where joints are in the order of the policy's file."""
        return [self.joint_names.index(name) for name in names]

    def joints_of(self, term: Mapping[str, Any]) -> list[int]:
        """Returns the joints that an observation term selects."""
        return self.joint_indices(term["params"]["asset_cfg"]["joint_names"])

    def command(self, name: str) -> np.ndarray:
        """Returns what the user commands."""
        if name not in self.commands:
            raise UnsupportedError(f"The policy observes the command {name!r}, which is not given.")
        return np.array(self.commands[name])

    def flat_ground(self, sensed: Sensed, term: Mapping[str, Any]) -> np.ndarray:
        """Returns what each ray of a scan of flat ground would give."""
        body = self.lab["sensors"][term["params"]["sensor_cfg"]["sensor"]]["body_name"]
        rays = term["width"] // max(1, term["history_length"])
        return np.full(rays, sensed.heights[body] - term["params"]["offset"])

    def _check_stiffness(self) -> None:
        idle = [self.joint_names[joint] for joint in self.driven if self.stiffness[joint] == 0.0]
        if idle and ACTIONS[self.action_cfg["class"]][0] == "position":
            raise UnsupportedError(f"Joints without stiffness get position targets: {', '.join(idle)}. "
                                   "Their actuators are no PD controllers, but a network, perhaps.")  # fmt: skip


class Term:
    """One observation term, from what its function returns to what the policy sees.

    The first value after a reset fills the whole memory.
    """

    def __init__(self, cfg: Mapping[str, Any], entity: str, random: np.random.Generator) -> None:
        self.cfg, self.random = cfg, random
        what = f"Observation {cfg['name']!r}"
        if cfg.get("function") not in OBSERVATIONS:
            raise UnsupportedError(f"{what} has the unknown function {cfg.get('function')}.")
        if cfg["modifiers"]:
            raise UnsupportedError(f"{what} has modifiers.")
        if (seen := cfg["params"].get("asset_cfg", {}).get("entity", entity)) != entity:
            raise UnsupportedError(f"{what} is of {seen!r}; the policy moves {entity!r}.")
        self.width = cfg["width"] // max(1, cfg["history_length"])
        """Of one value."""
        self.clip = _bounds([cfg["clip"]] if cfg["clip"] else None)
        self.scale = 1.0 if cfg["scale"] is None else np.array(cfg["scale"])
        self.past: deque[np.ndarray] = deque(maxlen=cfg["delay_max_lag"] + 1)
        self.shown: deque[np.ndarray] = deque(maxlen=max(1, cfg["history_length"]))

    def reset(self) -> None:
        """Forgets the past, and draws the delay."""
        self.lag = int(self.random.integers(self.cfg["delay_min_lag"], self.cfg["delay_max_lag"], endpoint=True))
        self.past.clear()
        self.shown.clear()

    def take(self, value: np.ndarray) -> None:
        """Takes in a fresh value."""
        if len(value) != self.width:
            raise UnsupportedError(f"Observation {self.cfg['name']!r} had {self.width} values, here {len(value)}.")
        _append(self.past, np.clip(value, *self.clip) * self.scale)
        lost = bool(self.shown) and self.random.random() < self.cfg["delay_hold_prob"]
        _append(self.shown, self.shown[-1] if lost else self.past[-1 - self.lag])


OBSERVATIONS: dict[str, Callable[[Controller, Sensed, Mapping[str, Any]], np.ndarray]] = {
    "base_pos_z": lambda robot, now, term: np.array([now.heights[robot.body_names[0]]]),
    "base_lin_vel": lambda robot, now, term: now.com_velocity,
    "base_ang_vel": lambda robot, now, term: now.angular_velocity,
    "projected_gravity": lambda robot, now, term: now.rotation.T @ (0.0, 0.0, -1.0),
    "joint_pos": lambda robot, now, term: now.joint_pos[robot.joints_of(term)],
    "joint_pos_rel": lambda robot, now, term: (now.joint_pos - robot.default_pos)[robot.joints_of(term)],
    "joint_vel": lambda robot, now, term: now.joint_vel[robot.joints_of(term)],
    "joint_vel_rel": lambda robot, now, term: (now.joint_vel - robot.default_vel)[robot.joints_of(term)],
    "last_action": lambda robot, now, term: robot.action,
    "generated_commands": lambda robot, now, term: robot.command(term["params"]["command_name"]),
    "height_scan": lambda robot, now, term: robot.flat_ground(now, term),
}
"""What the functions of observation terms return."""

ACTIONS = {
    "JointEffortAction": ("effort", False),
    "JointPositionAction": ("position", False),
    "JointVelocityAction": ("velocity", False),
    "RelativeJointPositionAction": ("position", True),
}
"""By class: which targets it sets, and whether they count from where the joints are."""


def _only_action(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(actions) != 1:
        raise UnsupportedError(f"The policy has {len(actions)} action terms: {[term['name'] for term in actions]}.")
    if actions[0].get("class") not in ACTIONS:
        raise UnsupportedError(f"Action {actions[0]['name']!r} is of the unknown class {actions[0].get('class')}.")
    return actions[0]


def _append(memory: deque[np.ndarray], value: np.ndarray) -> None:
    memory.append(value)
    while len(memory) < (memory.maxlen or 0):
        memory.append(value)


def _joined(terms: Sequence[Term]) -> np.ndarray:
    """Joins the histories of a group: term by term, each from the oldest value, or time by time with all terms."""
    histories = [np.stack(term.shown) for term in terms]
    if terms[0].cfg["history_order"] == "time":
        return np.concatenate(histories, axis=1).ravel()
    return np.concatenate([history.ravel() for history in histories])


def _bounds(pairs: Sequence[Sequence[float | None]] | None) -> tuple[np.ndarray, np.ndarray]:
    low, high = zip(*(pairs or [(None, None)]), strict=True)
    return _numbers(low, null=-np.inf), _numbers(high, null=np.inf)


def _numbers(values: Sequence[float | None], null: float) -> np.ndarray:
    return np.array([null if value is None else value for value in values])


class Robot:
    """The robot of a controller in a MuJoCo model, which may have its joints in any order."""

    def __init__(self, model: mujoco.MjModel, controller: Controller) -> None:
        self.model, self.controller = model, controller
        self.data = mujoco.MjData(model)
        joints = [model.joint(name) for name in controller.joint_names]
        self.q, self.v = (np.array([address[0] for address in addresses]) for addresses in (
            [joint.qposadr for joint in joints], [joint.dofadr for joint in joints]))  # fmt: skip
        found = {name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) for name in controller.body_names}
        self.bodies: dict[str, int] = {name: body for name, body in found.items() if body >= 0}
        """By name; the file may name fewer than the policy's file does."""
        self.root: int = model.body(controller.body_names[0]).id
        self.data.qpos[self.q], self.data.qvel[self.v] = controller.default_pos, controller.default_vel

    def sense(self) -> Sensed:
        """Returns what is known of the present state."""
        # A step of MuJoCo leaves poses and velocities of bodies as they were before it.
        for update in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel):
            update(self.model, self.data)
        velocity = np.zeros(6)  # of the root's origin, in its axes
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_XBODY, self.root, velocity, 1)
        return Sensed(
            joint_pos=self.data.qpos[self.q],
            joint_vel=self.data.qvel[self.v],
            rotation=self.data.xmat[self.root].reshape(3, 3).copy(),
            com_velocity=velocity[3:] + np.cross(velocity[:3], self.model.body_ipos[self.root]),
            angular_velocity=velocity[:3],
            heights={name: float(self.data.xpos[body, 2]) for name, body in self.bodies.items()},
        )

    def step(self) -> np.ndarray:
        """Runs one step of the policy and returns what the policy saw (D,)."""
        observation = self.controller.act(self.sense())
        for _ in range(self.controller.lab["timing"]["decimation"]):
            efforts = self.controller.efforts(self.data.qpos[self.q], self.data.qvel[self.v])
            self.data.qfrc_applied[self.v] = efforts
            mujoco.mj_step(self.model, self.data)
        return observation


def load_model(path: str | Path, controller: Controller) -> mujoco.MjModel:
    """Loads a model file for the policy's time step.

    A robot that is alone in the file, and not fixed to the world, gets flat ground. It then touches the ground, but not
    itself. Actuators of the file are left out: what drives the joints is in the policy's file.
    """
    spec = mujoco.MjSpec.from_file(str(path))
    for key in spec.keys:  # they would state controls of the actuators
        spec.delete(key)
    for actuator in spec.actuators:
        spec.delete(actuator)
    spec.option.timestep = controller.lab["timing"]["physics_dt"]
    fixed = controller.lab["entities"][controller.action_cfg["entity"]]["fixed_base"]
    if not fixed and not spec.worldbody.geoms:
        for geom in spec.geoms:
            geom.contype, geom.conaffinity = 0, geom.contype
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[20.0, 20.0, 0.1])
    return spec.compile()


def main(argv: Sequence[str] | None = None) -> None:
    """Plays the policy from the default pose, and prints twice per second where the robot is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policy", help="written by lab export")
    parser.add_argument("model", help="the robot's MJCF file, alone or in a scene")
    parser.add_argument("--command", nargs="+", action="append", default=[], metavar=("NAME", "VALUE"))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--viewer", action="store_true", help="open a window, in real time")
    args = parser.parse_args(argv)

    try:
        controller = Controller(args.policy)
        controller.commands |= {name: [float(value) for value in values] for name, *values in args.command}
        robot = Robot(load_model(args.model, controller), controller)
        play(robot, args.seconds, args.viewer)
    except UnsupportedError as error:
        parser.exit(1, f"{error}\n")


def play(robot: Robot, seconds: float, viewer: bool) -> None:
    """Steps ``robot`` for some time."""
    window = None
    if viewer:
        import mujoco.viewer  # needs a display

        window = mujoco.viewer.launch_passive(robot.model, robot.data)
    dt = robot.controller.lab["timing"]["control_dt"]
    for step in range(round(seconds / dt)):
        began = time.monotonic()
        robot.step()
        if step % max(1, round(0.5 / dt)) == 0:
            joints = " ".join(f"{value:.2f}" for value in robot.data.qpos[robot.q])
            root = " ".join(f"{value:.2f}" for value in robot.data.xpos[robot.root])
            print(f"{robot.data.time:6.2f} s   root at {root} m   joints {joints}")
        if window is not None:
            if not window.is_running():
                break
            window.sync()
            time.sleep(max(0.0, began + dt - time.monotonic()))


if __name__ == "__main__":
    main()
