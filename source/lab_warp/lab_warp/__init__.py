"""Stage capture and shared random state on NVIDIA Warp."""

__version__ = "0.1.0"
