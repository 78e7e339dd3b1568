"""Backbones, one file each, found by its name; docs/how-to/backbones.md says how to add one."""
