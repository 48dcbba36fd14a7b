"""Meshes, sizes and colours: files that are not there, millimetres taken for metres, shapes without a size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from condyle.doctor.bodies import body
from condyle.doctor.patient import DOUBT, ERROR, HINT, Finding, Patient, listed, named, written
from condyle.doctor.shapes import bounds, mesh_bounds, shapes
from condyle.doctor.text import Edits
from condyle.robot.names import quoted
from condyle.robot.paths import SCHEME
from condyle.robot.xml import Element

READABLE = (".stl", ".obj", ".dae")
MAX_VISITED = 4000  # files and folders looked at in search of a mesh
MAX_DEPTH = 4  # folders in folders
MESH_FOLDERS = ("meshes", "mesh", "Meshes", "assets", "stl", "visual", "collision", "models", "objects")
GIANT = 20.0  # m: a mesh larger than this on a small robot is in millimetres
SMALL = 5.0  # m: a small robot
GREY = "0.6 0.6 0.6 1"


def looks(patient: Patient) -> Iterator[Finding]:
    """Everything about shapes, their files and colours."""
    folders = _Folders(patient)
    for link in patient.links:
        for shape in link.children:
            if shape.tag not in ("visual", "collision"):
                continue
            geometry = patient.child(shape, "geometry")
            if geometry is None or not geometry.children:
                what = f"{named(link)} <{shape.tag}> has no " + ("<geometry>" if geometry is None else "shape in its <geometry>")
                covers = (f"{(geometry or shape).where}: ", "has no <geometry>" if geometry is None else "has 0 shapes")
                yield Finding(ERROR, "no-shape", shape.where, what, "Write a <box>, <sphere>, <cylinder>, <capsule> or <mesh>.",
                              f"deletes the <{shape.tag}>, which shows nothing", patient.page.drop(shape), covers)  # fmt: skip
                continue
            for part in geometry.children:
                if part.tag == "mesh":
                    yield from _mesh(patient, link, shape, part, folders)
                else:
                    yield from _size(patient, link, part)
    yield from folders.absent()
    yield from _colors(patient)


def _size(patient: Patient, link: Element, shape: Element) -> Iterator[Finding]:
    """Sizes are positive."""
    for name, count in (("size", 3), ("radius", 1), ("length", 1)):
        values = (
            patient.vector(shape, name, count)
            if count > 1
            else ((x,) if (x := patient.number(shape, name)) is not None else None)
        )
        if values is None or min(values) > 0.0 or (shape.tag == "box") != (name == "size"):
            continue
        if min(values) < 0.0:
            plain = listed([abs(value) for value in values])
            what = f"{named(link)} <{shape.tag}>: {name} {listed(values)} is negative"
            yield Finding(ERROR, "size-negative", shape.where, what, "Sizes have no sign.",
                          f'writes {name}="{plain}"', patient.page.set(shape, name, plain),
                          (f"{shape.where}: ", "must not be negative"))  # fmt: skip
        else:
            what, covers = f"{named(link)} <{shape.tag}>: {name} {listed(values)} has a zero", (f"{shape.where}", "of size zero")
            cure = "Write the size in metres, or delete the shape."
            yield Finding(DOUBT, "size-zero", shape.where, what, cure, covers=covers)


def _mesh(patient: Patient, link: Element, shape: Element, mesh: Element, folders: _Folders) -> Iterator[Finding]:
    name = mesh.attributes.get("filename", "")
    if not name.strip():
        what, covers = f"{named(link)} <{shape.tag}>: the mesh has no filename", (f"{mesh.where}: ", "attribute 'filename'")
        yield Finding(ERROR, "mesh-missing", mesh.where, what, "Name its file.", *_box(patient, link, mesh), covers)
        return
    refused = ""
    try:
        path = patient.places.find(name)
    except ValueError as error:
        path, refused = None, str(error)
    if path is None:
        yield from _lost(patient, link, shape, mesh, folders, refused)
        return
    if path.suffix.lower() not in READABLE:
        what = f"{named(link)} <{shape.tag}>: {quoted(path.suffix)} is not a kind of mesh that is read"
        yield Finding(HINT, "mesh-kind", mesh.where, what, f"Save it as {', '.join(READABLE)}; the physics does not need it.")
    box = mesh_bounds(patient, mesh)
    if box is None:
        return
    scale = np.array(patient.vector(mesh, "scale", 3) or (1.0, 1.0, 1.0))
    size = float(np.max(np.abs((box[1] - box[0]) * scale)))
    if size > GIANT and patient.reach < SMALL:
        smaller = " ".join(written(float(x)) for x in scale * 1e-3)
        sure = 0.001 < size * 1e-3 < max(4.0 * patient.reach, 2.0)
        fix = f'writes scale="{smaller}"' if sure else ""
        yield Finding(
            DOUBT, "mesh-millimetres", mesh.where,
            f"{named(link)} <{shape.tag}>: the mesh is {size:.4g} m large, on a robot of {patient.reach:.3g} m",
            f'It is probably in millimetres: write scale="{smaller}".', fix,
            patient.page.set(mesh, "scale", smaller) if fix else (),
        )  # fmt: skip


def _lost(patient: Patient, link: Element, shape: Element, mesh: Element, folders: _Folders, refused: str) -> Iterator[Finding]:
    """A mesh that is not where it says: where it is, if it is anywhere near; a box in its place, if it is nowhere."""
    name = mesh.attributes["filename"]
    scheme = SCHEME.match(name)
    package = name[scheme.end() :].lstrip("/").partition("/")[0] if scheme and scheme[1] in ("package", "model") else ""
    severity = DOUBT
    covers: tuple[str, ...] = ("mesh files not found in the allowed folders",)
    what = f"{named(link)} <{shape.tag}>: the mesh {quoted(name)} is not there"
    if refused:
        severity, covers = ERROR, (f"{mesh.where}: ", f"mesh {quoted(name)}: ")
        what = f"{named(link)} <{shape.tag}>: the mesh {quoted(name)} may not be used: {refused}"
    near, home = folders.find(name), folders.package(package) if package else None
    cure, fix = "Put the file there; the physics does not need it, pictures do.", ""
    edits: Edits = ()
    if near is not None:
        cure, fix = f"Write {quoted(near)}, which is there.", f"writes {quoted(near)}"
        edits = patient.page.set(mesh, "filename", near)
    elif home is not None:
        cure = f"Give --package-dir {home}: package {quoted(package)} is there."
    elif package and not refused:
        folders.missing.setdefault(package, []).append((mesh.where, what))
        return
    else:
        fix, edits = _box(patient, link, mesh)
    yield Finding(severity, "mesh-missing", mesh.where, what, cure, fix, edits, covers)


def _box(patient: Patient, link: Element, mesh: Element) -> tuple[str, Edits]:
    """(what the fix does, its edits): a box as large as the other shapes of the link, or as its inertia says, or of 5 cm."""
    size, read, box = np.full(3, 0.05), body(patient, link), bounds(shapes(patient, link))
    if box is not None:
        size = box[1] - box[0]
    elif read is not None and read[0] > 0.0:
        # the box of uniform density with these moments: a^2 = 6 (iyy + izz - ixx) / m
        m, I = read
        xx, yy, zz = np.diag(I)
        squares = 6.0 / m * np.array([yy + zz - xx, xx + zz - yy, xx + yy - zz])
        size = np.sqrt(np.clip(np.nan_to_num(squares), 0.01**2, 1.0))
    text = " ".join(f"{side:.3g}" for side in size)
    return f"puts a box of {text} m in its place", patient.page.replace(mesh, [f'<box size="{text}"/>'])


def _colors(patient: Patient) -> Iterator[Finding]:
    """Materials that no one gives a colour."""
    used, colored = dict[str, Element](), set[str]()
    materials = [child for child in patient.root.children if child.tag == "material"]
    inside = [m for link in patient.links for v in link.children if v.tag == "visual" for m in v.children if m.tag == "material"]
    for material in [*materials, *inside]:
        name = material.attributes.get("name", "")
        if patient.child(material, "color") is not None or patient.child(material, "texture") is not None:
            colored.add(name)
    for material in inside:
        name = material.attributes.get("name", "")
        if name.strip() and name not in colored:
            used.setdefault(name, material)
    defined = {material.attributes.get("name", ""): material for material in materials}
    for name, material in used.items():
        edits = patient.page.inside(defined.get(name, material), [f'<color rgba="{GREY}"/>'])
        yield Finding(
            HINT, "no-color", material.where, f"the material {quoted(name)} has no colour anywhere",
            f'Write <material name={quoted(name)}><color rgba="r g b a"/></material> in <robot>.', "makes it grey", edits,
            (f"material {quoted(name)}, which has no color anywhere",),
        )  # fmt: skip


class _Folders:
    """The files near a robot file, listed once, without following links, and not more than a few thousand."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self._files: dict[str, list[Path]] | None = None
        self.missing: dict[str, list[tuple[str, str]]] = {}  # packages that are nowhere: where and what of each of their meshes

    def absent(self) -> Iterator[Finding]:
        """One finding for each package that is nowhere, however many meshes it would have."""
        for package, uses in self.missing.items():
            where, what = uses[0]
            more = f", nor are {len(uses) - 1} more of package {quoted(package)}" if len(uses) > 1 else ""
            cure = f"Give --package-dir with the folder that holds the package {quoted(package)}; the physics does not need it."
            covers = ("mesh files not found in the allowed folders",)
            yield Finding(DOUBT, "mesh-missing", where, what + more, cure, covers=covers)

    def find(self, name: str) -> str | None:
        """How to write the one file that is called like this, from the robot's folder; None if there is none, or several."""
        plain = SCHEME.sub("", name.replace("\\", "/")).rpartition("/")[2].lower()
        found = self._listed().get(plain, []) if plain else []
        # of several, the one that lies in folders of the same names
        if len(found) > 1:
            parts = [part.lower() for part in name.replace("\\", "/").split("/")]
            alike = [sum(part.lower() in parts for part in path.parts[-4:]) for path in found]
            found = [path for path, score in zip(found, alike, strict=True) if score == max(alike)]
        if len(found) != 1:
            return None
        written = Path(os.path.relpath(found[0], self._home())).as_posix()
        try:
            return written if self.patient.places.find(written) is not None else None
        except ValueError:
            return None

    def package(self, package: str) -> Path | None:
        """The folder that holds a package of this name: one of the folders above, or one beside them."""
        if not package or package in (".", "..") or "/" in package or "\0" in package or len(package) > 200:
            return None
        for folder in list(self._home().parents)[:4]:
            for candidate in (folder / package, folder / "share" / package, folder / "src" / package):
                try:
                    if candidate.is_dir():
                        return candidate.parent
                except OSError:
                    return None
        return None

    def _home(self) -> Path:
        return Path(os.path.realpath(self.patient.places.folder))

    def _around(self) -> list[Path]:
        """Where else meshes may lie: the whole package, or, without one, folders beside the robot's that are called like it."""
        found: list[Path] = []
        for root in self.patient.places.roots:
            top = Path(os.path.realpath(root))
            whole = (top / "package.xml").is_file() or root in self.patient.package_dirs
            found += [top] if whole else [top / name for name in MESH_FOLDERS]
        return found

    def _listed(self) -> dict[str, list[Path]]:
        if self._files is not None:
            return self._files
        self._files = {}
        visited, seen = 0, set[Path]()
        waiting = [(self._home(), 0), *[(folder, 0) for folder in self._around()]]
        while waiting and visited < MAX_VISITED:
            folder, depth = waiting.pop(0)
            if folder in seen:
                continue
            seen.add(folder)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries[:MAX_VISITED]:
                visited += 1
                if entry.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH and not entry.name.startswith("."):
                        waiting.append((Path(entry.path), depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    self._files.setdefault(entry.name.lower(), []).append(Path(entry.path))
        return self._files
