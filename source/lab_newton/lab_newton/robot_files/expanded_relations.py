"""The elements of a file that relate bodies to each other: contacts, equalities and tendons."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lab_newton.robot_files.compiled import CompiledFile
from lab_newton.robot_files.engine import MjModel, mujoco
from lab_newton.robot_files.names import Names
from lab_newton.robot_files.text import numbers

if TYPE_CHECKING:
    from lab_newton.robot_files.root import Root

_EQUALITIES: dict[Any, str] = {
    mujoco.mjtEq.mjEQ_CONNECT: "connect",
    mujoco.mjtEq.mjEQ_WELD: "weld",
    mujoco.mjtEq.mjEQ_JOINT: "joint",
    mujoco.mjtEq.mjEQ_TENDON: "tendon",
}
_TENDON_FIELDS = {
    "stiffness": "stiffness",
    "damping": "damping",
    "frictionloss": "frictionloss",
    "armature": "armature",
    "margin": "margin",
    "solref_lim": "solreflimit",
    "solimp_lim": "solimplimit",
    "solref_fri": "solreffriction",
    "solimp_fri": "solimpfriction",
}


def add_relations(top: ET.Element, file: CompiledFile, names: Names, root: Root) -> None:
    """Adds contact pairs and exclusions, equalities and tendons of the robot of ``file``."""
    model = file.model
    still = set(root.still_bodies)

    def body(index: int) -> str:
        return "world" if index in still else names.body(index)

    _add_contacts(ET.SubElement(top, "contact"), model, names, body)
    equality = ET.SubElement(top, "equality")
    for index in equality_order(model):
        _add_equality(equality, file, index, names, body)
    tendon = ET.SubElement(top, "tendon")
    for index in tendon_order(model):
        _add_tendon(tendon, model, index, names)


def equality_order(model: MjModel) -> list[int]:
    """Returns the equalities in the order in which the importer reads them."""
    kinds = list(_EQUALITIES)
    return sorted(range(model.neq), key=lambda index: kinds.index(mujoco.mjtEq(model.eq_type[index])))


def tendon_order(model: MjModel) -> list[int]:
    """Returns the tendons in the order in which the importer reads them: fixed ones first.

    Those that only actuators and sensors look at are left out: they pull at nothing.
    """
    first = model.wrap_type[model.tendon_adr]
    acts = [tendon for tendon in range(model.ntendon) if _acts(model, tendon)]
    return sorted(acts, key=lambda index: first[index] != mujoco.mjtWrap.mjWRAP_JOINT)


def _acts(model: MjModel, tendon: int) -> bool:
    """Returns whether a tendon pulls by itself, or an equality holds it."""
    fields = ("stiffness", "damping", "frictionloss", "armature", "limited")
    tied = [
        end
        for index in range(model.neq)
        if model.eq_type[index] == mujoco.mjtEq.mjEQ_TENDON
        for end in (model.eq_obj1id[index], model.eq_obj2id[index])
    ]
    return tendon in tied or any(getattr(model, f"tendon_{field}")[tendon] for field in fields)


def _add_contacts(contact: ET.Element, model: MjModel, names: Names, body: Callable[[int], str]) -> None:
    for pair in range(model.npair):
        text = ET.SubElement(contact, "pair", condim=str(model.pair_dim[pair]))
        text.set("geom1", names.geom(model.pair_geom1[pair]))
        text.set("geom2", names.geom(model.pair_geom2[pair]))
        for field in ("friction", "solref", "solreffriction", "solimp", "margin", "gap"):
            text.set(field, numbers(getattr(model, f"pair_{field}")[pair]))
    for signature in model.exclude_signature:
        ET.SubElement(contact, "exclude", body1=body(signature >> 16), body2=body(signature & 0xFFFF))


def _add_equality(parent: ET.Element, file: CompiledFile, index: int, names: Names, body: Callable[[int], str]) -> None:
    model = file.model
    kind = mujoco.mjtEq(model.eq_type[index])
    text = ET.SubElement(parent, _EQUALITIES[kind])
    text.set("name", names.of("equality", index))
    text.set("active", "true" if model.eq_active0[index] else "false")
    text.set("solref", numbers(model.eq_solref[index]))
    text.set("solimp", numbers(model.eq_solimp[index]))
    one, two = model.eq_obj1id[index], model.eq_obj2id[index]
    data = np.asarray(file.spec.equalities[index].data)
    if kind in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
        if model.eq_objtype[index] == mujoco.mjtObj.mjOBJ_SITE:
            text.set("site1", names.site(one))
            text.set("site2", names.site(two))
        else:
            text.set("body1", body(one))
            text.set("body2", body(two))
            text.set("anchor", numbers(data[:3]))
            if kind == mujoco.mjtEq.mjEQ_WELD:
                text.set("relpose", numbers(data[3:10]))
        if kind == mujoco.mjtEq.mjEQ_WELD:
            text.set("torquescale", numbers(data[10]))
        return
    name = names.joint if kind == mujoco.mjtEq.mjEQ_JOINT else names.tendon
    what = "joint" if kind == mujoco.mjtEq.mjEQ_JOINT else "tendon"
    text.set(f"{what}1", name(one))
    if two >= 0:
        text.set(f"{what}2", name(two))
    text.set("polycoef", numbers(model.eq_data[index, :5]))


def _add_tendon(parent: ET.Element, model: MjModel, index: int, names: Names) -> None:
    wraps = range(model.tendon_adr[index], model.tendon_adr[index] + model.tendon_num[index])
    is_fixed = model.wrap_type[wraps[0]] == mujoco.mjtWrap.mjWRAP_JOINT
    text = ET.SubElement(parent, "fixed" if is_fixed else "spatial", name=names.tendon(index))
    for field, attribute in _TENDON_FIELDS.items():
        text.set(attribute, numbers(getattr(model, f"tendon_{field}")[index]))
    limited = bool(model.tendon_limited[index])
    text.set("limited", "true" if limited else "false")
    if limited:
        text.set("range", numbers(model.tendon_range[index]))
    text.set("springlength", numbers(model.tendon_lengthspring[index]))
    for wrap in wraps:
        target, number = model.wrap_objid[wrap], model.wrap_prm[wrap]
        kind = mujoco.mjtWrap(model.wrap_type[wrap])
        if kind == mujoco.mjtWrap.mjWRAP_JOINT:
            ET.SubElement(text, "joint", joint=names.joint(target), coef=numbers(number))
        elif kind == mujoco.mjtWrap.mjWRAP_SITE:
            ET.SubElement(text, "site", site=names.site(target))
        elif kind == mujoco.mjtWrap.mjWRAP_PULLEY:
            ET.SubElement(text, "pulley", divisor=numbers(number))
        else:
            geom = ET.SubElement(text, "geom", geom=names.geom(target))
            if number >= 0:
                geom.set("sidesite", names.site(int(number)))
