"""Kinds of elements that model files of others hold, each beside C MuJoCo for 100 steps."""

from __future__ import annotations

import pytest

from lab_core.errors import ConfigError
from lab_newton import MuJoCoSolverCfg

BALL = '<geom type="sphere" size="0.05" mass="0.5" pos="0.1 0 0"/>'
ARM = f'<body name="b"><joint name="j" axis="0 1 0"/>{BALL}</body>'
FREE = '<body name="top" pos="0 0 {height}"><freejoint/>{rest}</body>'
FLOOR = '<geom name="floor" type="plane" size="0 0 1"/>'


def world(bodies: str, rest: str = "", before: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{bodies}</worldbody>{rest}</mujoco>"


def resting(geom: str, height: float = 0.1, rest: str = "") -> str:
    return world(FLOOR + FREE.format(height=height, rest=geom), rest)


def twin_arms(between: str, first: str = "", second: str = "") -> str:
    """Two arms on a free torso, with something between them."""
    arms = "".join(
        f'<body name="{n}" pos="0 {y} 0"><joint name="{n}" axis="1 0 0" {extra}/>'
        f'<geom name="g{n}" type="capsule" size="0.04" fromto="0 0 0 0 0 -0.3" mass="1" contype="0" conaffinity="0"/>'
        f'<site name="s{n}" pos="0 0 -0.3"/></body>'
        for n, y, extra in (("l", -0.2, first), ("r", 0.2, second))
    )
    torso = FREE.format(height=1.0, rest='<geom type="box" size="0.1 0.1 0.1" mass="5"/>' + arms)
    return world(torso, between)


SIBLINGS = {
    # what the compiler expands
    "frames": world('<body name="top"><joint name="a" axis="0 1 0"/>' + BALL + '<frame euler="0 0 90" pos="0 0 -0.2">'
                    '<body name="low" pos="0.1 0 0"><joint name="c" axis="0 1 0"/>' + BALL + "</body></frame></body>"),
    "replicated_geoms": world('<body name="b"><joint name="j" axis="0 1 0"/><replicate count="3" offset="0.1 0 0">'
                              + BALL + "</replicate></body>"),
    "nested_replicates": world('<body name="top"><joint name="j" axis="0 1 0"/>' + BALL + '<replicate count="2" '
                               'offset="0 0.3 0" sep="-"><replicate count="2" offset="0.3 0 0"><body name="k"><joint '
                               'name="h" axis="1 0 0"/>' + BALL + "</body></replicate></replicate></body>"),
    "classes": world('<body name="b" childclass="c"><joint name="j" axis="0 1 0"/><joint name="k" class="d"/>' + BALL
                     + "</body>", before='<default><default class="c"><joint damping="0.2"/><default class="d"><joint '
                     'armature="0.1" axis="0 0 1"/></default></default></default>'),
    "degrees_and_euler": world('<body name="b" euler="10 20 30"><joint name="j" axis="0 1 0" range="-3 3"/>' + BALL
                               + "</body>", before='<compiler eulerseq="zyx"/>'),
    "total_mass": world(ARM, before='<compiler settotalmass="7"/>'),
    "inertia_from_visuals": world('<body name="b"><joint name="j" axis="0 1 0"/><geom type="box" size="0.1 0.02 0.03" '
                                  'pos="0.1 0 0" contype="0" conaffinity="0" density="500"/></body>'),
    "shapes_of_a_group_that_weighs_nothing": world(
        '<body name="b"><joint name="j" axis="0 1 0"/><geom size="0.1" group="1"/><body name="k" pos="0.2 0 0"><geom '
        'size="0.1" pos="0.1 0 0.1"/></body></body>',
        before='<compiler inertiagrouprange="0 0"/>'),
    "site_that_is_called_as_a_geom": world('<body name="b"><joint name="j" axis="0 1 0"/><geom name="h" type="sphere" '
                                           'size="0.05" pos="0.1 0 0"/><site name="h"/></body>'),
    # joints
    "springs_and_references": world('<body name="b"><joint name="j" axis="0 1 0" ref="20" springref="50" '
                                    'stiffness="2" range="-90 90"/>' + BALL + "</body>"),
    "dry_friction": world('<body name="b"><joint name="j" axis="0 1 0" frictionloss="0.3" solreffriction="0.01 1.2"/>'
                          + BALL + "</body>"),
    "limit_of_its_own_kind": world('<body name="b"><joint name="j" axis="0 1 0" range="-90 10" margin="0.05" '
                                   'solreflimit="0.05 0.8" solimplimit="0.8 0.9 0.01 0.5 2"/>' + BALL + "</body>"),
    "inert_range": world('<body name="b"><joint name="j" axis="0 1 0" range="-1 1" limited="false"/>' + BALL
                         + "</body>"),
    "three_hinges": world('<body name="b"><joint name="z" axis="0 0 1"/><joint name="y" axis="0 1 0"/><joint name="x" '
                          'axis="1 0 0"/><geom type="capsule" fromto="0 0 0 .3 0.1 0" size=".03" mass="1"/></body>'),
    "hinges_at_an_angle": world('<body name="b"><joint name="a" axis="0 0 1"/><joint name="c" axis="0 1 0.5"/><geom '
                                'type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/></body>'),
    "hinges_with_one_anchor": world('<body name="b"><joint name="a" axis="0 0 1" pos="0.05 0 0"/><joint name="c" '
                                    'axis="0 1 0" pos="0.05 0 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" '
                                    'size=".03" mass="1"/></body>'),
    "gantry_of_slides": world('<body name="b"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" '
                              'axis="0 1 0" damping="3"/>' + BALL + "</body>"),
    "planar_root_below_a_floor": world('<body name="b" pos="0 0 0.5"><joint name="x" type="slide" axis="1 0 0"/><joint '
                                       'name="z" type="slide" axis="0 0 1"/><joint name="r" axis="0 1 0"/><geom '
                                       'type="capsule" size="0.05 0.2"/></body>' + FLOOR),
    "three_hinges_on_a_free_body": world(FREE.format(height=1, rest=BALL + '<body name="t" pos="0 0 0.2"><joint '
                                         'name="z" axis="0 0 1"/><joint name="y" axis="0 1 0" stiffness="5"/><joint '
                                         'name="x" axis="1 0 0" armature="0.02"/>' + BALL + "</body>")),
    "hinges_apart": world('<body name="b"><joint name="a" axis="0 0 1" pos="0 0.05 0"/><joint name="c" axis="0 1 0" '
                          'pos="0.1 0 0"/><joint name="d" axis="1 0 0" pos="0.1 0 0.05"/><geom type="capsule" '
                          'size=".03" fromto="0 0 0 .3 0 0" mass="1"/><body name="k" pos=".3 0 0"><joint name="e" '
                          'axis="0 1 0"/>'
                          + BALL + "</body></body>"),
    "hinge_before_slide": world('<body name="b"><joint name="r" axis="0 1 0" pos="0.1 0 0"/><joint name="z" '
                                'type="slide" axis="0 0 1" pos="0.2 0 0"/>' + BALL + "</body>"),
    "four_hinges": world('<body name="b">' + "".join(f'<joint name="{n}" axis="{a}" armature="0.1"/>' for n, a in (
        ("a", "0 0 1"), ("c", "0 1 0"), ("d", "1 0 0"), ("e", "0 1 1"))) + BALL + "</body>"),
    "hinges_askew": world('<body name="b"><joint name="a" axis="0 0 1"/><joint name="c" axis="0 1 0.5"/><joint '
                          'name="d" axis="1 0.5 0.2"/><geom type="capsule" fromto="0 0 0 .3 0.1 0" size=".03" '
                          'mass="1"/></body>'),
    "hinges_apart_below_a_free_root": resting('<geom size="0.1"/><body name="b" pos="0 0 0.1"><joint name="a" axis='
                                              '"0 1 0" pos="0 0 -0.03"/><joint name="c" axis="1 0 0"/><geom type='
                                              '"capsule" fromto="0 0 0 0 0 0.2" size="0.05"/></body>'),
    # forces and bodies
    "weightless_body": world('<body name="b" gravcomp="0.7"><joint name="j" axis="0 1 0"/>' + BALL + "</body>"),
    "inertia_that_is_turned": world('<body name="b"><joint name="j" axis="0 1 0"/><joint name="k" axis="0 0 1"/>'
                                    '<inertial pos="0.1 0.02 0" euler="20 30 40" mass="1" diaginertia="0.01 0.02 '
                                    '0.025"/></body>'),
    "body_that_is_turned": world('<body name="b" axisangle="1 1 0 40"><joint name="j" axis="0 1 0"/>' + BALL
                                 + "</body>"),
    # shapes that touch
    "cylinder": resting('<geom type="cylinder" size="0.1 0.1"/>'),
    "ellipsoid": resting('<geom type="ellipsoid" size="0.2 0.1 0.1"/>'),
    "box": resting('<geom type="box" size="0.1 0.1 0.1" margin="0.01" gap="0.002"/>'),
    "soft_contact": resting('<geom size="0.1" solref="-1000 -20" solimp="0.7 0.9 0.01" condim="4" '
                            'friction="0.4 0.01 0.001"/>'),
    "priority": resting('<geom size="0.1" priority="2" friction="0.2" solmix="3"/>'),
    "masks": resting('<geom size="0.1" contype="2" conaffinity="1"/><geom size="0.02" pos="0 0 -0.1" contype="4" '
                     'conaffinity="4"/>'),
    "tilted_plane": world('<geom type="plane" size="0 0 1" euler="0 20 0"/>'
                          + FREE.format(height=0.1, rest='<geom size="0.1"/>')),
    "wall_beside_the_robot": world('<body name="wall" pos="0 0 -0.3" euler="0 10 0"><geom type="box" size="1 1 0.1"/>'
                                   "</body>" + FREE.format(height=0, rest='<geom size="0.15"/>')),
    "mocap_table": world('<body name="t" pos="0 0 -0.1" mocap="true"><geom type="box" size="1 1 0.1"/></body>'
                         + FREE.format(height=0.1, rest='<geom size="0.1"/>')),
    "height_field": world('<geom type="hfield" hfield="h"/>' + FREE.format(height=0.14, rest='<geom size="0.1"/>'),
                          before='<asset><hfield name="h" nrow="3" ncol="4" size="1 1 0.1 0.1" elevation="'
                          '0 1 2 3 1 1 1 1 3 2 1 0"/></asset>'),
    "mesh": world(FLOOR + FREE.format(height=0.2, rest='<geom type="mesh" mesh="m" pos="0.1 0 0" euler="0 0 30"/>'),
                  before='<asset><mesh name="m" scale="0.1 0.2 0.1" vertex="-1 -1 -1 1 -1 -1 0 1 -1 0 0 1.5"/>'
                  "</asset>"),
    "fit_to_a_mesh": resting('<geom type="box" mesh="m"/>', 0.3).replace(
        "<worldbody>", '<asset><mesh name="m" scale="0.1 0.2 0.1" vertex="-1 -1 -1 1 -1 -1 0 1 -1 0 0 1.5"/></asset>'
        "<worldbody>"),
    # relations
    "pair_with_all_it_states": twin_arms('<contact><pair geom1="gl" geom2="gr" condim="4" friction="0.5 0.5 0.01 0.001 '
                                         '0.001" solref="0.03 0.9" margin="0.02" gap="0.01"/></contact>'),
    "exclusion": world(FREE.format(height=1, rest='<geom size="0.1"/><body name="k" pos="0.3 0 0"><joint name="a" '
                       'axis="0 1 0"/><geom size="0.1"/></body><body name="l" pos="0.4 0 0"><joint name="c" axis="0 1 '
                       '0"/><geom size="0.1"/></body>'), '<contact><exclude body1="k" body2="l"/></contact>'),
    "connect": twin_arms('<equality><connect body1="l" body2="r" anchor="0 0.2 -0.3" solref="0.03 1"/></equality>'),
    "connect_of_sites": twin_arms('<equality><connect site1="sl" site2="sr"/></equality>').replace(
        '<site name="sr" pos="0 0 -0.3"/>', '<site name="sr" pos="0 -0.4 -0.3"/>'),
    "weld": twin_arms('<equality><weld body1="l" body2="r" torquescale="0.5"/></equality>'),
    "weld_with_a_pose": twin_arms('<equality><weld body1="l" body2="r" relpose="0 0.38 0.02 1 0.05 0 0"/></equality>'),
    "weld_to_the_world": twin_arms('<equality><weld body1="top"/></equality>'),
    "joints_that_follow": twin_arms('<equality><joint joint1="l" joint2="r" polycoef="0.1 -1 0.2 0 0"/></equality>'),
    "joint_that_is_held": twin_arms('<equality><joint joint1="l" polycoef="0.1 0 0 0 0" solref="0.05 1"/></equality>'),
    "fixed_tendon": twin_arms('<tendon><fixed name="t" stiffness="20" damping="0.5" range="-0.1 0.1" limited="true">'
                              '<joint joint="l" coef="1"/><joint joint="r" coef="-0.5"/></fixed></tendon>'),
    "fixed_tendon_along_one_of_two_hinges": twin_arms(
        '<tendon><fixed name="t" stiffness="20"><joint joint="l" coef="1"/><joint joint="r" coef="-0.5"/></fixed>'
        "</tendon>").replace('axis="1 0 0" />', 'axis="1 0 0"/><joint axis="0 1 0" damping="0.1"/>'),
    "tendon_that_is_held": twin_arms('<tendon><fixed name="t"><joint joint="l" coef="1"/><joint joint="r" coef="2"/>'
                                     '</fixed></tendon><equality><tendon tendon1="t" solref="0.03 1"/></equality>'),
    "spatial_tendon": twin_arms('<tendon><spatial name="t" stiffness="50" springlength="0.3"><site site="sl"/><site '
                                'site="sr"/></spatial></tendon>'),
    "tendons_that_follow": twin_arms('<tendon><fixed name="t"><joint joint="l" coef="1"/></fixed><fixed name="u">'
                                     '<joint joint="r" coef="2"/></fixed></tendon><equality>'
                                     '<tendon tendon1="t" tendon2="u"/></equality>'),
    "keyframe_and_sensor": world(ARM, '<sensor><jointpos joint="j"/></sensor><keyframe><key qpos="1"/></keyframe>'),
}  # fmt: skip


@pytest.mark.parametrize("kind", SIBLINGS)
def test_every_kind_moves_as_in_c_mujoco(load, kind: str):
    robot = load(SIBLINGS[kind])
    robot.push()
    robot.step_both(100)
    assert robot.distance() < 2e-4
    assert abs(robot.data.qpos - robot.compiled.qpos0).max() > 1e-3 or robot.data.ncon, "it moves, or touches"


def test_sites_that_are_apart_are_not_connected_wrongly(load):
    text = twin_arms('<equality><connect name="loop" site1="sl" site2="sr"/></equality>')
    with pytest.raises(ConfigError, match=r"equality 'loop': eq_data is .*, MuJoCo compiles 0 0 -0\.3 0 0 -0\.3"):
        load(text)


TWO = world(
    FLOOR
    + FREE.format(height=0.5, rest=BALL)
    + '<body name="door" pos="1 0 0"><joint name="hinge" axis="0 0 1"/><geom '
    'type="box" size="0.1 0.01 0.2" pos="0.1 0 0"/></body>',
    '<sensor><jointpos joint="hinge"/></sensor>',
)


@pytest.mark.parametrize(("root", "joints", "shapes"), [("top", [], 2), ("door", ["hinge"], 1)])
def test_each_tree_of_a_file_is_an_entity_of_its_own(load, root: str, joints: list[str], shapes: int):
    robot = load(TWO, root=root)
    assert list(robot.entity.layout.body_names) == [root]
    assert list(robot.joint_pos) == joints
    assert len(robot.imported.shapes) == shapes, "the floor belongs to the first"
    robot.push()
    robot.step_both(100)
    assert robot.distance() < 2e-4


def test_several_trees_are_refused_with_the_setting_that_picks_one(load):
    with pytest.raises(ConfigError, match=r"'top', 'door'\. Make an entity of each, with ArticulationCfg\(.*root="):
        load(TWO)
    with pytest.raises(ConfigError, match="root is 'window', and the trees .* that move are: top, door"):
        load(TWO, root="window")


def test_trees_that_are_tied_to_each_other_are_refused(load):
    tied = TWO.replace("</mujoco>", '<equality><weld name="w" body1="top" body2="door"/></equality></mujoco>')
    with pytest.raises(ConfigError, match="equality 'w' .* ties 'top' to 'door'"):
        load(tied, root="top")


def test_slides_and_hinges_of_one_body_may_have_different_places(load):
    robot = load(world(
        '<body name="b" pos="0 0 1"><joint name="x" type="slide" axis="1 0 0" pos="0 0 -1"/><joint name="r" '
        'axis="0 1 0" pos="0.1 0 0"/>' + BALL + "</body>"))  # fmt: skip
    robot.push()
    robot.step_both(100)
    assert robot.distance() < 2e-4


def test_default_positions_outside_limits_are_told_together(load):
    arms = "".join(
        f'<body name="{n}"><joint name="{n}" axis="0 1 0" range="{low} 60"/>{BALL}</body>'
        for n, low in (("a", 20), ("b", 30), ("c", -10))
    )
    text = world(FREE.format(height=1, rest=BALL + arms))
    with pytest.warns(UserWarning, match=r"nearest one: 'a' from 0 to 0\.349066, 'b' from 0 to 0\.523599\. Set"):
        robot = load(text)
    assert robot.joint_pos == pytest.approx({"a": 0.349066, "b": 0.523599, "c": 0.0}, abs=1e-5)


def test_shapes_with_a_drag_of_their_own_are_refused_in_a_fluid(load):
    text = world(ARM.replace("<geom ", '<geom name="fin" fluidshape="ellipsoid" '))
    load(text)
    with pytest.raises(ConfigError, match=r"geom 'fin': geom_fluid is 0 0 .*, MuJoCo compiles 1 "):
        load(text, solver=MuJoCoSolverCfg(density=1000.0, njmax=20, nconmax=5))
