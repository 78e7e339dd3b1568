"""What the machine offers: devices, memory, files, locks, signals."""
