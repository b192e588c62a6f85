"""What is known of a benchmark before any simulator starts."""

from __future__ import annotations

from proctor.benchmarks.facts import installed_versions


def test_versions_are_read_without_importing_and_absence_is_told() -> None:
    versions = installed_versions(["numpy", "no-such-distribution-at-all"])
    assert list(versions) == ["numpy", "no-such-distribution-at-all"]
    assert versions["numpy"][0].isdigit()
    assert versions["no-such-distribution-at-all"] == "absent"
