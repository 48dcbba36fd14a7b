"""What is wrong with a robot file and how to fix it: findings of the loader's rules, advice, and edits that leave the rest."""
