"""What the loop is worth: blocks on the baseline, drawn by chance, against those beside them."""
