"""What is simulated otherwise than the file says, on purpose: one table, and the report of a build."""

from __future__ import annotations

from dataclasses import dataclass

from lab_core.scene import ArticulationCfg
from lab_newton.robot_files.engine import mujoco
from lab_newton.robot_files.imported import ImportedFile

DELIBERATE: dict[str, str] = {
    "option": "<option> is left out: gravity, time step, integrator and solver are settings of the physics.",
    "start": "The root starts where init_state says; keyframes are left out.",
    "root": "fixed_base replaces the joints of the root.",
    "actuator": "The configured actuators drive the joints; those of the file act only where a FileActuatorCfg "
    "takes them over.",
    "actuatorfrcrange": "Limits of actuator forces are those of the configured actuators.",
    "ref": "Joint positions count from the pose that the file describes: 0 where MuJoCo counts ref.",
    "mocap": "Mocap bodies stand still where the file puts them.",
    "self_collision": "self_collision=False: bodies of the robot never touch each other.",
    "still": "Bodies without joints beside the robot are shapes of the world, at their places.",
    "plane": "Planes are infinite.",
    "sensor": "Sensors are those of the scene.",
    "gap": "NewtonCfg.contact_gap makes contacts of shapes that are near, and that do not push.",
    "convex": "Contacts of convex shapes are MuJoCo Warp's, found in float32: where directions are almost as near, "
    "normals and points are others than in MuJoCo.",
    "carrier": "Bodies whose joints are no one joint of Newton's get carriers of 1e-7 kg between them.",
    "visual": "Shapes that touch nothing are drawn and take no part in the physics; their masses count.",
}
"""Kind of difference -> what happens, and why nobody need be told for every field."""


@dataclass(frozen=True)
class FileReport:
    """What became of one model file."""

    entity: str
    path: str
    notes: tuple[str, ...]
    """What differs from the file, on purpose."""

    def __str__(self) -> str:
        if not self.notes:
            return f"{self.entity}: {self.path}, as MuJoCo compiles it."
        listed = "".join(f"\n  - {note}" for note in self.notes)
        return f"{self.entity}: {self.path}, as MuJoCo compiles it, but:{listed}"


def report_file(entity: str, imported: ImportedFile, cfg: ArticulationCfg) -> FileReport | None:
    """Returns what is deliberately different in the entity; None for a file that MuJoCo does not read."""
    file, root, names = imported.file, imported.root, imported.names
    if file is None or root is None or names is None:
        return None
    model = file.model
    notes = list(file.notes)
    still = [names.of("body", body) for body in root.still_bodies if body]
    mocap = [names.of("body", body) for body in range(1, model.nbody) if model.body_mocapid[body] >= 0]
    referred = [
        names.of("joint", joint)
        for joint in range(model.njnt)
        if model.jnt_type[joint] >= int(mujoco.mjtJoint.mjJNT_SLIDE) and model.qpos0[model.jnt_qposadr[joint]]
    ]
    found = {
        "start": ["keyframes"] if model.nkey else [],
        "root": [names.of("body", root.body)] if root.floats is not None else [],
        "actuator": [names.of("actuator", index) for index in range(model.nu)],
        "actuatorfrcrange": [names.of("joint", j) for j in range(model.njnt) if model.jnt_actfrclimited[j]],
        "ref": referred,
        "still": still,
        "mocap": mocap,
        "self_collision": [] if cfg.self_collision else [entity],
        "sensor": [f"{model.nsensor} in the file"] if model.nsensor else [],
    }
    notes += [f"{DELIBERATE[kind]} ({', '.join(elements)})" for kind, elements in found.items() if elements]
    return FileReport(entity, str(file.path), tuple(notes))
