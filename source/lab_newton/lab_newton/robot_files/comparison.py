"""What was built, field by field, against what MuJoCo's own compiler makes of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab_newton.robot_files.collision_pairs import colliding_pairs
from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.matching import Matching

TOLERANCE = 2e-5
"""Largest difference, relative to the largest number of a field, that is rounding: Newton computes in float32."""

_INVWEIGHT = 0.01
"""Largest relative difference of the inverse weights that is rounding: they set how soft contacts and equalities are,
and only their order of magnitude is of importance."""

_ROTATION = 5.0
"""Scale of the rotations of shapes: Newton finds that of a capsule from its two ends, in float32, to 1e-4 rad."""


@dataclass(frozen=True)
class Difference:
    """A field of one element that is not what MuJoCo compiled."""

    element: str
    """Kind and name, such as ``joint 'knee'``."""
    field: str
    """As in ``mjModel``."""
    built: str
    compiled: str

    def __str__(self) -> str:
        return f"{self.element}: {self.field} is {self.built}, MuJoCo compiles {self.compiled}"


JOINT = (
    "jnt_type", "jnt_axis", "jnt_pos", "jnt_limited", "jnt_range", "jnt_solref", "jnt_solimp", "jnt_margin",
    "jnt_stiffness", "jnt_stiffnesspoly",
)  # fmt: skip
DOF = (
    "dof_armature", "dof_damping", "dof_dampingpoly", "dof_frictionloss", "dof_solref", "dof_solimp",
)  # fmt: skip
GEOM = (
    "geom_type", "geom_condim", "geom_priority", "geom_friction", "geom_solmix", "geom_solref", "geom_solimp",
    "geom_margin", "geom_gap",
)  # fmt: skip
EQUALITY = ("eq_type", "eq_active0", "eq_solref", "eq_solimp")
PAIR = ("pair_dim", "pair_friction", "pair_solref", "pair_solreffriction", "pair_solimp", "pair_margin", "pair_gap")
TENDON = (
    "tendon_stiffness", "tendon_damping", "tendon_frictionloss", "tendon_armature", "tendon_limited", "tendon_range",
    "tendon_margin", "tendon_lengthspring", "tendon_solref_lim", "tendon_solimp_lim", "tendon_solref_fri",
    "tendon_solimp_fri",
)  # fmt: skip

_SIZES = {mujoco.mjtGeom.mjGEOM_SPHERE: 1, mujoco.mjtGeom.mjGEOM_CAPSULE: 2, mujoco.mjtGeom.mjGEOM_CYLINDER: 2}
"""Numbers of ``geom_size`` that a kind of shape uses; else all three."""
_DATA = {
    mujoco.mjtEq.mjEQ_CONNECT: 6,
    mujoco.mjtEq.mjEQ_WELD: 11,
    mujoco.mjtEq.mjEQ_JOINT: 5,
    mujoco.mjtEq.mjEQ_TENDON: 5,
}
"""Numbers of ``eq_data`` that a kind of equality uses."""


def compare(imported: ImportedFile, matching: Matching, self_collision: bool) -> list[Difference]:
    """Returns how the built model differs from what MuJoCo compiled, without the differences that are meant.

    What is meant stands in :data:`lab_newton.robot_files.deliberate.DELIBERATE`.

    Args:
        imported: The file and what MuJoCo made of it.
        matching: Which element of the built model is which element of the file.
        self_collision: Whether the robot may touch itself.
    """
    assert imported.file is not None
    ours, theirs = matching.built, imported.file.model
    return [
        *_compare_bodies(ours, theirs, matching),
        *_compare_joints(ours, theirs, matching),
        *_fields("geom", GEOM, ours, theirs, matching.geoms, matching),
        *(_compare_fluid(ours, theirs, matching) if matching.in_fluid else ()),
        *_compare_shapes(ours, theirs, matching),
        *_fields("equality", EQUALITY, ours, theirs, matching.equalities, matching),
        *_compare_equality_data(ours, theirs, matching),
        *_fields("contact pair", PAIR, ours, theirs, matching.pairs, matching),
        *_fields("tendon", TENDON, ours, theirs, matching.tendons, matching),
        *_compare_wraps(ours, theirs, matching),
        *_compare_collisions(ours, theirs, matching, self_collision),
        *_missing(matching),
    ]


def _missing(matching: Matching) -> Iterator[Difference]:
    for kind, index in matching.missing:
        yield Difference(matching.describe(kind, index), kind, "absent", "present")


def _fields(
    kind: str, fields: Sequence[str], ours: object, theirs: MjModel, pairs: Iterable[tuple[int, int]],
    matching: Matching,
) -> Iterator[Difference]:  # fmt: skip
    """Compares ``fields`` of elements that are given as (place in the built model, place in the file)."""
    for mine, other in pairs:
        for field in fields:
            built, compiled = getattr(ours, field)[mine], getattr(theirs, field)[other]
            if field.endswith("range") and not getattr(theirs, field.replace("range", "limited"))[other]:
                continue  # nobody reads it
            if field == "geom_gap" and not compiled:
                continue  # NewtonCfg.contact_gap may widen it
            if field.startswith("dof_sol") and not theirs.dof_frictionloss[other]:
                continue
            if field in ("jnt_solref", "jnt_solimp", "jnt_margin") and not theirs.jnt_limited[other]:
                continue
            yield from _different(matching.describe(kind, other), field, built, compiled)


def _different(element: str, field: str, built: object, compiled: object, scale: float = 0.0) -> Iterator[Difference]:
    mine, other = np.asarray(built, dtype=float), np.asarray(compiled, dtype=float)
    largest = max(float(np.abs(other).max(initial=0.0)), float(np.abs(mine).max(initial=0.0)), scale)
    if mine.shape != other.shape or not np.all(np.abs(mine - other) <= TOLERANCE * largest):
        yield Difference(element, field, _text(mine), _text(other))


def _text(values: np.ndarray) -> str:
    return " ".join(f"{value:.6g}" for value in values.flatten())


def _compare_bodies(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    yield from _fields("body", ("body_mass", "body_gravcomp"), ours, theirs, matching.moving_bodies, matching)
    for mine, other in matching.moving_bodies:
        name = matching.describe("body", other)
        size = float(np.sqrt(theirs.body_inertia[other].max() / max(theirs.body_mass[other], 1e-12)))
        yield from _different(name, "body_ipos", ours.body_ipos[mine], theirs.body_ipos[other], size)
        yield from _different(name, "body_inertia", _inertia(ours, mine), _inertia(theirs, other))
        if not matching.root_changed:
            built, compiled = np.asarray(ours.body_invweight0[mine], dtype=float), theirs.body_invweight0[other]
            # What is 0 but for rounding in MuJoCo, MuJoCo Warp sets to the other number.
            same = np.isclose(built, compiled, rtol=_INVWEIGHT) | (compiled < 1e-9)
            if not same.all():
                yield Difference(name, "body_invweight0", _text(built), _text(compiled))
    for mine, other in matching.frames:
        if other == matching.root:
            continue
        name = matching.describe("body", other)
        yield from _different(name, "body_pos", ours.body_pos[mine], theirs.body_pos[other], 0.1)
        yield from _different(name, "body_quat", _rotation(ours.body_quat[mine]), _rotation(theirs.body_quat[other]))


def _compare_joints(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    for mine, other in matching.joints:
        name = matching.describe("joint", other)
        if theirs.jnt_type[other] == mujoco.mjtJoint.mjJNT_FREE:
            continue
        for field in JOINT:
            if field in ("jnt_pos", "jnt_range"):
                continue
            yield from _fields("joint", (field,), ours, theirs, [(mine, other)], matching)
        # Where a slide sits on its body makes no difference.
        if theirs.jnt_type[other] != mujoco.mjtJoint.mjJNT_SLIDE:
            yield from _different(name, "jnt_pos", ours.jnt_pos[mine], theirs.jnt_pos[other], 0.1)
        mine_q, other_q = ours.jnt_qposadr[mine], theirs.jnt_qposadr[other]
        shift = float(ours.qpos0[mine_q] - theirs.qpos0[other_q])
        if theirs.jnt_limited[other]:
            yield from _different(name, "jnt_range", ours.jnt_range[mine] - shift, theirs.jnt_range[other], 1.0)
        if theirs.jnt_stiffness[other]:
            spring = ours.qpos_spring[mine_q] - shift
            yield from _different(name, "qpos_spring", spring, theirs.qpos_spring[other_q], 1.0)
    yield from _fields("joint of dof", DOF, ours, theirs, matching.dofs, matching)


def _compare_shapes(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    for mine, other in matching.geoms:
        name = matching.describe("geom", other)
        position, rotation = matching.pose_in_file(other)
        size = float(theirs.geom_rbound[other]) or 1.0
        kind = mujoco.mjtGeom(theirs.geom_type[other])
        if kind == mujoco.mjtGeom.mjGEOM_MESH:
            yield from _different(name, "mesh", matching.mesh_corners(mine), matching.mesh_corners_in_file(other), size)
            continue
        if kind not in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD):
            used = slice(_SIZES.get(kind, 3))
            yield from _different(name, "geom_size", ours.geom_size[mine][used], theirs.geom_size[other][used])
        if kind == mujoco.mjtGeom.mjGEOM_HFIELD:
            position = position + rotation @ matching.field_offset(mine, other)
        yield from _different(name, "geom_pos", ours.geom_pos[mine], position, size)
        if kind != mujoco.mjtGeom.mjGEOM_SPHERE:
            yield from _different(name, "geom_quat", _rotation(ours.geom_quat[mine]), rotation, _ROTATION)


def _compare_equality_data(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    for mine, other in matching.equalities:
        count = _DATA[mujoco.mjtEq(theirs.eq_type[other])]
        built, compiled = ours.eq_data[mine][:count], matching.equality_data_in_file(other)[:count]
        yield from _different(matching.describe("equality", other), "eq_data", built, compiled, 1.0)


def _compare_fluid(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    """Compares how a fluid drags at shapes that have an opinion of their own about it, whether they touch or not."""
    place = {other: mine for mine, other in matching.geoms}
    for geom in np.nonzero(theirs.geom_fluid[:, 0])[0].tolist():
        compiled = theirs.geom_fluid[geom]
        built = ours.geom_fluid[place[geom]] if geom in place else np.zeros_like(compiled)
        yield from _different(matching.describe("geom", geom), "geom_fluid", built, compiled)


def _compare_wraps(ours, theirs: MjModel, matching: Matching) -> Iterator[Difference]:
    """Compares what tendons run along; joints by which they are and how far they pull, the rest by its kind."""
    joint = mujoco.mjtWrap.mjWRAP_JOINT
    place = {other: mine for mine, other in matching.joints}
    for mine, other in matching.tendons:
        along = range(theirs.tendon_adr[other], theirs.tendon_adr[other] + theirs.tendon_num[other])
        built = range(ours.tendon_adr[mine], ours.tendon_adr[mine] + ours.tendon_num[mine])
        name = matching.describe("tendon", other)
        yield from _different(name, "wrap_type", ours.wrap_type[built], theirs.wrap_type[along])
        if theirs.wrap_type[along[0]] == joint:
            ends = [place.get(int(end), -1) for end in theirs.wrap_objid[along]]
            yield from _different(name, "wrap_objid", ours.wrap_objid[built], ends)
            yield from _different(name, "wrap_prm", ours.wrap_prm[built], theirs.wrap_prm[along])


def _compare_collisions(ours, theirs, matching: Matching, self_collision: bool) -> Iterator[Difference]:
    place = dict(matching.geoms)
    mine = {tuple(sorted((place[a], place[b]))) for a, b in colliding_pairs(ours) if a in place and b in place}
    if not self_collision:
        return
    for pair in sorted(mine ^ (other := colliding_pairs(theirs))):
        one, two = (matching.describe("geom", geom) for geom in pair)
        found = ("never touch", "may touch")
        yield Difference(f"{one} and {two}", "collision", found[pair in mine], found[pair in other])


def _inertia(model, body: int) -> np.ndarray:
    rotation = _rotation(model.body_iquat[body])
    return rotation @ np.diag(np.asarray(model.body_inertia[body], dtype=float)) @ rotation.T


def _rotation(quat: np.ndarray) -> np.ndarray:
    result = np.zeros(9)
    mujoco.mju_quat2Mat(result, np.asarray(quat, dtype=float))
    return result.reshape(3, 3)
