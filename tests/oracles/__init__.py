"""Independent twins that tests hold the product against."""
