"""What users download themselves: models of other people that our robots can wear. Nothing is fetched here."""
