"""Policies as single files that run without this framework."""

from lab_rl.export.metadata import policy_metadata
from lab_rl.export.onnx_file import check_path, export_onnx

__all__ = ["check_path", "export_onnx", "policy_metadata"]
