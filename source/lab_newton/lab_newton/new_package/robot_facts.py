"""What a package is written from: the robot as it was built."""

from __future__ import annotations

from dataclasses import dataclass

from lab_core.scene import ArticulationData, FileActuatorCfg
from lab_newton.viewer.model_file import ModelFile

_GRAVITY = 9.81


@dataclass(frozen=True)
class RobotFacts:
    """A robot, seen from outside."""

    hinges: tuple[str, ...]
    """Joints to drive that turn, without those that follow others."""
    slides: tuple[str, ...]
    """Joints to drive that slide."""
    file_drives: bool
    """Whether the file's own actuators drive these joints."""
    by_effort: bool
    """Whether they take efforts, not positions."""
    effort_limits: dict[str, float]
    """Joint -> limit of those of the file [N m or N]; only with :attr:`by_effort`."""
    floats: bool
    """Whether the root moves freely."""
    weight: float
    """[N]."""
    size: float
    """Diameter [m]."""
    lift: float
    """How far the root is to be raised so that nothing is below the ground [m]."""
    root_pos: tuple[float, float, float]
    """Of the file's start [m]."""
    moved_joints: dict[str, float]
    """Joint -> where it starts [rad or m], of those whose limits exclude where the file has them."""

    @property
    def stiffness(self) -> float:
        """Guess for hinges: holds the weight at half the size by a radian [N m/rad]."""
        return _rounded(0.5 * self.weight * self.size)

    @property
    def slide_stiffness(self) -> float:
        """Guess for slides: holds the weight by a tenth of a metre [N/m]."""
        return _rounded(10.0 * self.weight)


def read_facts(file: str) -> RobotFacts:
    """Builds the robot of a file once, and looks.

    Raises:
        ConfigError: it cannot be simulated as it stands.
    """
    plain = ModelFile(file)
    driven = plain.joints_of_file_actuators()
    model = ModelFile(file, actuators={"file": FileActuatorCfg()}) if driven else plain
    try:
        data, kinds = model.data, model.kinds()
        names = driven or plain.free_joints()
        index = [data.joint_names.index(name) for name in names]
        kind_of = dict(zip(data.joint_names, kinds, strict=True))
        low, high = model.bounds()
        return RobotFacts(
            hinges=tuple(name for name in names if kind_of[name] == "hinge"),
            slides=tuple(name for name in names if kind_of[name] == "slide"),
            file_drives=bool(driven),
            by_effort=bool(driven) and not bool(data.joint_stiffness[0, index].any()),
            effort_limits={name: float(data.joint_effort_limits[0, i]) for name, i in zip(names, index, strict=True)},
            floats=model.floats,
            weight=_GRAVITY * float(data.body_mass[0].sum()),
            size=float(max(high - low)),
            lift=max(0.0, -float(low[2])) if model.floats else 0.0,
            moved_joints=_moved(data),
            root_pos=tuple(data.root_link_pose_w[0, :3].tolist()),
        )
    finally:
        plain.close()
        model.close()


def _moved(data: ArticulationData) -> dict[str, float]:
    """Returns the joints that start at a limit, because 0 lies beyond it."""
    low, high = data.joint_pos_limits[0].unbind(-1)
    return {
        name: float(f"{position:.6g}")
        for name, position, excluded in zip(
            data.joint_names, data.default_joint_pos[0].tolist(), ((low > 0.0) | (high < 0.0)).tolist(), strict=True
        )
        if excluded
    }


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")
