"""COLLADA meshes of URDF files."""

from __future__ import annotations

import numpy as np
import pytest

from lab_core.errors import ConfigError
from lab_newton.robot_files.collada import to_obj

TETRAHEDRON = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema"><asset><unit meter="0.01"/></asset>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array>0 0 0 10 0 0 0 10 0 0 0 10</float_array>
<technique_common><accessor stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>{faces}</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><translate>1 0 0</translate><rotate>0 0 1 90</rotate>
<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
TRIANGLES = """<triangles><input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" offset="1"/>
<p>0 9 2 9 1 9 0 9 1 9 3 9 0 9 3 9 2 9 1 9 2 9 3 9</p></triangles>"""
POLYLIST = """<polylist><input semantic="VERTEX" source="#v" offset="0"/><vcount>3 3 3 3</vcount>
<p>0 2 1 0 1 3 0 3 2 1 2 3</p></polylist>"""
ROBOT = """<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial><visual><geometry><mesh filename="part.dae"/></geometry></visual></link></robot>"""


@pytest.mark.parametrize("faces", [TRIANGLES, POLYLIST], ids=["triangles", "polylist"])
def test_unit_and_nodes_of_the_scene_count(faces: str):
    lines = to_obj(TETRAHEDRON.format(faces=faces).encode()).decode().split("\n")
    points = np.array([line.split()[1:] for line in lines if line.startswith("v ")], dtype=float)
    assert np.allclose(points, [[0.01, 0, 0], [0.01, 0.1, 0], [-0.09, 0, 0], [0.01, 0, 0.1]])
    assert [line for line in lines if line.startswith("f ")] == ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]


def test_a_urdf_file_may_name_a_collada_mesh(load, tmp_path):
    (tmp_path / "part.dae").write_text(TETRAHEDRON.format(faces=TRIANGLES))
    assert load(ROBOT, suffix=".urdf").compiled.nmesh == 1
    (tmp_path / "part.dae").write_text(TETRAHEDRON.format(faces=""))
    with pytest.raises(ConfigError, match="'robot': cannot read the mesh .*part.dae' of link 'a': .* no triangle"):
        load(ROBOT, suffix=".urdf")
