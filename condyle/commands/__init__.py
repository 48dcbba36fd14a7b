"""What the commands of a robot do: tell, measure, export."""
