"""What is said to the model and what is made of its reply: pure functions over domain types."""
