"""Small policies of Proctor's own: trained with torch, evaluated with NumPy alone."""
