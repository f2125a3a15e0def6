"""Policies as single files that run without this framework."""

from lab_rl.export.metadata import policy_metadata
from lab_rl.export.onnx_file import export_onnx

__all__ = ["export_onnx", "policy_metadata"]
