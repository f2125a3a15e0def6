"""Errors of managers and their terms."""

from __future__ import annotations

from lab_core.errors import ConfigError, LabError


class TermError(ConfigError):
    """A term is configured wrongly, or its function returned something that its manager cannot use."""


class UnknownTermError(TermError, KeyError):
    """A manager was asked for a term that it does not have."""


class ActionError(LabError, ValueError):
    """The environment was given an action of the wrong form, or one that is not finite."""
