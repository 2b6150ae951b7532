"""Data that chat formats are tested with: templates in each family's manner, and answers as its models write them."""
