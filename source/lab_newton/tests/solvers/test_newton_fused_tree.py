"""Inertias, velocities and bias forces of a tree in one kernel against MuJoCo Warp's own."""

from __future__ import annotations

import sys

import mujoco
import mujoco_warp
import numpy as np
import pytest
import warp as wp

from lab_newton.solvers.fused.solver import FusedTree
from lab_newton.solvers.fused.tree_kernels import compute_tree

ROBOT = """
<mujoco>
  <option gravity="0.5 -1 -9.81"/>
  <worldbody>
    <body name="post" pos="1 0 0"><geom size="0.1" mass="3"/></body>
    <body name="base" pos="0 0 1" euler="20 10 0">
      <freejoint/>
      <geom type="box" size="0.15 0.1 0.04" mass="2" pos="0.02 0.01 0" euler="0 30 0"/>
      <body name="thigh" pos="0.1 0.12 0">
        <joint type="hinge" axis="0 1 0.2" pos="0 0 0.01" armature="0.02"/>
        <joint type="hinge" axis="1 0 0"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.02 0 -0.2" mass="0.4"/>
        <body name="carrier" pos="0 0 -0.1"><body name="toe" pos="0 0 -0.1">
          <joint type="slide" axis="0 0.3 1"/><geom size="0.04" pos="0.02 0 0" mass="0.1"/></body></body>
      </body>
      <body name="arm" pos="0.1 -0.12 0">
        <joint type="ball" armature="0.01"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0.1 -0.2" mass="0.4"/>
      </body>
    </body>
    <body name="pole" pos="0 1 0">
      <joint type="slide" axis="1 0 0"/>
      <joint type="ball" pos="0 0 0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.6" mass="0.3"/>
    </body>
  </worldbody>
</mujoco>
"""
WRITTEN = (
    "subtree_com",
    "cinert",
    "cdof",
    "crb",
    "M",
    "cvel",
    "cdof_dot",
    "cacc",
    "cfrc_int",
    "qfrc_bias",
    "qfrc_smooth",
)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("gravity", [True, False])
def test_it_computes_what_mujoco_warp_computes(device, gravity):
    model = mujoco.MjModel.from_xml_string(ROBOT)
    if not gravity:
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_GRAVITY
    num_worlds = 20
    with wp.ScopedDevice(device):
        m = mujoco_warp.put_model(model)
        d = mujoco_warp.make_data(model, nworld=num_worlds)
        rng = np.random.default_rng(0)
        d.qpos.assign((d.qpos.numpy() + rng.normal(size=(num_worlds, model.nq))).astype(np.float32))
        d.qvel.assign(rng.normal(size=(num_worlds, model.nv)).astype(np.float32) * 3)
        mass = rng.uniform(0.5, 1.5, size=(num_worlds, 1)) * m.body_mass.numpy()
        m.body_mass = wp.array(mass, dtype=float)
        m.body_subtreemass = wp.array(mass @ descendants(model), dtype=float)
        for name in ("xfrc_applied", "qfrc_applied"):
            array = getattr(d, name)
            array.assign(rng.normal(size=array.numpy().shape).astype(np.float32))
        mujoco_warp.kinematics(m, d)
        for compute in (mujoco_warp.com_pos, mujoco_warp.crb, mujoco_warp.com_vel, mujoco_warp.rne):
            compute(m, d)
        mujoco_warp.fwd_acceleration(m, d, factorize=True)
        expected = {name: getattr(d, name).numpy() for name in WRITTEN}
        for name in WRITTEN:
            getattr(d, name).fill_(7.0)
        tree = FusedTree(m, d)
        tree()
        tree.add_forces()
        for name in WRITTEN:
            own = getattr(d, name).numpy()
            if name == "M":
                own, expected[name] = own[:, : model.nM], expected[name][:, : model.nM]
            scale = np.abs(expected[name]).max()
            np.testing.assert_allclose(own, expected[name], rtol=1e-4, atol=2e-6 * scale, err_msg=name)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="Warp has no compiler for CUDA there")
def test_it_compiles_for_a_gpu_on_a_machine_without_one(tmp_path):
    assert wp.compile_aot_module(compute_tree.module, arch=90, module_dir=tmp_path, use_ptx=True)


def descendants(model: mujoco.MjModel) -> np.ndarray:
    """(nbody, nbody): 1 where the first body hangs at or below the second."""
    below = np.zeros((model.nbody, model.nbody))
    for body in range(model.nbody):
        other = body
        while True:
            below[body, other] = 1.0
            if other == 0:
                break
            other = int(model.body_parentid[other])
    return below
