"""Where files of assets lie."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lab_core.config import package_path
from lab_core.errors import ConfigError


def asset_path(asset: str) -> Path:
    """Returns the file that ``asset`` names: a path, which may contain ``$NAME`` of an environment variable, or
    ``package:path/inside/package``.

    Raises:
        ConfigError: there is no such package, variable or file.
    """
    package, separator, _ = asset.partition(":")
    if separator and package.isidentifier() and len(package) > 1:  # one letter: a drive of Windows
        path = package_path(asset)
    else:
        for name in re.findall(r"\$(\w+)", asset):
            if name not in os.environ:
                raise ConfigError(f"Asset {asset!r}: the environment variable {name} is not set.")
        path = Path(os.path.expandvars(asset)).expanduser()
    if not path.is_file():
        raise ConfigError(f"Asset {asset!r}: there is no file {str(path)!r}.")
    return path
