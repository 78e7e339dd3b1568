"""What `tadam bench` measures: speed, memory and how they scale, as ratios from one run."""
