"""What is wrong with a robot file, and the cure: rules, each with its own findings, and edits that leave the rest as it was."""
