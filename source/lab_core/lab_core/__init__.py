"""Managers, environments, scene data and configuration shared by every lab package."""

__version__ = "0.1.0"
