"""A classifier from a few labelled images."""
