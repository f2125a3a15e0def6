"""Measures how long a model file takes from its text to a Newton model of one world, on the CPU.

    python scripts/benchmarks/import_time.py lab_tasks:robots/go2/go2.xml other.urdf

Prints a row per file: bodies, corners of its meshes, and seconds of MuJoCo's compiler and of everything.
"""

from __future__ import annotations

import argparse
import time

import newton

from lab_core.scene import ArticulationCfg
from lab_newton import MuJoCoSolverCfg
from lab_newton.robot_files import add_articulation, asset_path, compile_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    print(f"{'file':30} {'bodies':>7} {'corners':>9} {'compile [s]':>12} {'all [s]':>8}")
    for asset in parser.parse_args().files:
        start = time.perf_counter()
        model = compile_file("robot", asset_path(asset)).model
        compiled = time.perf_counter()
        world = newton.ModelBuilder()
        MuJoCoSolverCfg().prepare(world)
        add_articulation(world, "robot", ArticulationCfg(asset=asset, actuators={}))
        world.finalize(device="cpu")
        end = time.perf_counter()
        name = asset_path(asset).name
        print(f"{name:30} {model.nbody:7} {model.nmeshvert:9} {compiled - start:12.2f} {end - compiled:8.2f}")


if __name__ == "__main__":
    main()
