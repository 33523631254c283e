"""Does accuracy on a benchmark predict what a reward model is good for?"""
