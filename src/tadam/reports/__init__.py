"""What people read: pages, plots and terminal output."""
