"""What `tadam bench` measures: speed, memory and their growth, as ratios from one run."""
