"""Speed of legible beside its peers, always in the same run: machines are noisy, ratios less so."""
