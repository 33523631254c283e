"""What a response leaves for everybody: how much of it is needed, on the simulated arena, beside the other heads."""
