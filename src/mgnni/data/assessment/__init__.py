"""What a classification is worth: baseline, classes, calibration, threshold and uncertainty."""
