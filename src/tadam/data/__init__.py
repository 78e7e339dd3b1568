"""Images in, episodes out: stores, sources, sampling and augmentation."""
