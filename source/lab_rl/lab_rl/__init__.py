"""Training, playing and exporting policies."""

__version__ = "0.1.0"
