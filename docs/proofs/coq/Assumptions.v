(* What the theorems rest on beyond Coq's logic: `make proofs` compares it with assumptions.txt. *)
From Crowdblend Require Import Privacy Profile Deletion Weights.

Definition theorems := (
  other_groups_add_nothing,
  (exact_profile, exact_profile_adding_alone, first_adding_exists, first_removing_exists),
  (deletion_is_private, deletion_is_optimal, deletion_publishes_most, pi_ends, chance_is_law),
  (weights_are_private, weights_add_up)).

Print Assumptions theorems.
