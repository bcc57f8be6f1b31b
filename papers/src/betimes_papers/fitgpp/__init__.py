"""FitGpp (OpML 2019): its experiments."""
