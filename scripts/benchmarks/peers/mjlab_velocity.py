"""mjlab's flat velocity task with a robot given as settings; run by peer_mjlab.py with mjlab's packages."""
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from timing import pretend_installed, result, time_steps

pretend_installed("viser", "mjviser", "wandb", "imageio_ffmpeg", "IPython")

mujoco: Any = importlib.import_module("mujoco")
if not hasattr(mujoco, "Renderer"):  # a copy of MuJoCo without it
    mujoco.Renderer = object

import torch  # noqa: E402
from mjlab.actuator import DcMotorActuatorCfg  # noqa: E402
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg  # noqa: E402
from mjlab.envs import ManagerBasedRlEnv  # noqa: E402
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg  # noqa: E402
from mjlab.utils.spec_config import CollisionCfg  # noqa: E402

LEGS = ("FR", "FL", "RR", "RL")
BASE = "base"
HEALTH_STEPS = 30


def robot_spec(mjcf: str) -> Any:
    """The robot with the sites and sensors that mjlab's terms read."""
    spec = mujoco.MjSpec.from_file(mjcf)
    spec.body(BASE).add_site(name="imu", pos=(0.0, 0.0, 0.0))
    for leg in LEGS:
        spec.body(f"{leg}_foot").add_site(name=leg, pos=(0.0, 0.0, 0.0))
    site, body = mujoco.mjtObj.mjOBJ_SITE, mujoco.mjtObj.mjOBJ_BODY
    for name, kind, target in (
        ("imu_ang_vel", mujoco.mjtSensor.mjSENS_GYRO, (site, "imu")),
        ("imu_lin_vel", mujoco.mjtSensor.mjSENS_VELOCIMETER, (site, "imu")),
        ("root_angmom", mujoco.mjtSensor.mjSENS_SUBTREEANGMOM, (body, BASE)),
    ):
        spec.add_sensor(name=name, type=kind, objtype=target[0], objname=target[1])
    return spec


def robot_cfg(settings: dict[str, Any]) -> EntityCfg:
    actuators = tuple(
        DcMotorActuatorCfg(target_names_expr=tuple(group.pop("joint_names")), **group)
        for group in settings["actuators"]
    )
    # The robot touches the ground and not itself.
    collision = CollisionCfg(geom_names_expr=(r".*_collision\d*",), contype=1, conaffinity=0, condim=3, priority=1)
    return EntityCfg(
        init_state=EntityCfg.InitialStateCfg(pos=tuple(settings["pos"]), joint_pos=settings["joint_pos"]),
        collisions=(collision,),
        spec_fn=lambda: robot_spec(settings["mjcf"]),
        articulation=EntityArticulationInfoCfg(
            actuators=actuators, soft_joint_pos_limit_factor=settings["soft_joint_pos_limit_factor"]
        ),
    )


def env_cfg(settings: dict[str, Any]) -> Any:
    """mjlab's own task for its Go1, whose joints, feet and legs are called as ours, with our robot and solver."""
    cfg = unitree_go1_flat_env_cfg()
    cfg.scene.num_envs = settings["num_envs"]
    cfg.scene.entities = {"robot": robot_cfg(settings)}
    cfg.actions["joint_pos"].scale = settings["action_scale"]
    cfg.events["base_com"].params["asset_cfg"].body_names = (BASE,)
    for name in ("upright", "body_ang_vel"):
        cfg.rewards[name].params["asset_cfg"].body_names = (BASE,)
    cfg.viewer.body_name = BASE
    cfg.decimation = settings["decimation"]
    cfg.episode_length_s = settings["episode_length_s"]
    cfg.sim.njmax, cfg.sim.nconmax = settings["njmax"], settings["nconmax"]
    for name, value in settings["solver"].items():
        setattr(cfg.sim.mujoco, name, value)
    return cfg


def main(settings: dict[str, Any], path: Path) -> None:
    env = ManagerBasedRlEnv(env_cfg(settings), device=settings["device"])
    env.reset()
    width = env.action_manager.total_action_dim
    env_step_ms = time_steps(env.step, width, settings, path)
    for _ in range(HEALTH_STEPS):
        env.step(torch.zeros(settings["num_envs"], width, device=settings["device"]))
        check_capacity(env, settings)
    packages = ("mjlab", "mujoco", "mujoco-warp", "warp-lang", "torch")
    path.write_text(json.dumps(result("Mjlab-Velocity-Flat with our Go2", env_step_ms, settings, packages)))
    env.close()


def check_capacity(env: Any, settings: dict[str, Any]) -> None:
    rows = int(torch.as_tensor(env.sim.data.nefc).max())
    contacts = int(torch.as_tensor(env.sim.data.nacon).max())
    if rows > settings["njmax"] or contacts > settings["nconmax"] * settings["num_envs"]:
        raise SystemExit(
            f"The timing is not valid: {rows} constraint rows of {settings['njmax']} in a world, {contacts} contacts "
            f"of {settings['nconmax']} per world in all."
        )
    if not torch.as_tensor(env.sim.data.qpos[:]).isfinite().all():
        raise SystemExit("The timing is not valid: a world is not finite.")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
