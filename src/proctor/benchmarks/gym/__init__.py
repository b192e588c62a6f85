"""Any registered `gymnasium.Env`, and presets of it."""
