"""The only door to Delta: session, load, replace a window, catalog, maintenance."""
