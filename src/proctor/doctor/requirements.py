"""The packages that Proctor uses, what for, and the versions that will do: those of pyproject.toml.

They stand here a second time because the metadata of an installation is missing where Proctor runs from a
source tree; a test keeps the two equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proctor.installation import install_command

CORE, META_WORLD, OPTIONS = "core", "Meta-World", "options"


@dataclass(frozen=True)
class Package:
    """A distribution and what Proctor asks of it."""

    name: str
    section: str
    at_least: str = ""
    below: str = ""
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
        bounds = ",".join(filter(None, (self.at_least and f">={self.at_least}", self.below and f"<{self.below}")))
        return f"pip install '{self.name}{bounds}'" if bounds else f"pip install {self.name}"

    def judge(self, version: str) -> str:
        """Say what is wrong with a version; nothing if it will do.

        >>> Package("mujoco", "Meta-World", at_least="3.3.0", below="3.17").judge("4.0.1")
        'too new, must be below 3.17'
        """
        if self.at_least and release(version) < release(self.at_least):
            return f"too old, must be at least {self.at_least}"
        if self.below and release(version) >= release(self.below):
            return f"too new, must be below {self.below}"
        return ""


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare; trailing zeros say nothing.

    >>> release("3.17.0rc1"), release("2.7.1+cu126"), release("3.3") == release("3.3.0")
    ((3, 17), (2, 7, 1), True)
    """
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, re.sub(r"(\.0+)+$", "", match[0]).split("."))) if match else ()


PACKAGES = (
    Package("msgpack", CORE, "1.0.5"),
    Package("numpy", CORE, "1.26"),
    Package("pydantic", CORE, "2.7"),
    Package("pyyaml", CORE, "6.0", module="yaml"),
    Package("rich", CORE, "13.7"),
    Package("jinja2", CORE, "3.1"),
    Package("packaging", META_WORLD, "23", extra="metaworld"),
    Package("mujoco", META_WORLD, "3.3.0", "3.17", extra="metaworld"),
    Package("gymnasium", META_WORLD, "1.1", extra="metaworld"),
    Package("metaworld", META_WORLD, "3.0.0", extra="metaworld"),
    Package("av", OPTIONS, "12", extra="video", use="videos"),
    Package("pyarrow", OPTIONS, "15", extra="recording", use="recorded datasets"),
    Package("hf-libero", OPTIONS, "0.1.4", extra="libero", use="LIBERO", module="libero", slow=True),
    Package("websockets", OPTIONS, "15", extra="remote", use="policy servers"),
    Package("scipy", OPTIONS, "1.11", extra="stats", use="comparing runs"),
    Package("uvicorn", OPTIONS, "0.30", extra="view", use="proctor view"),
    Package("starlette", OPTIONS, "0.49.1", extra="view", use="proctor view"),
    Package("pandas", OPTIONS, "2.0", extra="pandas", use="data frames"),
    Package("lerobot", OPTIONS, "0.5", extra="lerobot", use="checkpoints", slow=True),
    Package("torch", OPTIONS, use="checkpoints", slow=True),
    Package("ray", OPTIONS, "2.40", extra="ray", use="clusters", slow=True),
)
"""A package comes after those that it imports, so that what is broken is met before what breaks with it."""
