"""Training: steps, schedules, run folders and checkpoints."""
