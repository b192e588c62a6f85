"""A Proctor policy offered to others over openpi's protocol: `proctor serve`."""
