"""What people want, and how much they contradict each other, counted on preferences."""
