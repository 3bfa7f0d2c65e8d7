(* The optimal deletion noise of one stage: docs/proofs/deletion.md, Claim 3. a stands for e^epsilon, d for delta.

   A group of n records publishes n - Z of them, or none if Z is more: subtraction of natural numbers ends at 0. *)
Require Import Reals Lra Lia.
From Crowdblend Require Import Privacy.
Open Scope R_scope.

(* pi i, the chance that Z < i. *)
Fixpoint pi (a d : R) (i : nat) : R :=
  match i with
  | O => 0
  | S j => Rmin (Rmin (a * pi a d j + d) (1 - (1 - pi a d j - d) / a)) 1
  end.

(* The chance that Z = z. *)
Definition noise (a d : R) (z : nat) : R := pi a d (S z) - pi a d z.

(* The chance that what is published of a group of n records is in the event phi; Z is below most. *)
Definition chance (a d : R) (most n : nat) (phi : nat -> R) : R :=
  sum most (fun z => noise a d z * phi (n - z)%nat).

(* Any other mechanism: law n j is the chance that it publishes j of a group of n records, never more than there are. *)
Definition truthful (law : nat -> nat -> R) : Prop :=
  forall n, (forall j, 0 <= law n j) /\ sum (S n) (law n) = 1.

Definition chance_by (law : nat -> nat -> R) (n : nat) (phi : nat -> R) : R :=
  sum (S n) (fun j => law n j * phi j).

(* The event that at least x records are published. *)
Definition at_least (x j : nat) : R := if (x <=? j)%nat then 1 else 0.

Section Noise.
  Variables a d : R.
  Hypothesis a_range : 1 <= a.
  Hypothesis d_range : 0 < d.
  Notation p := (pi a d).
  Notation mass := (noise a d).

  Let up x := a * x + d.
  Let down x := 1 - (1 - x - d) / a.

  Lemma a_inverse : 0 < / a <= 1 /\ a * / a = 1.
  Proof.
    split; [|field; lra]. split; [apply Rinv_0_lt_compat; lra|].
    rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
  Qed.

  Lemma pi_next i : p (S i) = Rmin (Rmin (up (p i)) (down (p i))) 1.
  Proof. reflexivity. Qed.

  Lemma pi_at_most_one i : p i <= 1.
  Proof. destruct i; [simpl; lra|]. rewrite pi_next. apply Rmin_r. Qed.

  Lemma up_above x : 0 <= x -> x <= up x.
  Proof. unfold up. nra. Qed.

  Lemma down_above x : x <= 1 -> x <= down x.
  Proof. unfold down, Rdiv. pose proof a_inverse. nra. Qed.

  Lemma pi_nonneg i : 0 <= p i.
  Proof.
    induction i; [simpl; lra|]. rewrite pi_next. pose proof (pi_at_most_one i).
    pose proof (up_above _ IHi). pose proof (down_above _ H). repeat apply Rmin_glb; lra.
  Qed.

  Lemma noise_nonneg z : 0 <= mass z.
  Proof.
    unfold noise. rewrite pi_next. pose proof (pi_at_most_one z). pose proof (pi_nonneg z).
    pose proof (up_above _ H0). pose proof (down_above _ H).
    assert (p z <= Rmin (Rmin (up (p z)) (down (p z))) 1) by (repeat apply Rmin_glb; lra). lra.
  Qed.

  (* The recursion is at most a times as steep as the identity, and below 1 at least 1/a times. *)
  Lemma noise_grows z : mass (S z) <= a * mass z.
  Proof.
    unfold noise. pose proof (noise_nonneg z) as G. unfold noise in G. pose proof a_inverse.
    pose proof (pi_next (S z)) as N. pose proof (pi_next z) as M.
    set (w := p (S (S z))) in *. set (y := p (S z)) in *. set (x := p z) in *. clearbody w y x.
    assert (up y = up x + a * (y - x)) as U by (unfold up; ring).
    assert (down y <= down x + a * (y - x)) as D.
    { replace (down y) with (down x + (y - x) / a) by (unfold down, Rdiv; ring). unfold Rdiv. nra. }
    assert (0 <= a * (y - x)) as P by nra.
    assert (w <= y + a * (y - x)); [|lra].
    clear G. revert N M U D P. generalize (up x), (up y), (down x), (down y), (a * (y - x)).
    intros ux uy dx dy s N M U D P.
    pose proof (Rmin_l (Rmin uy dy) 1). pose proof (Rmin_r (Rmin uy dy) 1).
    pose proof (Rmin_l uy dy). pose proof (Rmin_r uy dy).
    assert (w - s <= Rmin (Rmin ux dx) 1) by (repeat apply Rmin_glb; lra). lra.
  Qed.

  Lemma noise_decays z : p (S (S z)) < 1 -> mass z <= a * mass (S z).
  Proof.
    unfold noise. pose proof (noise_nonneg z) as G. unfold noise in G.
    intros L. pose proof (pi_next (S z)) as N. pose proof (pi_next z) as M. pose proof a_inverse as I.
    set (w := p (S (S z))) in *. set (y := p (S z)) in *. set (x := p z) in *. clearbody w y x.
    assert (w = Rmin (up y) (down y)) as W.
    { rewrite N. apply Rmin_left. destruct (Rle_lt_dec (Rmin (up y) (down y)) 1) as [Q|Q]; [assumption|].
      rewrite Rmin_right in N by lra. lra. }
    assert (y <= up x) as Yu.
    { rewrite M. eapply Rle_trans; [apply Rmin_l|apply Rmin_l]. }
    assert (y <= down x) as Yd.
    { rewrite M. eapply Rle_trans; [apply Rmin_l|apply Rmin_r]. }
    assert (up y - y >= (y - x) / a /\ down y - y >= (y - x) / a) as [A B].
    { split.
      - assert (up y = up x + a * (y - x)) as -> by (unfold up; ring). unfold Rdiv. nra.
      - assert (down y = down x + (y - x) / a) as -> by (unfold down, Rdiv; ring). lra. }
    assert (w - y >= (y - x) / a) as C.
    { rewrite W. unfold Rmin. destruct (Rle_dec (up y) (down y)); lra. }
    apply Rle_trans with (a * ((y - x) / a)); [right; field; lra|]. apply Rmult_le_compat_l; lra.
  Qed.

  Lemma pi_ends : exists most, p most = 1.
  Proof.
    assert (forall i, Rmin (INR i * d) 1 <= p i) as H.
    { induction i.
      - simpl. rewrite Rmult_0_l. apply Rmin_l.
      - rewrite pi_next, S_INR. pose proof (pi_nonneg i). pose proof (pi_at_most_one i). pose proof a_inverse.
        assert (Rmin (p i + d) 1 <= Rmin (Rmin (up (p i)) (down (p i))) 1) as K.
        { repeat apply Rmin_glb; [| |apply Rmin_r].
          - eapply Rle_trans; [apply Rmin_l|]. unfold up. nra.
          - destruct (Rle_lt_dec (p i + d) 1).
            + eapply Rle_trans; [apply Rmin_l|]. unfold down, Rdiv. nra.
            + eapply Rle_trans; [apply Rmin_r|]. unfold down, Rdiv. nra. }
        eapply Rle_trans; [|exact K]. apply Rmin_glb; [|apply Rmin_r].
        revert IHi. unfold Rmin. destruct (Rle_dec (INR i * d) 1), (Rle_dec ((INR i + 1) * d) 1); nra. }
    destruct (naturals_unbounded (/ d)) as [n Hn]. exists n.
    apply Rle_antisym; [apply pi_at_most_one|]. eapply Rle_trans; [|apply H].
    apply Rmin_glb; [|lra]. apply Rmult_lt_compat_r with (r := d) in Hn; [|assumption].
    rewrite Rinv_l in Hn; lra.
  Qed.

  Lemma pi_rises i j : (i <= j)%nat -> p i <= p j.
  Proof.
    induction 1 as [|j _ IH]; [lra|]. pose proof (noise_nonneg j). unfold noise in *. lra.
  Qed.

  Lemma pi_stays most i : p most = 1 -> (most <= i)%nat -> p i = 1.
  Proof. intros M L. pose proof (pi_rises _ _ L). pose proof (pi_at_most_one i). lra. Qed.

  Lemma noise_ends most z : p most = 1 -> (most <= z)%nat -> mass z = 0.
  Proof. intros M L. unfold noise. rewrite !(pi_stays most) by (assumption || lia). lra. Qed.

  Lemma noise_adds_up i : sum i mass = p i.
  Proof. induction i; [reflexivity|]. simpl sum. rewrite IHi. unfold noise. ring. Qed.

  (* What removing can show of Z >= i. *)
  Lemma tail_private i : 1 - p i <= a * (1 - p (S i)) + d.
  Proof.
    assert (p (S i) <= down (p i)) as H.
    { rewrite pi_next. eapply Rle_trans; [apply Rmin_l|apply Rmin_r]. }
    unfold down in H. apply Rmult_le_compat_l with (r := a) in H; [|lra].
    replace (a * (1 - (1 - p i - d) / a)) with (a - (1 - p i - d)) in H by (field; lra). lra.
  Qed.

  Lemma removing_sum len i : sum len (fun t => Rmax 0 (mass (i + t) - a * mass (S (i + t)))) <= d.
  Proof.
    revert i. induction len; intros i; [simpl; lra|]. rewrite sum_first, Nat.add_0_r.
    rewrite (sum_ext len _ (fun t => Rmax 0 (mass (S i + t) - a * mass (S (S i + t)))))
      by (intros; now rewrite Nat.add_succ_r).
    destruct (Rlt_le_dec (p (S (S i))) 1) as [L|L].
    - pose proof (noise_decays i L). rewrite Rmax_left by lra. specialize (IHlen (S i)). lra.
    - assert (p (S (S i)) = 1) as One by (pose proof (pi_at_most_one (S (S i))); lra).
      assert (sum len (fun t => Rmax 0 (mass (S i + t) - a * mass (S (S i + t)))) <= mass (S i)) as T.
      { destruct len as [|len]; [simpl; apply noise_nonneg|]. rewrite sum_first, sum_zero.
        - rewrite Nat.add_0_r, (noise_ends (S (S i)) (S (S i))) by (assumption || lia).
          pose proof (noise_nonneg (S i)). rewrite Rmax_right; lra.
        - intros t _. rewrite !(noise_ends (S (S i))) by (assumption || lia). apply Rmax_left; lra. }
      pose proof (tail_private i) as A. pose proof (tail_private (S i)) as B. rewrite One in B.
      assert (mass (S i) = 1 - p (S i)) as Last by (unfold noise; now rewrite One).
      assert (Rmax 0 (mass i - a * mass (S i)) <= d - mass (S i)); [|lra].
      apply Rmax_lub; rewrite Last; [|unfold noise]; lra.
  Qed.

  Section Release.
    Variable most : nat.
    Hypothesis most_ends : p most = 1.

    Lemma chance_is_law n : (forall phi, test phi -> 0 <= chance a d most n phi) /\ chance a d most n (fun _ => 1) = 1.
    Proof.
      split.
      - intros phi H. apply sum_nonneg. intros z _. pose proof (noise_nonneg z). pose proof (H (n - z)%nat). nra.
      - unfold chance. rewrite (sum_ext _ _ mass) by (intros; ring). now rewrite noise_adds_up.
    Qed.

    Lemma chance_larger n phi :
      chance a d most (S n) phi = mass O * phi (S n) + sum most (fun z => mass (S z) * phi (n - z)%nat).
    Proof.
      unfold chance. transitivity (sum (S most) (fun z => mass z * phi (S n - z)%nat)).
      - symmetry. apply sum_beyond; [lia|]. intros z H. rewrite (noise_ends most) by assumption. ring.
      - rewrite sum_first. reflexivity.
    Qed.

    (* Privacy. *)
    Theorem deletion_is_private : is_private a d (chance a d most).
    Proof.
      intros n phi Hphi. rewrite chance_larger. unfold chance. split.
      - assert (mass O <= d) as F.
        { unfold noise. rewrite pi_next. simpl (p 0).
          pose proof (Rmin_l (Rmin (up 0) (down 0)) 1). pose proof (Rmin_l (up 0) (down 0)). unfold up in *. lra. }
        assert (sum most (fun z => mass (S z) * phi (n - z)%nat)
                <= sum most (fun z => a * (mass z * phi (n - z)%nat))) as G.
        { apply sum_le. intros z _. pose proof (noise_grows z). pose proof (Hphi (n - z)%nat). nra. }
        rewrite sum_scale in G. pose proof (Hphi (S n)). pose proof (noise_nonneg O). nra.
      - assert (sum most (fun z => mass z * phi (n - z)%nat) - a * sum most (fun z => mass (S z) * phi (n - z)%nat)
                <= sum most (fun z => Rmax 0 (mass (0 + z) - a * mass (S (0 + z))))) as G.
        { rewrite <- sum_scale, <- sum_minus. apply sum_le. intros z _. simpl.
          replace (mass z * phi (n - z)%nat - a * (mass (S z) * phi (n - z)%nat))
            with (phi (n - z)%nat * (mass z - a * mass (S z))) by ring.
          apply share_le, Hphi. }
        pose proof (removing_sum most 0). pose proof (noise_nonneg O). pose proof (Hphi (S n)).
        assert (0 <= a * (mass O * phi (S n))) by (repeat apply Rmult_le_pos; lra). lra.
    Qed.

    Lemma chance_at_least n x : (1 <= x <= n)%nat -> chance a d most n (at_least x) = p (S n - x)%nat.
    Proof.
      intros H. unfold chance. rewrite <- noise_adds_up.
      destruct (le_lt_dec most (S n - x)) as [L|L].
      - rewrite (sum_beyond most (S n - x)) by (assumption || (intros; now apply (noise_ends most))).
        apply sum_ext. intros z Hz. unfold at_least. rewrite (proj2 (Nat.leb_le _ _)) by lia. ring.
      - replace most with ((S n - x) + (most - (S n - x)))%nat by lia. rewrite sum_split.
        rewrite (sum_zero (most - (S n - x))).
        + rewrite Rplus_0_r. apply sum_ext. intros z Hz. unfold at_least.
          rewrite (proj2 (Nat.leb_le _ _)) by lia. ring.
        + intros z Hz. unfold at_least. rewrite (proj2 (Nat.leb_gt _ _)) by lia. ring.
    Qed.
  End Release.

  (* Optimality. *)
  Section Other.
    Variable law : nat -> nat -> R.
    Hypothesis law_truthful : truthful law.
    Hypothesis law_private : is_private a d (chance_by law).

    Lemma at_least_test x : test (at_least x).
    Proof. intros j. unfold at_least. destruct (x <=? j)%nat; lra. Qed.

    Lemma chance_by_else n x : chance_by law n (fun j => 1 - at_least x j) = 1 - chance_by law n (at_least x).
    Proof.
      destruct (law_truthful n) as [_ T]. unfold chance_by. transitivity (sum (S n) (law n)
        - sum (S n) (fun j => law n j * at_least x j)); [|now rewrite T].
      rewrite <- sum_minus. apply sum_ext. intros; ring.
    Qed.

    Lemma none_beyond n x : (n < x)%nat -> chance_by law n (at_least x) = 0.
    Proof.
      intros H. apply sum_zero. intros j Hj. unfold at_least. rewrite (proj2 (Nat.leb_gt _ _)) by lia. ring.
    Qed.

    Lemma at_most_pi x i : chance_by law (x + i) (at_least (S x)) <= p i.
    Proof.
      induction i.
      - rewrite none_beyond by lia. simpl. lra.
      - rewrite Nat.add_succ_r, pi_next. set (n := (x + i)%nat) in *.
        destruct (law_private n (at_least (S x)) (at_least_test _)) as [A _].
        destruct (law_private n (fun j => 1 - at_least (S x) j)) as [_ B].
        { intros j. pose proof (at_least_test (S x) j). lra. }
        rewrite !chance_by_else in B. repeat apply Rmin_glb.
        + unfold up. nra.
        + unfold down. set (q := chance_by law (S n) (at_least (S x))) in *.
          apply Rmult_le_reg_l with a; [lra|].
          replace (a * (1 - (1 - p i - d) / a)) with (a - (1 - p i - d)) by (field; lra). lra.
        + destruct (law_truthful (S n)) as [P T]. rewrite <- T. apply sum_le. intros j _.
          pose proof (P j). pose proof (at_least_test (S x) j). nra.
    Qed.

    (* For every n and x at once, no other mechanism publishes x records or more with a higher chance. *)
    Theorem deletion_is_optimal most n x : p most = 1 -> (1 <= x)%nat ->
      chance_by law n (at_least x) <= chance a d most n (at_least x).
    Proof.
      intros M X. destruct (le_lt_dec x n) as [L|L].
      - rewrite chance_at_least by (assumption || lia). pose proof (at_most_pi (x - 1) (S n - x)) as H.
        replace (x - 1 + (S n - x))%nat with n in H by lia. replace (S (x - 1)) with x in H by lia. exact H.
      - rewrite none_beyond by assumption. apply sum_nonneg. intros z _.
        pose proof (noise_nonneg z). pose proof (at_least_test x (n - z)%nat). nra.
    Qed.

    (* A count is the sum of the events that it reaches 1, 2, … *)
    Lemma count_of_events n j : (j <= n)%nat -> INR j = sum n (fun x => at_least (S x) j).
    Proof.
      intros H. replace n with (j + (n - j))%nat by lia. rewrite sum_split, (sum_zero (n - j)).
      - rewrite Rplus_0_r, (sum_ext j _ (fun _ => 1)).
        + clear H. induction j; [reflexivity|]. rewrite S_INR, IHj. reflexivity.
        + intros x Hx. unfold at_least. rewrite (proj2 (Nat.leb_le _ _)) by lia. reflexivity.
      - intros x _. unfold at_least. rewrite (proj2 (Nat.leb_gt _ _)) by lia. reflexivity.
    Qed.

    (* So none publishes more records of any group in the mean. *)
    Theorem deletion_publishes_most most n : p most = 1 ->
      chance_by law n INR <= chance a d most n INR.
    Proof.
      intros M.
      assert (chance_by law n INR = sum n (fun x => chance_by law n (at_least (S x)))) as ->.
      { unfold chance_by. rewrite <- (sum_swap (S n) n (fun j x => law n j * at_least (S x) j)).
        apply sum_ext. intros j Hj. rewrite sum_scale. f_equal. apply count_of_events; lia. }
      assert (chance a d most n INR = sum n (fun x => chance a d most n (at_least (S x)))) as ->.
      { unfold chance. rewrite <- (sum_swap most n (fun z x => noise a d z * at_least (S x) (n - z)%nat)).
        apply sum_ext. intros z Hz. rewrite sum_scale. f_equal. apply count_of_events; lia. }
      apply sum_le. intros x _. apply deletion_is_optimal; [assumption|lia].
    Qed.
  End Other.
End Noise.
