"""The URDF files of example-robot-data, where that package is installed, and which of them cannot be read, and why."""

from pathlib import Path

try:
    import pinocchio  # type: ignore[import-untyped]
except ImportError:
    FOLDER = Path("nowhere")
else:
    FOLDER = Path(pinocchio.__file__).parents[4] / "share" / "example-robot-data" / "robots"

URDFS = sorted(FOLDER.rglob("*.urdf"))
PACKAGE_DIRS = [FOLDER.parents[1]]

# what is wrong with them, as a part of our sentence
REFUSED = {
    "falcon.urdf": "link 'Z_propeller' does not exist",  # Pinocchio refuses it too
    "ur3.urdf": "has no <link>",  # an empty robot
}


def name(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()
