"""Measures models and classifiers."""
