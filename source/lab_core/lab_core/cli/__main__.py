"""``python -m lab_core.cli``, where a launcher wants a module instead of the ``lab`` command."""

import sys

from lab_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
