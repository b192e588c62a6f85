"""Telling experiment trackers of a run: wandb, trackio, tensorboard, or one of your own."""
