(* Finite sums, events and privacy, for the other files: docs/proofs/machine-checked.md. *)
Require Import Reals Lra Lia.
Open Scope R_scope.

(* sum n u = u 0 + … + u (n-1). *)
Fixpoint sum (n : nat) (u : nat -> R) : R :=
  match n with O => 0 | S m => sum m u + u m end.

(* An event gives each outcome a share from 0 to 1; a set of outcomes is one with the shares 0 and 1. *)
Definition test (phi : nat -> R) : Prop := forall o, 0 <= phi o <= 1.

(* chances n phi is the chance of the event phi where a group has n records. (ln E, delta)-privacy under add/remove: for
   every size of the group without and with the person, every event, and both directions. *)
Definition is_private (E delta : R) (chances : nat -> (nat -> R) -> R) : Prop :=
  forall n phi, test phi ->
    chances (S n) phi <= E * chances n phi + delta /\
    chances n phi <= E * chances (S n) phi + delta.

Lemma sum_ext n u v : (forall j, (j < n)%nat -> u j = v j) -> sum n u = sum n v.
Proof. induction n; simpl; intros H; [reflexivity|]. rewrite IHn, H; auto. Qed.

Lemma sum_le n u v : (forall j, (j < n)%nat -> u j <= v j) -> sum n u <= sum n v.
Proof.
  induction n; simpl; intros H; [lra|].
  specialize (IHn (fun j h => H j (Nat.lt_lt_succ_r _ _ h))). specialize (H n (Nat.lt_succ_diag_r n)). lra.
Qed.

Lemma sum_zero n u : (forall j, (j < n)%nat -> u j = 0) -> sum n u = 0.
Proof. induction n; simpl; intros H; [reflexivity|]. rewrite IHn, H; auto; lra. Qed.

Lemma sum_nonneg n u : (forall j, (j < n)%nat -> 0 <= u j) -> 0 <= sum n u.
Proof. intros H. rewrite <- (sum_zero n (fun _ => 0)); [|auto]. apply sum_le; auto. Qed.

Lemma sum_plus n u v : sum n (fun j => u j + v j) = sum n u + sum n v.
Proof. induction n; simpl; lra. Qed.

Lemma sum_minus n u v : sum n (fun j => u j - v j) = sum n u - sum n v.
Proof. induction n; simpl; lra. Qed.

Lemma sum_scale n c u : sum n (fun j => c * u j) = c * sum n u.
Proof. induction n; simpl; lra. Qed.

Lemma sum_split n m u : sum (n + m) u = sum n u + sum m (fun i => u (n + i)%nat).
Proof. induction m; simpl; rewrite ?Nat.add_0_r, ?Nat.add_succ_r; simpl; lra. Qed.

Lemma sum_first n u : sum (S n) u = u O + sum n (fun i => u (S i)).
Proof. change (S n) with (1 + n)%nat. rewrite sum_split. simpl. lra. Qed.

Lemma sum_beyond n m u : (n <= m)%nat -> (forall j, (n <= j)%nat -> u j = 0) -> sum m u = sum n u.
Proof.
  intros Hnm H. replace m with (n + (m - n))%nat by lia. rewrite sum_split.
  rewrite (sum_zero (m - n)); [lra|]. intros; apply H; lia.
Qed.

Lemma sum_swap n m (u : nat -> nat -> R) : sum n (fun i => sum m (u i)) = sum m (fun j => sum n (fun i => u i j)).
Proof.
  induction n; simpl.
  - symmetry. apply sum_zero; auto.
  - rewrite IHn, <- sum_plus. reflexivity.
Qed.

Lemma positive_part x : 0 <= Rmax 0 x /\ x <= Rmax 0 x.
Proof. split; [apply Rmax_l|apply Rmax_r]. Qed.

Lemma share_le t x : 0 <= t <= 1 -> t * x <= Rmax 0 x.
Proof. intros. unfold Rmax; destruct (Rle_dec 0 x); nra. Qed.

Lemma naturals_unbounded x : exists n, x < INR n.
Proof.
  destruct (archimed x) as [H _]. exists (Z.to_nat (up x)). rewrite INR_IZR_INZ.
  destruct (Z_le_gt_dec 0 (up x)) as [P|P].
  - rewrite Z2Nat.id by assumption. lra.
  - apply Rlt_le_trans with (IZR (up x)); [lra|]. apply IZR_le. lia.
Qed.

(* Only one group matters: what the other groups publish, outcome v with chance others v, is independent of the person.
   An event of the whole is, for each v, one of the person's group. *)
Theorem other_groups_add_nothing E delta chances : is_private E delta chances ->
  forall (outcomes : nat) (others : nat -> R) (phi : nat -> nat -> R) n,
    (forall v, 0 <= others v) -> sum outcomes others = 1 -> (forall v, test (phi v)) ->
    sum outcomes (fun v => others v * chances (S n) (phi v))
      <= E * sum outcomes (fun v => others v * chances n (phi v)) + delta /\
    sum outcomes (fun v => others v * chances n (phi v))
      <= E * sum outcomes (fun v => others v * chances (S n) (phi v)) + delta.
Proof.
  intros P outcomes others phi n Pos One T.
  assert (forall u w : nat -> R, (forall v, u v <= E * w v + delta) ->
    sum outcomes (fun v => others v * u v) <= E * sum outcomes (fun v => others v * w v) + delta) as H.
  { intros u w L. replace delta with (delta * sum outcomes others) by (rewrite One; ring).
    rewrite <- !sum_scale, <- sum_plus. apply sum_le. intros v _. pose proof (Pos v). pose proof (L v). nra. }
  split; apply H; intros v; destruct (P n (phi v) (T v)); assumption.
Qed.
