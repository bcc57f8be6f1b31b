"""The web page of the live service: views of plain URLs, drawn by the server, kept up to date by one small script."""
