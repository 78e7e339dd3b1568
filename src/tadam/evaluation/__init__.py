"""What a model or a classifier achieves."""
