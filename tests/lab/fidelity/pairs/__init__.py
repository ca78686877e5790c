"""Real traffic recorded under one client and played again under another: what the replay predicts against what came."""
