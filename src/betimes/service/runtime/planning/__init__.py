"""What thinks beside the controller's turns: planners and selections of a portfolio, in threads."""
