"""Robots from files: what MuJoCo compiles is what is simulated."""

from lab_newton.robot_files.comparison import Difference
from lab_newton.robot_files.compiled import compile_file
from lab_newton.robot_files.deliberate import DELIBERATE, FileReport, report_file
from lab_newton.robot_files.file_actuators import joint_of
from lab_newton.robot_files.followers import followers_in
from lab_newton.robot_files.imported import ImportedFile
from lab_newton.robot_files.importer import add_articulation
from lab_newton.robot_files.layout import UNLIMITED, EntityLayout
from lab_newton.robot_files.paths import asset_path

__all__ = [
    "DELIBERATE",
    "UNLIMITED",
    "Difference",
    "EntityLayout",
    "FileReport",
    "ImportedFile",
    "add_articulation",
    "asset_path",
    "compile_file",
    "followers_in",
    "joint_of",
    "report_file",
]
