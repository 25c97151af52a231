"""What every trainer shares: checkpoints with exact resume, the training log, cached examples."""
