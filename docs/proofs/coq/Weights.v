(* The whole-number weights by which a deletion is drawn: docs/proofs/deletion.md, Integers. a stands for e^epsilon.

   The recursion is that of mechanisms/kinds/deletion.py: growth / fine is e^epsilon rounded down, decay / fine e^-epsilon
   rounded up, and every division of whole numbers is rounded down. *)
Require Import Reals ZArith Lra Lia.
From Crowdblend Require Import Privacy.
Open Scope R_scope.

(* The weights of Z = 0 … i - 1 together. *)
Fixpoint below (growth decay fine total share : Z) (i : nat) : Z :=
  match i with
  | O => 0
  | S j =>
      let b := below growth decay fine total share j in
      Z.min (Z.min (growth * b / fine + share) (total + decay * (b + share - total) / fine)) total
  end%Z.

Definition weight (growth decay fine total share : Z) (z : nat) : Z :=
  (below growth decay fine total share (S z) - below growth decay fine total share z)%Z.

(* The chance that what is published of a group of n records is in the event phi; a draw is uniform below total. *)
Definition chance (growth decay fine total share : Z) (most n : nat) (phi : nat -> R) : R :=
  sum most (fun z => IZR (weight growth decay fine total share z) * phi (n - z)%nat) / IZR total.

Section Weights.
  Variables growth decay fine total share : Z.
  Variables a delta : R.
  Variable most : nat.
  Hypothesis fine_pos : (0 < fine)%Z.
  Hypothesis total_pos : (0 < total)%Z.
  Hypothesis share_pos : (0 < share)%Z.
  Hypothesis growth_nonneg : (0 <= growth)%Z.
  Hypothesis decay_nonneg : (0 <= decay)%Z.
  Hypothesis a_range : 1 <= a.
  (* Rounded to the right side, and not by much. *)
  Hypothesis growth_down : IZR growth <= a * IZR fine.
  Hypothesis decay_up : IZR fine <= a * IZR decay.
  Hypothesis growth_near : (total * (fine - growth) <= fine)%Z.
  Hypothesis decay_near : (total * (decay - fine) <= fine)%Z.
  (* All weights are there, and delta was lowered by enough for each. *)
  Hypothesis all_weights : below growth decay fine total share most = total.
  Hypothesis lowered : IZR share + INR most * (a + 1) <= delta * IZR total.

  Let c i := IZR (below growth decay fine total share i).
  Let g := IZR growth / IZR fine.
  Let h := IZR decay / IZR fine.
  Let W := IZR total.
  Let D := IZR share.
  Let mass z := c (S z) - c z.

  Lemma rounded_down x : IZR x / IZR fine - 1 < IZR (x / fine) <= IZR x / IZR fine.
  Proof.
    pose proof (Z.div_mod x fine ltac:(lia)) as E. pose proof (Z.mod_pos_bound x fine fine_pos) as B.
    assert (0 < IZR fine) as P by (apply IZR_lt; assumption).
    assert (IZR x = IZR fine * IZR (x / fine) + IZR (x mod fine)) as X
      by (rewrite <- mult_IZR, <- plus_IZR, <- E; reflexivity).
    assert (0 <= IZR (x mod fine) < IZR fine) as [L U] by (split; [apply IZR_le|apply IZR_lt]; lia).
    replace (IZR x / IZR fine) with (IZR (x / fine) + IZR (x mod fine) / IZR fine) by (rewrite X; field; lra).
    assert (0 <= IZR (x mod fine) / IZR fine < 1); [|lra].
    split; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
    apply Rmult_lt_reg_r with (IZR fine); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  Lemma sizes : 0 < W /\ 1 <= D /\ 0 <= g <= a /\ 0 <= h /\ 1 <= a * h /\ W * (1 - g) <= 1 /\ W * (h - 1) <= 1.
  Proof.
    assert (0 < IZR fine) as P by (apply IZR_lt; assumption).
    assert (IZR fine * / IZR fine = 1) as I by (apply Rinv_r; lra).
    assert (0 < / IZR fine) as Q by (apply Rinv_0_lt_compat; assumption).
    assert (0 <= IZR growth) by (apply IZR_le; assumption). assert (0 <= IZR decay) by (apply IZR_le; assumption).
    unfold W, D, g, h, Rdiv. split; [apply IZR_lt; assumption|]. split; [apply IZR_le; lia|].
    split; [split; [nra|]|].
    { apply Rle_trans with (a * IZR fine * / IZR fine); [nra|]. rewrite Rmult_assoc, I. lra. }
    split; [nra|]. split.
    { rewrite <- I, <- Rmult_assoc. nra. }
    apply IZR_le in growth_near, decay_near. rewrite mult_IZR, minus_IZR in growth_near, decay_near.
    split.
    - replace (IZR total * (1 - IZR growth * / IZR fine))
        with (IZR total * (IZR fine - IZR growth) * / IZR fine) by (rewrite <- I; ring). rewrite <- I. nra.
    - replace (IZR total * (IZR decay * / IZR fine - 1))
        with (IZR total * (IZR decay - IZR fine) * / IZR fine) by (rewrite <- I; ring). rewrite <- I. nra.
  Qed.

  (* One step of the recursion, within what rounding leaves open. *)
  Lemma next i :
    (c (S i) <= g * c i + D /\ c (S i) <= W + h * (c i + D - W) /\ c (S i) <= W) /\
    (c (S i) = W \/ c (S i) > g * c i + D - 1 \/ c (S i) > W + h * (c i + D - W) - 1).
  Proof.
    unfold c, D, W. cbn [below]. set (b := below growth decay fine total share i).
    pose proof (rounded_down (growth * b)) as U. pose proof (rounded_down (decay * (b + share - total))) as V.
    replace (IZR (growth * b) / IZR fine) with (g * IZR b) in U by (unfold g; rewrite mult_IZR; unfold Rdiv; ring).
    replace (IZR (decay * (b + share - total)) / IZR fine) with (h * (IZR b + IZR share - IZR total)) in V
      by (unfold h; rewrite mult_IZR, minus_IZR, plus_IZR; unfold Rdiv; ring).
    set (u := (growth * b / fine)%Z) in *. set (v := (decay * (b + share - total) / fine)%Z) in *. clearbody u v b.
    set (m := Z.min (Z.min (u + share) (total + v)) total).
    assert ((m <= u + share)%Z /\ (m <= total + v)%Z /\ (m <= total)%Z) as (A1 & A2 & A3) by (unfold m; lia).
    assert (m = total \/ m = (u + share)%Z \/ m = (total + v)%Z) as B by (unfold m; lia).
    clearbody m. apply IZR_le in A1, A2, A3. rewrite plus_IZR in A1, A2.
    split; [repeat split; lra|].
    destruct B as [B|[B|B]]; [left|right; left|right; right]; rewrite B, ?plus_IZR; lra.
  Qed.

  Lemma at_most_total i : c i <= W.
  Proof. destruct i; [unfold c; simpl; pose proof sizes; lra|]. apply next. Qed.

  Lemma integer_le x y : IZR x > IZR y - 1 -> (y <= x)%Z.
  Proof.
    intros L. assert (IZR (y - 1) < IZR x) as M by (rewrite minus_IZR; lra). apply lt_IZR in M. lia.
  Qed.

  Lemma rising i : 0 <= c i <= c (S i).
  Proof.
    induction i as [|i IH] using nat_ind.
    all: match goal with |- 0 <= c ?n <= _ => assert (0 <= c n) as N; [|split; [exact N|]] end.
    1: unfold c; simpl; lra.
    2: lra.
    all: match goal with |- c ?n <= c (S ?n) => destruct (next n) as [_ B]; pose proof (at_most_total n) as T end.
    all: destruct sizes as (P & Q & (G0 & G1) & H0 & H1 & Gn & Hn).
    all: match goal with |- c ?n <= c (S ?n) =>
      set (x := c n) in *; apply IZR_le, integer_le; fold (c (S n)); fold (c n); fold x end.
    all: destruct B as [B|[B|B]]; [lra| |].
    all: try (assert (W * (g * x) >= W * (x - 1)) by nra; assert (g * x >= x - 1) by nra; lra).
    all: destruct (Rle_lt_dec (W - x) D) as [L|L]; [nra|].
    all: assert (W * (h * (W - x - D)) <= W * (W - x - D + 1)) by nra.
    all: assert (h * (W - x - D) <= W - x - D + 1) by nra; lra.
  Qed.

  Lemma mass_range z : 0 <= mass z <= W.
  Proof. unfold mass. pose proof (rising z). pose proof (at_most_total (S z)). lra. Qed.

  Lemma first_mass : mass O <= D.
  Proof.
    unfold mass. destruct (next O) as ((A & _) & _). unfold c at 2 in A. simpl in A. unfold c at 2. simpl. lra.
  Qed.

  Lemma mass_grows z : mass (S z) <= a * mass z + 2.
  Proof.
    unfold mass. destruct (next (S z)) as ((A1 & A2 & A3) & _). destruct (next z) as (_ & B).
    pose proof (mass_range z) as M. unfold mass in M. destruct sizes as (P & Q & (G0 & G1) & H0 & H1 & Gn & Hn).
    set (w := c (S (S z))) in *. set (y := c (S z)) in *. set (x := c z) in *. clearbody w y x.
    assert (0 <= a * (y - x)) by nra.
    destruct B as [B|[B|B]]; [lra| |].
    - assert (w - y <= g * (y - x) + 1) by nra. assert (g * (y - x) <= a * (y - x)) by nra. lra.
    - assert (w - y <= h * (y - x) + 1) by nra.
      assert (W * (h * (y - x)) <= W * (y - x + 1)) by nra. assert (h * (y - x) <= y - x + 1) by nra. nra.
  Qed.

  Lemma mass_decays z : c (S (S z)) < W -> mass z <= a * mass (S z) + (a + 1).
  Proof.
    intros L. unfold mass. destruct (next (S z)) as (_ & B). destruct (next z) as ((A1 & A2 & A3) & _).
    pose proof (mass_range z) as M. unfold mass in M. destruct sizes as (P & Q & (G0 & G1) & H0 & H1 & Gn & Hn).
    set (w := c (S (S z))) in *. set (y := c (S z)) in *. set (x := c z) in *. clearbody w y x.
    destruct B as [B|[B|B]]; [lra| |].
    - assert (w - y >= g * (y - x) - 1) by nra. assert (a * (w - y) >= a * (g * (y - x)) - a) by nra.
      assert (0 <= g * (y - x)) by nra. assert (a * (g * (y - x)) >= g * (y - x)) by nra.
      assert (W * (g * (y - x)) >= W * (y - x - 1)) by nra. assert (g * (y - x) >= y - x - 1) by nra. lra.
    - assert (w - y >= h * (y - x) - 1) by nra. assert (a * (w - y) >= a * (h * (y - x)) - a) by nra.
      assert (a * h * (y - x) >= y - x) by nra. lra.
  Qed.

  Lemma rest_private i : W - c i <= a * (W - c (S i)) + D.
  Proof.
    destruct (next i) as ((_ & A & T) & _). destruct sizes as (P & Q & _ & H0 & H1 & _).
    destruct (Rle_lt_dec (W - D - c i) 0); [nra|].
    assert (W - c (S i) >= h * (W - D - c i)) by lra.
    assert (a * (W - c (S i)) >= a * h * (W - D - c i)) by nra. nra.
  Qed.

  Lemma from_the_end i : (most <= i)%nat -> c i = W.
  Proof.
    induction 1 as [|i _ IH]; [unfold c; now rewrite all_weights|].
    pose proof (rising i). pose proof (at_most_total (S i)). lra.
  Qed.

  Lemma removing_sum len i :
    sum len (fun t => Rmax 0 (mass (i + t) - a * mass (S (i + t)))) <= D + INR len * (a + 1).
  Proof.
    revert i. induction len; intros i; [destruct sizes as (_ & Q & _); simpl; lra|].
    rewrite sum_first, Nat.add_0_r, S_INR.
    rewrite (sum_ext len _ (fun t => Rmax 0 (mass (S i + t) - a * mass (S (S i + t)))))
      by (intros; now rewrite Nat.add_succ_r).
    destruct (Rlt_le_dec (c (S (S i))) W) as [L|L].
    - pose proof (mass_decays i L). assert (Rmax 0 (mass i - a * mass (S i)) <= a + 1) by (apply Rmax_lub; lra).
      specialize (IHlen (S i)). lra.
    - assert (forall j, (S (S i) <= j)%nat -> c j = W) as Ends.
      { induction 1 as [|j _ IH]; [pose proof (at_most_total (S (S i))); lra|].
        pose proof (rising j). pose proof (at_most_total (S j)). lra. }
      assert (sum len (fun t => Rmax 0 (mass (S i + t) - a * mass (S (S i + t)))) <= mass (S i)) as T.
      { destruct len as [|len]; [simpl; apply mass_range|]. rewrite sum_first, sum_zero.
        - rewrite Nat.add_0_r. assert (mass (S (S i)) = 0) as -> by (unfold mass; rewrite !Ends by lia; lra).
          pose proof (mass_range (S i)). rewrite Rmax_right; lra.
        - intros t _. assert (mass (S i + S t) = 0) as -> by (unfold mass; rewrite !Ends by lia; lra).
          assert (mass (S (S i + S t)) = 0) as -> by (unfold mass; rewrite !Ends by lia; lra). apply Rmax_left; lra. }
      pose proof (rest_private i) as A. pose proof (rest_private (S i)) as B. rewrite (Ends (S (S i))) in B by lia.
      assert (mass (S i) = W - c (S i)) as Last by (unfold mass; rewrite (Ends (S (S i))) by lia; reflexivity).
      assert (Rmax 0 (mass i - a * mass (S i)) <= D - mass (S i)).
      { apply Rmax_lub; rewrite Last; [|unfold mass]; lra. }
      assert (0 <= INR len * (a + 1)) by (apply Rmult_le_pos; [apply pos_INR|lra]). lra.
  Qed.

  Lemma weight_is_mass z : IZR (weight growth decay fine total share z) = mass z.
  Proof. unfold weight, mass, c. apply minus_IZR. Qed.

  Theorem weights_add_up : sum most (fun z => IZR (weight growth decay fine total share z)) = IZR total.
  Proof.
    rewrite (sum_ext _ _ mass) by (intros; apply weight_is_mass).
    transitivity (c most); [|apply from_the_end; lia].
    assert (forall n, sum n mass = c n) as S0 by (induction n as [|n IH]; [reflexivity|]; simpl sum; rewrite IH;
      unfold mass; ring). apply S0.
  Qed.

  (* A draw by these very weights is (ln a, delta)-private. *)
  Theorem weights_are_private : is_private a delta (chance growth decay fine total share most).
  Proof.
    intros n phi Hphi. unfold chance. fold W.
    assert (forall k, sum most (fun z => IZR (weight growth decay fine total share z) * phi (k - z)%nat)
              = sum most (fun z => mass z * phi (k - z)%nat)) as E
      by (intros; apply sum_ext; intros; now rewrite weight_is_mass).
    rewrite !E. destruct sizes as (P & _).
    assert (sum most (fun z => mass z * phi (S n - z)%nat)
            = mass O * phi (S n) + sum most (fun z => mass (S z) * phi (n - z)%nat)) as Larger.
    { transitivity (sum (S most) (fun z => mass z * phi (S n - z)%nat)); [|now rewrite sum_first].
      symmetry. apply sum_beyond; [lia|]. intros z H. unfold mass. rewrite !from_the_end by lia. ring. }
    rewrite Larger. set (small := sum most (fun z => mass z * phi (n - z)%nat)).
    set (rest := sum most (fun z => mass (S z) * phi (n - z)%nat)).
    pose proof (Hphi (S n)). pose proof (mass_range O). pose proof first_mass.
    pose proof (pos_INR most).
    assert (rest <= a * small + INR most * (a + 1)) as A.
    { unfold rest, small. rewrite <- sum_scale.
      apply Rle_trans with (sum most (fun z => a * (mass z * phi (n - z)%nat) + (a + 1))).
      - apply sum_le. intros z _. pose proof (mass_grows z). pose proof (Hphi (n - z)%nat). nra.
      - rewrite sum_plus. right. f_equal. clear. induction most as [|k IH]; [simpl; ring|].
        rewrite S_INR. simpl sum. rewrite IH. ring. }
    assert (small - a * rest <= D + INR most * (a + 1)) as B.
    { eapply Rle_trans; [|apply (removing_sum most O)]. unfold small, rest. rewrite <- sum_scale, <- sum_minus.
      apply sum_le. intros z _. simpl.
      replace (mass z * phi (n - z)%nat - a * (mass (S z) * phi (n - z)%nat))
        with (phi (n - z)%nat * (mass z - a * mass (S z))) by ring.
      apply share_le, Hphi. }
    assert (0 <= a * (mass O * phi (S n))) by (repeat apply Rmult_le_pos; lra).
    assert (mass O * phi (S n) <= D) by nra. fold W D in lowered.
    assert (0 <= / W) by (left; apply Rinv_0_lt_compat; assumption). unfold Rdiv. split.
    - apply Rle_trans with ((a * small + delta * W) * / W); [|right; field; lra].
      apply Rmult_le_compat_r; lra.
    - apply Rle_trans with ((a * (mass O * phi (S n) + rest) + delta * W) * / W); [|right; field; lra].
      apply Rmult_le_compat_r; lra.
  Qed.
End Weights.
