"""Backbones, one file each, found by its name; docs/backbones.md says how to add one."""
