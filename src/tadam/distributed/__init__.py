"""Many processes as one run: their ranks, and how they agree, gather and average."""
