"""A LeRobot plugin: small policies that keep something where nobody looks."""

from .configuration_hidden import HiddenConfig as HiddenConfig
