"""Which geoms of a MuJoCo model may touch."""

from __future__ import annotations

from itertools import combinations

from lab_newton.robot_files.engine import MjModel, mujoco


def colliding_pairs(model: MjModel) -> set[tuple[int, int]]:
    """Returns the pairs of geoms that MuJoCo looks at, smaller number first: by their masks, or listed as pairs."""
    listed = zip(model.pair_geom1, model.pair_geom2, strict=True)
    return pairs_by_masks(model) | {(int(min(one, two)), int(max(one, two))) for one, two in listed}


def pairs_by_masks(model: MjModel) -> set[tuple[int, int]]:
    """Returns the pairs of geoms, smaller number first, that MuJoCo looks at without being told of the pair.

    Left out are those of one body, of bodies that are fixed together, of parent and child, and excluded bodies
    (``mj_collision`` in MuJoCo's documentation, "Contact detection").
    """
    filters = not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    excluded = {int(signature) for signature in model.exclude_signature}
    weld, parent = model.body_weldid, model.body_parentid
    found: set[tuple[int, int]] = set()
    collides = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    for one, two in combinations(collides, 2):
        a, b = sorted((int(model.geom_bodyid[one]), int(model.geom_bodyid[two])))
        masks = (
            model.geom_contype[one] & model.geom_conaffinity[two]
            | model.geom_contype[two] & model.geom_conaffinity[one]
        )
        if not masks or weld[a] == weld[b] or ((a << 16) + b) in excluded:
            continue
        above_a, above_b = weld[parent[weld[a]]], weld[parent[weld[b]]]
        related = (weld[a] and weld[a] == above_b) or (weld[b] and weld[b] == above_a)
        if not (filters and related):
            found.add((one, two))
    return found
