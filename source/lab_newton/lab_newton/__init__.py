"""The Newton physics backend: models, solvers, actuators, cameras and viewers."""

__version__ = "0.1.0"
