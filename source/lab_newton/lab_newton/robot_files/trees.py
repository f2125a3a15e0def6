"""Files with several trees of bodies that move: each is an entity of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab_core.errors import ConfigError
from lab_newton.robot_files.engine import MjModel, MjSpec, mujoco


def keep_tree(entity: str, path: Path, spec: MjSpec, model: MjModel, root: str) -> MjModel:
    """Takes everything out of ``spec`` that belongs to other entities, and returns it compiled.

    What stands still belongs to the first tree of the file.

    Args:
        entity: Name of the entity, for messages.
        path: The file, for messages.
        spec: What is changed.
        model: What ``spec`` was compiled to.
        root: Body at the top of the tree that stays.

    Raises:
        ConfigError: there is no such tree, or something ties it to another one.
    """
    trees = moving_trees(model)
    names = [model.body(body).name for body in trees]
    if root not in names:
        raise ConfigError(
            f"Entity {entity!r}: root is {root!r}, and the trees of {str(path)!r} that move are: {', '.join(names)}."
        )
    kept = trees[names.index(root)]
    is_first = kept == trees[0]
    top = model.body_rootid
    others = {b for b in range(1, model.nbody) if top[b] != kept and (top[b] in trees or not is_first)}
    for element, one, two in _ties(model):
        ends = {one in others, two in others}
        if len(ends) == 2 and kept in (top[one], top[two]):
            raise ConfigError(
                f"Entity {entity!r}: {element} in {str(path)!r} ties {model.body(one).name!r} to "
                f"{model.body(two).name!r}, which is no part of the entity. Entities cannot be tied to each other."
            )
    if not is_first:
        for shape in (*spec.worldbody.geoms, *spec.worldbody.sites):
            spec.delete(shape)
    for element in (*spec.sensors, *spec.cameras, *spec.lights, *spec.skins):  # they may look at what goes
        spec.delete(element)
    tops = [body for body in others if model.body_parentid[body] == 0]
    for element in [child for child in spec.bodies if child.id in tops]:
        spec.delete(element)
    return spec.compile()


def moving_trees(model: MjModel) -> list[int]:
    """Returns the bodies below the world with something that moves in them; all of them where nothing moves."""
    moved = {int(model.body_rootid[body]) for body in range(1, model.nbody) if model.body_dofnum[body]}
    return sorted(moved or set(model.body_rootid[1:].tolist()))


def _ties(model: MjModel) -> Iterator[tuple[str, int, int]]:
    """Yields what relates two bodies by force: (description, body, body)."""
    for index in range(model.neq):
        one, two = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        owner = {
            mujoco.mjtObj.mjOBJ_BODY: range(model.nbody),
            mujoco.mjtObj.mjOBJ_SITE: model.site_bodyid,
            mujoco.mjtObj.mjOBJ_JOINT: model.jnt_bodyid,
        }.get(mujoco.mjtObj(model.eq_objtype[index]))
        if owner is not None and two >= 0:
            yield f"equality {model.equality(index).name or index!r}", int(owner[one]), int(owner[two])
    for tendon in range(model.ntendon):
        bodies = [b for b in _bodies_of_tendon(model, tendon) if b]
        for body in bodies[1:]:
            yield f"tendon {model.tendon(tendon).name!r}", bodies[0], body


def _bodies_of_tendon(model: MjModel, tendon: int) -> Iterator[int]:
    owners = {
        mujoco.mjtWrap.mjWRAP_JOINT: model.jnt_bodyid,
        mujoco.mjtWrap.mjWRAP_SITE: model.site_bodyid,
        mujoco.mjtWrap.mjWRAP_SPHERE: model.geom_bodyid,
        mujoco.mjtWrap.mjWRAP_CYLINDER: model.geom_bodyid,
    }
    for wrap in range(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon]):
        owner = owners.get(mujoco.mjtWrap(model.wrap_type[wrap]))
        if owner is not None:
            yield int(owner[model.wrap_objid[wrap]])
