"""The packages that Proctor uses: there, of a version that will do, and importable.

Their bounds are those of pyproject.toml. They stand here a second time because the metadata of an installation is
missing where Proctor runs from a source tree; a test keeps the two equal.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from proctor.doctor.findings import Finding
from proctor.doctor.imports import try_imports
from proctor.installation import install_command

CORE, META_WORLD, OPTIONS = "core", "Meta-World", "options"


@dataclass(frozen=True)
class Package:
    """A distribution and what Proctor asks of it."""

    name: str
    section: str
    bounds: str = ""
    extra: str = ""
    """The extra of Proctor that brings it."""
    use: str = ""
    """What it is good for, where that is not plain."""
    module: str = ""
    """Its import name, where that is another one."""
    slow: bool = False
    """Takes seconds to import, so it is not tried."""

    @property
    def import_name(self) -> str:
        """What `import` calls it."""
        return self.module or self.name

    @property
    def needed(self) -> bool:
        """Whether the main job needs it."""
        return self.section != OPTIONS

    @property
    def install(self) -> str:
        """The command that gets it, or another version of it."""
        if self.extra:
            return install_command(self.extra)
        return f"pip install '{self.name}{self.bounds}'" if self.bounds else f"pip install {self.name}"

    def judge(self, version: str) -> str:
        """Say what is wrong with a version; nothing if it will do, or if nobody can tell.

        >>> Package("mujoco", "Meta-World", ">=3.3.0,<3.17").judge("4.0.1")
        'too new, must be below 3.17'
        """
        try:
            from packaging.specifiers import SpecifierSet
            from packaging.version import Version

            refusing = [
                one for one in SpecifierSet(self.bounds) if not one.contains(Version(version), prereleases=True)
            ]
        except (ImportError, ValueError):  # without packaging, which is looked at too; or no version at all
            return ""
        words = {">=": "too old, must be at least", "<": "too new, must be below"}
        return "".join(f"{words[one.operator]} {one.version}" for one in refusing[:1])


PACKAGES = (
    Package("msgpack", CORE, ">=1.0.5"),
    Package("numpy", CORE, ">=1.26"),
    Package("annotated-types", CORE, ">=0.6", module="annotated_types"),
    Package("pydantic", CORE, ">=2.7"),
    Package("pyyaml", CORE, ">=6.0", module="yaml"),
    Package("rich", CORE, ">=13.7"),
    Package("jinja2", CORE, ">=3.1"),
    Package("packaging", CORE, ">=23"),
    Package("mujoco", META_WORLD, ">=3.3.0,<3.17", extra="metaworld"),
    Package("gymnasium", META_WORLD, ">=1.1.1", extra="metaworld"),
    Package("metaworld", META_WORLD, ">=3.0.0", extra="metaworld"),
    Package("av", OPTIONS, ">=12", extra="video", use="videos"),
    Package("pyarrow", OPTIONS, ">=15", extra="recording", use="recorded datasets"),
    Package("hf-libero", OPTIONS, ">=0.1.4", extra="libero", use="LIBERO", module="libero", slow=True),
    Package("websockets", OPTIONS, ">=15", extra="remote", use="policy servers"),
    Package("scipy", OPTIONS, ">=1.11", extra="stats", use="comparing runs"),
    Package("uvicorn", OPTIONS, ">=0.30", extra="view", use="proctor view"),
    Package("starlette", OPTIONS, ">=0.49.1", extra="view", use="proctor view"),
    Package("pandas", OPTIONS, ">=2.0", extra="pandas", use="data frames"),
    Package("lerobot", OPTIONS, ">=0.5", extra="lerobot", use="checkpoints", slow=True),
    Package("torch", OPTIONS, use="checkpoints", slow=True),
    Package("ray", OPTIONS, ">=2.40", extra="ray", use="clusters", slow=True),
)
"""A package comes after those that it imports, so that what is broken is met before what breaks with it."""


_CUDA = re.compile(r"""^cuda\s*(?::[^=]+)?=\s*['"]([\d.]+)['"]""", re.MULTILINE)
_LABEL = re.compile(r"\+cu(\d+)(\d)$")


def cuda_of(version: str) -> str:
    """Return the CUDA version of the installed torch, or nothing if it has none."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        try:
            return cuda_in(Path(spec.origin).with_name("version.py").read_text())
        except OSError:
            pass  # the version's own label may tell
    label = _LABEL.search(version)
    return f"{label[1]}.{label[2]}" if label else ""


def cuda_in(text: str) -> str:
    """Return the CUDA version that the text of torch/version.py names.

    >>> cuda_in("cuda: Optional[str] = '12.6'"), cuda_in("cuda: Optional[str] = None")
    ('12.6', '')
    """
    match = _CUDA.search(text)
    return match[1] if match else ""


LEROBOT_PYTHON = (3, 12)


def look_at_packages() -> list[Finding]:
    """Return a finding per package."""
    there = {package.name for package in PACKAGES if is_there(package.import_name)}
    complaints = try_imports([p.import_name for p in PACKAGES if p.name in there and not p.slow])
    findings: list[Finding] = []
    blamed: dict[str, Finding] = {}
    for package in PACKAGES:
        finding = look_at_package(package, package.name in there, complaints)
        complaint = complaints.get(package.import_name)
        if complaint and finding.state == "broken":
            # The same complaint twice: the second package only imports the first.
            culprit = blamed.setdefault(complaint, finding)
            if culprit is not finding:
                finding = replace(
                    finding, text=f"cannot be imported without {culprit.name}", remedy=culprit.remedy
                )
        findings.append(finding)
    return with_environments(findings)


def look_at_package(package: Package, there: bool, complaints: Mapping[str, str]) -> Finding:
    """Return the finding about one package.

    Args:
        package: what is asked of it.
        there: whether its module can be found.
        complaints: what modules said when they were imported, if that was tried.
    """
    version = version_of(package.name)
    if not there and not version:
        return absent(package, sys.version_info[:2])
    finding = Finding(package.section, package.name, "ok", version or "of unknown version", needed=package.needed)
    complaint, fault = complaints.get(package.import_name, ""), package.judge(version) if version else ""
    if fault:
        return replace(finding, state="broken", text=f"{version} is {fault}", remedy=package.install)
    if not there:
        complaint = "is registered, but its files are gone"
    if complaint:
        text = " ".join(f"{version} {complaint}".split())
        # Something that it needs is missing: pip looks for that when it is asked again.
        incomplete = complaint.startswith("ModuleNotFoundError")
        remedy = package.install if incomplete else reinstall(package, version)
        return replace(finding, state="broken", text=text, remedy=remedy)
    if package.name == "torch":
        cuda = cuda_of(version)
        return replace(finding, text=f"{finding.text}, " + (f"CUDA {cuda}" if cuda else "without CUDA"))
    return finding


def with_environments(findings: Sequence[Finding]) -> list[Finding]:
    """Say of Meta-World, if its packages are in order, which environments its tasks run in."""
    if not all(finding.state == "ok" for finding in findings if finding.section == META_WORLD):
        return list(findings)
    return [_with_environments(finding) if finding.name == "metaworld" else finding for finding in findings]


def _with_environments(finding: Finding) -> Finding:
    from proctor.benchmarks.metaworld.environments import nearest_proved, why_stock

    why = why_stock()
    if not why:
        return replace(finding, text=f"{finding.text}, in quick environments")
    text = f"{finding.text}, its own environments, half as quick: {why}"
    return replace(finding, state="note", text=text, remedy=f"pip install {nearest_proved().packages}")


def absent(package: Package, python: tuple[int, int]) -> Finding:
    """Return the finding about a package that is not there, and how to get it."""
    text = "not installed" if package.needed else f"for {package.use}" if package.use else "optional"
    remedy = package.install
    if package.name == "torch":
        remedy = "comes with lerobot"
    if package.name == "lerobot" and python < LEROBOT_PYTHON:
        # The extra would install nothing: LeRobot is not for this Python.
        remedy = "Python 3.12, or --policy.python"
    return Finding(package.section, package.name, "absent", text, remedy, package.needed)


def reinstall(package: Package, version: str) -> str:
    """Return the command that installs the same version again, or any that will do."""
    if not version:
        return package.install
    return f"pip install --force-reinstall --no-deps {package.name}=={version.partition('+')[0]}"


def is_there(module: str) -> bool:
    """Whether a module can be found. A folder without code, in the current directory say, is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None


def version_of(name: str) -> str:
    """Return the installed version of a distribution, or nothing where its metadata does not tell."""
    try:
        return str(metadata.version(name) or "")
    except Exception:  # absent or damaged in one of many ways: what matters is whether it can be imported
        return ""
