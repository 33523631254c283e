"""Human labels: what a late head learns of experts' ratings, and how far it carries to sets it was not trained on."""
