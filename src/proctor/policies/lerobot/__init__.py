"""LeRobot checkpoints, through the installed `lerobot` package."""
