"""Robots from files: what MuJoCo compiles is what is simulated."""

from lab_newton.robot_files.comparison import Difference as Difference
from lab_newton.robot_files.deliberate import DELIBERATE as DELIBERATE
from lab_newton.robot_files.deliberate import FileReport as FileReport
from lab_newton.robot_files.deliberate import report_file as report_file
from lab_newton.robot_files.imported import ImportedFile as ImportedFile
from lab_newton.robot_files.importer import add_articulation as add_articulation
from lab_newton.robot_files.layout import UNLIMITED as UNLIMITED
from lab_newton.robot_files.layout import EntityLayout as EntityLayout
from lab_newton.robot_files.paths import asset_path as asset_path
