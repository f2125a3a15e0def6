"""What the elements of a file are called: in the simulation, and in the text that Newton reads."""

from __future__ import annotations

from collections import Counter

from lab_newton.robot_files.engine import MjModel, mujoco

_KINDS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "joint": mujoco.mjtObj.mjOBJ_JOINT,
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "site": mujoco.mjtObj.mjOBJ_SITE,
    "tendon": mujoco.mjtObj.mjOBJ_TENDON,
    "equality": mujoco.mjtObj.mjOBJ_EQUALITY,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
}


class Names:
    """Names of the elements of a compiled file.

    :meth:`of` is what users write: the name in the file, or one after the body for elements without. The other methods
    are labels inside the text for Newton: the same, but without the signs that mean something else there, and unique.
    """

    def __init__(self, model: MjModel) -> None:
        self._model = model
        counts = {"body": model.nbody, "joint": model.njnt, "geom": model.ngeom, "site": model.nsite,
                  "tendon": model.ntendon, "equality": model.neq, "actuator": model.nu}  # fmt: skip
        self._given = {kind: [self._name(kind, i) for i in range(count)] for kind, count in counts.items()}
        self._labels = {kind: _unique_labels(names) for kind, names in self._given.items()}
        geoms = set(self._labels["geom"])  # both are shapes of Newton's
        self._labels["site"] = [f"{label}_site" if label in geoms else label for label in self._labels["site"]]

    def of(self, kind: str, index: int) -> str:
        return self._given[kind][index]

    def body(self, index: int) -> str:
        return "world" if index == 0 else self._labels["body"][index]

    def joint(self, index: int) -> str:
        return self._labels["joint"][index]

    def geom(self, index: int) -> str:
        return self._labels["geom"][index]

    def site(self, index: int) -> str:
        return self._labels["site"][index]

    def tendon(self, index: int) -> str:
        return self._labels["tendon"][index]

    def _name(self, kind: str, index: int) -> str:
        model = self._model
        given = mujoco.mj_id2name(model, _KINDS[kind], index)
        if given:
            return given
        if kind == "body":
            return f"body_{index}"
        if kind in ("joint", "geom", "site"):
            owner = {"joint": model.jnt_bodyid, "geom": model.geom_bodyid, "site": model.site_bodyid}[kind]
            first = int((owner == owner[index]).argmax())
            body = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, int(owner[index])) or f"body_{owner[index]}"
            return f"{body}_{kind}_{index - first}"
        return f"{kind}_{index}"


def _unique_labels(names: list[str]) -> list[str]:
    labels = [name.replace("/", "_").replace("-", "_") for name in names]
    counts = Counter(labels)
    return [label if counts[label] == 1 else f"{label}_{i}" for i, label in enumerate(labels)]
