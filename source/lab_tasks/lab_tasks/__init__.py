"""Robots and tasks."""

__version__ = "0.1.0"
