"""Other forms of ops that a device refuses, each tried on a copy of the model and compared with it."""
