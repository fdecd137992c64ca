"""Speed of legible and its peers, always in the same run: machines are noisy, ratios less so."""
