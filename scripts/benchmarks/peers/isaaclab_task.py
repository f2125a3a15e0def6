"""A task of Isaac Lab without Isaac Sim, on Newton; run by peer_isaaclab.py with Isaac Lab's packages."""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import isaaclab.sim.spawners.from_files.from_files as spawners
import newton
from timing import result, time_steps

HERE = Path(__file__).parent
# Isaac Lab's own files lie on a server.
ROBOTS = {"Ant": Path(newton.__file__).parent / "examples/assets/ant.usda", "Cartpole": HERE / "cartpole.usda"}


def use_local_ground() -> None:
    """Makes Isaac Lab spawn the ground plane beside this file, in tasks that are imported afterwards."""
    spawn = spawners.spawn_ground_plane

    def spawn_local(prim_path: str, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        cfg = cfg.copy()
        cfg.usd_path = str(HERE / "ground.usda")
        return spawn(prim_path, cfg, *args, **kwargs)

    spawners.spawn_ground_plane = spawn_local


def make_env(settings: dict[str, Any]) -> Any:
    use_local_ground()
    import isaaclab_tasks  # noqa: F401  registers the tasks
    from isaaclab_tasks.utils import parse_env_cfg

    task = settings["task"]
    cfg = parse_env_cfg(task, device=settings["device"], num_envs=settings["num_envs"])
    usd = str(next(path for name, path in ROBOTS.items() if name in task))
    # A manager-based task has the robot in its scene, a direct one beside it.
    for robot in (getattr(cfg.scene, "robot", None), getattr(cfg, "robot_cfg", None)):
        if robot is not None:
            robot.spawn.usd_path = usd
    if settings["frontend"] == "torch":
        return gymnasium.make(task, cfg=cfg)
    from isaaclab_experimental.envs.frontend import WarpFrontend

    return WarpFrontend.build_env(cfg, task)


def main(settings: dict[str, Any], path: Path) -> None:
    env = make_env(settings)
    env.reset()
    width = env.unwrapped.action_space.shape[-1]
    env_step_ms = time_steps(env.step, width, settings, path)
    packages = ("isaaclab", "newton", "mujoco-warp", "warp-lang", "torch")
    found = result(settings["task"], env_step_ms, settings, packages) | {"frontend": settings["frontend"]}
    path.write_text(json.dumps(found))
    env.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
