"""Few-shot methods."""
