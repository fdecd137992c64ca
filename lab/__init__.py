"""Tools that only this project needs: experiments, the paper's tables, the fleet trainer, benchmarks and harness."""
