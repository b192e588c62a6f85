"""What `proctor doctor` looks at: whether Proctor's main job can run here, and what to do if not."""
