"""Model files, and finding a model by name."""
