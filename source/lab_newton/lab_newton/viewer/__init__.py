"""A live view of the scene in the browser, with controls."""

from lab_newton.viewer.browser import BrowserViewer

__all__ = ["BrowserViewer"]
