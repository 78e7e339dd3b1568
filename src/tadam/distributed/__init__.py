"""Many processes as one run: their places, what they agree on, gather and average."""
