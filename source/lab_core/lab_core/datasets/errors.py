"""What can go wrong while recording, and with recorded files."""

from __future__ import annotations

from lab_core.errors import LabError


class RecorderError(LabError, RuntimeError):
    """The recorder was used in a way that it cannot follow, or could not save what it recorded."""


class DatasetError(LabError, RuntimeError):
    """A recorded file is missing, damaged, of another kind, or does not fit its use."""


class NoSuchEpisodeError(DatasetError, IndexError):
    """A recording was asked for an episode that it does not have."""
