"""Sub-commands of ``lab``."""
