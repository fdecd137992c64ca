"""Programs that make the paper's tables and the zoo."""
