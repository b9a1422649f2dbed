"""Penstock as executors get it that have none: a zip file for `--py-files`, or an archive of a Python environment."""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import penstock

ROOT = Path(penstock.__file__).parent
PACKAGES = (ROOT, ROOT.parent / "pyspark_penstock", ROOT.parent / "pyspark_penstock_lake")


def sources() -> list[tuple[Path, Path]]:
    """The files of the package, each with its path where packages are."""
    files = [file for package in PACKAGES for file in sorted(package.rglob("*")) if file.is_file()]
    return [(file, file.relative_to(ROOT.parent)) for file in files if "__pycache__" not in file.parts]


def zipped(directory: Path) -> Path:
    """The package as a zip file."""
    with zipfile.ZipFile(directory / "penstock.zip", "w") as package:
        for file, path in sources():
            package.write(file, path)
    return directory / "penstock.zip"


def bare_environment(directory: Path) -> Path:
    """A Python environment with all that this one has but Penstock; returns its Python."""
    venv.create(directory, symlinks=True)
    site = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not looked at
    return directory / "bin" / "python"


def archived_environment(directory: Path) -> Path:
    """A Python environment with Penstock as an archive, laid out as venv-pack does it."""
    bare_environment(directory / "packed")
    (site,) = (directory / "packed" / "lib").glob("*/site-packages")
    for file, path in sources():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(file.read_bytes())
    with tarfile.open(directory / "packed.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(directory / "packed", ".")
    return directory / "packed.tar.gz"


DRIVER = f"import sys; sys.path.insert(0, {str(ROOT.parent)!r}); from penstock.cli.main import main; sys.exit(main())"


def driver_command(*words: object) -> list[str]:
    """The command `penstock` with Penstock on its own path, and not in an environment that executors get too."""
    return [sys.executable, "-c", DRIVER, *map(str, words)]


def driver_environment(python: object, **more: str) -> dict[str, str]:
    """The environment of such a command, whose executors run a Python."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PYSPARK_PYTHON": str(python), **more}
