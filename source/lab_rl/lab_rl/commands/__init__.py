"""Sub-commands of `lab`."""
