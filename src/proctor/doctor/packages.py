"""The packages: there, of a version that will do, and importable."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata

from proctor.doctor.cuda import cuda_of
from proctor.doctor.findings import Finding
from proctor.doctor.imports import try_imports
from proctor.doctor.requirements import PACKAGES, Package

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
    return findings


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
