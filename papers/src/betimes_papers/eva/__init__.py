"""Eva (EuroSys'25): its tables and figures, run again."""
