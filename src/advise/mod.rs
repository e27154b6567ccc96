//! What the results mean: findings, rules, the pick.
