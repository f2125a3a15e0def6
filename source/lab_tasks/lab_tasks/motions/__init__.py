"""Motions to track: a file format, converters, a library on the device, and motions made by rules."""

from lab_tasks.motions.clip import MotionClip, MotionError, load_clip, save_clip
from lab_tasks.motions.convert import convert_motion
from lab_tasks.motions.demo_clips import DEMO_CLIPS, demo_clip
from lab_tasks.motions.formats import FORMATS
from lab_tasks.motions.library import MotionFrames, MotionLibrary
from lab_tasks.motions.mirror import mirror
from lab_tasks.motions.plots import plot_clip
from lab_tasks.motions.preflight import Finding, preflight
from lab_tasks.motions.robot_model import RobotModel, g1_model
from lab_tasks.motions.splines import ClipDerivatives, accelerations, resample, velocities
from lab_tasks.motions.video import film_clip

__all__ = [
    "ClipDerivatives",
    "DEMO_CLIPS",
    "FORMATS",
    "Finding",
    "MotionClip",
    "MotionError",
    "MotionFrames",
    "MotionLibrary",
    "RobotModel",
    "accelerations",
    "convert_motion",
    "demo_clip",
    "film_clip",
    "g1_model",
    "load_clip",
    "mirror",
    "plot_clip",
    "preflight",
    "resample",
    "save_clip",
    "velocities",
]
