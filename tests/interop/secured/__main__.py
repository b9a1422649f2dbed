"""`python -m interop.secured [--sample | MODULES] [pytest's options]`: tests of the table `grants` as an ordinary user.

Modules are named as there, such as clients/test_matrix.py; without any all of them run. The file SECURED_RIGHTS, if the
environment names one, gets a line for each: what it used, and was denied.
"""

from __future__ import annotations

import os
import sys

from interop.secured.grants import GRANTS, SAMPLE

PYTEST = (sys.executable, "-m", "pytest", "-p", "interop.secured.plugin")


def main() -> None:
    """Becomes pytest."""
    words = sys.argv[1:]
    modules = [each for each in words if each in GRANTS]
    options = [each for each in words if each not in GRANTS and each != "--sample"]
    if not modules:
        modules = [*SAMPLE] if "--sample" in words else sorted(GRANTS)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, ("tests", os.environ.get("PYTHONPATH"))))
    os.execv(PYTEST[0], [*PYTEST, *options, *(f"tests/interop/{each}" for each in modules)])


if __name__ == "__main__":
    main()
