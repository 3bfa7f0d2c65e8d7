(* The exact profile of one strongly-safe release: docs/proofs/exact-profile.md, Lemmas 1 to 4. E stands for e^epsilon.

   A group has n records besides the person's, or n + 1 with it. Each record is sampled by a coin of its own; the number
   of sampled records is published if it is at least k, and else nothing is. *)
Require Import Reals Lra Lia Wf_nat.
From Crowdblend Require Import Privacy.
Open Scope R_scope.

(* One coin more: its rate is added to a law u of counts. *)
Definition coin (rate : R) (u : nat -> R) (j : nat) : R :=
  (1 - rate) * u j + match j with O => 0 | S i => rate * u i end.

(* heads rate n j: the chance that j of n records are sampled. *)
Fixpoint heads (rate : R) (n : nat) : nat -> R :=
  match n with
  | O => fun j => match j with O => 1 | S _ => 0 end
  | S m => coin rate (heads rate m)
  end.

(* What is published of a group of which j records were sampled; 0 stands for nothing. *)
Definition published (k j : nat) : nat := if (j <? k)%nat then 0%nat else j.

(* The chance that what is published of a group of n records is in the event phi. *)
Definition chance (k : nat) (rate : R) (n : nat) (phi : nat -> R) : R :=
  sum (S n) (fun j => heads rate n j * phi (published k j)).

(* The chance that a group of n records is not published: fewer than k are sampled. *)
Definition hidden (k : nat) (rate : R) (n : nat) : R := sum k (heads rate n).

Definition gamma (rate E : R) : R := 1 - (1 - rate) / E.
Definition eta (rate E : R) : R := 1 - E * (1 - rate).

(* S n is the first size from k on with gamma * size >= k - 1. *)
Definition first_adding (k : nat) (rate E : R) (n : nat) : Prop :=
  (k <= S n)%nat /\ INR k - 1 <= gamma rate E * INR (S n) /\
  forall m, (m < n)%nat -> (k <= S m)%nat -> gamma rate E * INR (S m) < INR k - 1.

(* S n is the first size from 1 on with eta * size >= k - 1. *)
Definition first_removing (k : nat) (rate E : R) (n : nat) : Prop :=
  INR k - 1 <= eta rate E * INR (S n) /\
  forall m, (m < n)%nat -> eta rate E * INR (S m) < INR k - 1.

(* The divergences of the two directions there: by the event that the group is published, and that it is not. *)
Definition adding (k : nat) (rate E : R) (n : nat) : R := (1 - hidden k rate (S n)) - E * (1 - hidden k rate n).
Definition removing (k : nat) (rate E : R) (n : nat) : R := hidden k rate n - E * hidden k rate (S n).

Section Coins.
  Variable rate : R.
  Hypothesis rate_range : 0 < rate < 1.
  Notation f := (heads rate).

  Lemma heads_nonneg n j : 0 <= f n j.
  Proof.
    revert j; induction n; intros [|j]; simpl; unfold coin; try lra.
    - specialize (IHn O). nra.
    - pose proof (IHn j). pose proof (IHn (S j)). nra.
  Qed.

  Lemma heads_beyond n j : (n < j)%nat -> f n j = 0.
  Proof.
    revert j; induction n; intros [|j] H; simpl; unfold coin; try lia; [reflexivity|].
    rewrite !IHn by lia. lra.
  Qed.

  (* The law of one more coin, of what vanishes from m on. *)
  Lemma coin_contracts m u : (forall j, (m <= j)%nat -> u j = 0) ->
    sum (S m) (fun j => Rmax 0 (coin rate u j)) <= sum m (fun j => Rmax 0 (u j)).
  Proof.
    intros Hu.
    apply Rle_trans with
      (sum (S m) (fun j => (1 - rate) * Rmax 0 (u j) + match j with O => 0 | S i => rate * Rmax 0 (u i) end)).
    - apply sum_le. intros [|j] _; unfold coin.
      + pose proof (positive_part (u O)). apply Rmax_lub; nra.
      + pose proof (positive_part (u (S j))). pose proof (positive_part (u j)). apply Rmax_lub; nra.
    - rewrite sum_plus, sum_scale, (sum_first m (fun j => match j with O => 0 | S i => rate * Rmax 0 (u i) end)).
      rewrite sum_scale. simpl sum at 1. rewrite (Hu m) by lia.
      rewrite Rmax_left by lra. lra.
  Qed.

  (* Successive terms of the binomial law. *)
  Lemma heads_next n j : (INR n - INR j) * rate * f n j = INR (S j) * (1 - rate) * f n (S j).
  Proof.
    revert j; induction n; intros j.
    - destruct j; simpl; lra.
    - change (f (S n) (S j)) with ((1 - rate) * f n (S j) + rate * f n j).
      pose proof (IHn j) as Hj. rewrite !S_INR in *.
      destruct j as [|j].
      + change (f (S n) O) with ((1 - rate) * f n O + 0). simpl INR in *. nra.
      + change (f (S n) (S j)) with ((1 - rate) * f n (S j) + rate * f n j).
        pose proof (IHn j) as Hp. rewrite !S_INR in *.
        assert (E1 : (INR n + 1 - (INR j + 1)) * rate * (rate * f n j)
                     = rate * ((INR j + 1) * (1 - rate) * f n (S j))) by (rewrite <- Hp; ring).
        assert (E2 : (INR j + 1 + 1) * (1 - rate) * ((1 - rate) * f n (S (S j)))
                     = (1 - rate) * ((INR n - (INR j + 1)) * rate * f n (S j))) by (rewrite Hj; ring).
        rewrite !Rmult_plus_distr_l. rewrite E1, E2. ring.
  Qed.

  (* The ratio of the laws of neighbours (2. of the proof). *)
  Lemma heads_neighbour n j : INR (S n) * (1 - rate) * f n j = (INR (S n) - INR j) * f (S n) j.
  Proof.
    destruct j as [|j].
    - change (f (S n) O) with ((1 - rate) * f n O + 0). simpl (INR 0). ring.
    - change (f (S n) (S j)) with ((1 - rate) * f n (S j) + rate * f n j).
      pose proof (heads_next n j) as H. rewrite !S_INR in *.
      transitivity ((INR n - INR j) * (1 - rate) * f n (S j) + (INR j + 1) * (1 - rate) * f n (S j)); [ring|].
      rewrite <- H. ring.
  Qed.

  Lemma hidden_next m n : hidden (S m) rate (S n) = hidden (S m) rate n - rate * f n m.
  Proof.
    unfold hidden. induction m.
    - simpl. unfold coin. ring.
    - change (sum (S (S m)) (f (S n))) with (sum (S m) (f (S n)) + f (S n) (S m)). rewrite IHm.
      change (f (S n) (S m)) with ((1 - rate) * f n (S m) + rate * f n m).
      change (sum (S (S m)) (f n)) with (sum (S m) (f n) + f n (S m)). ring.
  Qed.

  Lemma total n m : (n < m)%nat -> sum m (f n) = 1.
  Proof.
    revert m; induction n; intros [|m] H; try lia.
    - rewrite sum_first, sum_zero; [simpl; lra|]. intros; reflexivity.
    - pose proof (hidden_next m n) as E. unfold hidden in E. rewrite E, IHn by lia.
      rewrite heads_beyond by lia. ring.
  Qed.

  Lemma hidden_range k n : 0 <= hidden k rate n.
  Proof. apply sum_nonneg. intros; apply heads_nonneg. Qed.
End Coins.

Section Profile.
  Variables (m : nat) (rate E : R).
  Hypothesis rate_range : 0 < rate < 1.
  Hypothesis E_range : 1 <= E.
  Notation k := (S m).
  Notation f := (heads rate).

  Let gain n j := f (S n) j - E * f n j.
  Let loss n j := f n j - E * f (S n) j.
  Let gains n := sum (S (S n)) (fun j => Rmax 0 (gain n j)).
  Let losses n := sum (S (S n)) (fun j => Rmax 0 (loss n j)).

  Lemma gain_beyond n j : (S (S n) <= j)%nat -> gain n j = 0.
  Proof. intros. unfold gain. rewrite !heads_beyond by lia. ring. Qed.

  Lemma loss_beyond n j : (S (S n) <= j)%nat -> loss n j = 0.
  Proof. intros. unfold loss. rewrite !heads_beyond by lia. ring. Qed.

  Lemma size_pos n : 0 < INR (S n).
  Proof. apply lt_0_INR; lia. Qed.

  (* Signs: a gain is positive above gamma * size, a loss below eta * size. *)
  Lemma gain_sign n j : INR (S n) * (1 - rate) * gain n j = E * (INR j - gamma rate E * INR (S n)) * f (S n) j.
  Proof.
    unfold gain. transitivity (INR (S n) * (1 - rate) * f (S n) j - E * (INR (S n) * (1 - rate) * f n j)); [ring|].
    rewrite heads_neighbour by assumption. unfold gamma. field. lra.
  Qed.

  Lemma loss_sign n j : INR (S n) * (1 - rate) * loss n j = (eta rate E * INR (S n) - INR j) * f (S n) j.
  Proof.
    unfold loss. transitivity (INR (S n) * (1 - rate) * f n j - E * (INR (S n) * (1 - rate) * f (S n) j)); [ring|].
    rewrite heads_neighbour by assumption. unfold eta. ring.
  Qed.

  Lemma scale_pos n : 0 < INR (S n) * (1 - rate).
  Proof. pose proof (size_pos n). apply Rmult_lt_0_compat; lra. Qed.

  Lemma gain_pos n j : gamma rate E * INR (S n) <= INR j -> 0 <= gain n j.
  Proof.
    intros H. pose proof (gain_sign n j). pose proof (scale_pos n). pose proof (heads_nonneg rate rate_range (S n) j).
    assert (0 <= E * (INR j - gamma rate E * INR (S n)) * f (S n) j) by (repeat apply Rmult_le_pos; lra).
    nra.
  Qed.

  Lemma gain_neg n j : INR j <= gamma rate E * INR (S n) -> gain n j <= 0.
  Proof.
    intros H. pose proof (gain_sign n j). pose proof (scale_pos n). pose proof (heads_nonneg rate rate_range (S n) j).
    assert (0 <= E * (gamma rate E * INR (S n) - INR j) * f (S n) j) by (repeat apply Rmult_le_pos; lra).
    nra.
  Qed.

  Lemma loss_pos n j : INR j <= eta rate E * INR (S n) -> 0 <= loss n j.
  Proof.
    intros H. pose proof (loss_sign n j). pose proof (scale_pos n). pose proof (heads_nonneg rate rate_range (S n) j).
    assert (0 <= (eta rate E * INR (S n) - INR j) * f (S n) j) by (repeat apply Rmult_le_pos; lra).
    nra.
  Qed.

  Lemma loss_neg n j : eta rate E * INR (S n) <= INR j -> loss n j <= 0.
  Proof.
    intros H. pose proof (loss_sign n j). pose proof (scale_pos n). pose proof (heads_nonneg rate rate_range (S n) j).
    assert (0 <= (INR j - eta rate E * INR (S n)) * f (S n) j) by (repeat apply Rmult_le_pos; lra).
    nra.
  Qed.

  (* Without suppression a larger group has smaller divergences. *)
  Lemma gains_fall n n' : (n <= n')%nat -> gains n' <= gains n.
  Proof.
    induction 1 as [|n' _ IH]; [lra|]. eapply Rle_trans; [|exact IH]. unfold gains.
    rewrite (sum_ext _ _ (fun j => Rmax 0 (coin rate (gain n') j))).
    - apply coin_contracts; auto. intros; apply gain_beyond; lia.
    - intros j _. f_equal. unfold gain.
      change (coin rate (f (S n')) j - E * coin rate (f n') j = coin rate (fun i => f (S n') i - E * f n' i) j).
      unfold coin. destruct j; ring.
  Qed.

  Lemma losses_fall n n' : (n <= n')%nat -> losses n' <= losses n.
  Proof.
    induction 1 as [|n' _ IH]; [lra|]. eapply Rle_trans; [|exact IH]. unfold losses.
    rewrite (sum_ext _ _ (fun j => Rmax 0 (coin rate (loss n') j))).
    - apply coin_contracts; auto. intros; apply loss_beyond; lia.
    - intros j _. f_equal. unfold loss.
      change (coin rate (f n') j - E * coin rate (f (S n')) j = coin rate (fun i => f n' i - E * f (S n') i) j).
      unfold coin. destruct j; ring.
  Qed.

  (* A sum over all counts, cut at k. *)
  Lemma cut n (u : nat -> R) : (forall j, (S (S n) <= j)%nat -> u j = 0) ->
    sum (S (S n)) u = sum k u + sum (S (S n)) (fun i => u (k + i)%nat).
  Proof.
    intros H. rewrite <- sum_split. symmetry. apply sum_beyond; [lia|]. assumption.
  Qed.

  Lemma published_below j : (j < k)%nat -> published k j = O.
  Proof. intros H. unfold published. apply Nat.ltb_lt in H. now rewrite H. Qed.

  Lemma published_above i : published k (k + i) = (k + i)%nat.
  Proof. unfold published. assert ((k + i <? k)%nat = false) as -> by (apply Nat.ltb_ge; lia). reflexivity. Qed.

  Lemma chance_wide n phi : chance k rate n phi = sum (S (S n)) (fun j => f n j * phi (published k j)).
  Proof.
    unfold chance. symmetry. apply sum_beyond; [lia|]. intros j H. rewrite heads_beyond by lia. ring.
  Qed.

  Lemma chance_adding n phi : chance k rate (S n) phi - E * chance k rate n phi
    = phi O * (hidden k rate (S n) - E * hidden k rate n)
      + sum (S (S n)) (fun i => phi (k + i)%nat * gain n (k + i)%nat).
  Proof.
    rewrite (chance_wide n). unfold chance. rewrite <- sum_scale, <- sum_minus.
    rewrite (sum_ext _ _ (fun j => phi (published k j) * gain n j)) by (intros; unfold gain; ring).
    rewrite cut by (intros; rewrite gain_beyond by assumption; ring). f_equal.
    - unfold hidden. rewrite <- sum_scale, <- sum_minus, <- sum_scale.
      apply sum_ext. intros j Hj. rewrite published_below by assumption. reflexivity.
    - apply sum_ext. intros i _. now rewrite published_above.
  Qed.

  Lemma chance_removing n phi : chance k rate n phi - E * chance k rate (S n) phi
    = phi O * removing k rate E n + sum (S (S n)) (fun i => phi (k + i)%nat * loss n (k + i)%nat).
  Proof.
    rewrite (chance_wide n). unfold chance. rewrite <- sum_scale, <- sum_minus.
    rewrite (sum_ext _ _ (fun j => phi (published k j) * loss n j)) by (intros; unfold loss; ring).
    rewrite cut by (intros; rewrite loss_beyond by assumption; ring). f_equal.
    - unfold removing, hidden. rewrite <- sum_scale, <- sum_minus, <- sum_scale.
      apply sum_ext. intros j Hj. rewrite published_below by assumption. reflexivity.
    - apply sum_ext. intros i _. now rewrite published_above.
  Qed.

  Lemma adding_sum n : adding k rate E n = sum (S (S n)) (fun i => gain n (k + i)%nat).
  Proof.
    assert (sum (S (S n)) (gain n) = 1 - E) as T.
    { unfold gain. rewrite sum_minus, sum_scale, !total by (auto; lia). ring. }
    rewrite cut in T by (apply gain_beyond).
    assert (sum k (gain n) = hidden k rate (S n) - E * hidden k rate n) as H.
    { unfold gain, hidden. now rewrite sum_minus, sum_scale. }
    unfold adding. lra.
  Qed.

  (* Adding: what the events beyond suppression can show, and all of them without suppression. *)
  Lemma adding_below n phi : test phi ->
    chance k rate (S n) phi - E * chance k rate n phi <= sum (S (S n)) (fun i => Rmax 0 (gain n (k + i)%nat)).
  Proof.
    intros Hphi. rewrite chance_adding.
    assert (phi O * (hidden k rate (S n) - E * hidden k rate n) <= 0) as H0.
    { pose proof (Hphi O). pose proof (hidden_next rate m n). pose proof (heads_nonneg rate rate_range n m).
      pose proof (hidden_range rate rate_range k n).
      assert (hidden k rate (S n) <= hidden k rate n) by nra. assert (hidden k rate n <= E * hidden k rate n) by nra.
      assert (hidden k rate (S n) - E * hidden k rate n <= 0) by lra. nra. }
    assert (sum (S (S n)) (fun i => phi (k + i)%nat * gain n (k + i)%nat)
            <= sum (S (S n)) (fun i => Rmax 0 (gain n (k + i)%nat))) as H1.
    { apply sum_le. intros; apply share_le, Hphi. }
    lra.
  Qed.

  Lemma shown_gains n : sum (S (S n)) (fun i => Rmax 0 (gain n (k + i)%nat)) <= gains n.
  Proof.
    unfold gains. rewrite (cut n (fun j => Rmax 0 (gain n j))).
    - assert (0 <= sum k (fun j => Rmax 0 (gain n j))) by (apply sum_nonneg; intros; apply Rmax_l). lra.
    - intros j H. rewrite gain_beyond by assumption. apply Rmax_left; lra.
  Qed.

  Lemma shown_gains_early n : gamma rate E * INR (S n) <= INR k ->
    sum (S (S n)) (fun i => Rmax 0 (gain n (k + i)%nat)) = adding k rate E n.
  Proof.
    intros H. rewrite adding_sum. apply sum_ext. intros i _. apply Rmax_right, gain_pos.
    eapply Rle_trans; [exact H|]. apply le_INR; lia.
  Qed.

  Lemma adding_rises n : gamma rate E * INR (S n) <= INR m -> adding k rate E n <= adding k rate E (S n).
  Proof.
    intros H. pose proof (gain_pos n m H). unfold adding.
    pose proof (hidden_next rate m (S n)) as Next. pose proof (hidden_next rate m n) as Here. unfold gain in *.
    replace (hidden k rate n) with (hidden k rate (S n) + rate * f n m) by lra. rewrite Next.
    assert (0 <= rate * (f (S n) m - E * f n m)) by (apply Rmult_le_pos; lra). nra.
  Qed.

  Lemma gamma_range : rate <= gamma rate E < 1.
  Proof.
    unfold gamma. assert (0 < / E <= 1).
    { split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
    unfold Rdiv. nra.
  Qed.

  Lemma early_adding nA n : first_adding k rate E nA -> (n < nA)%nat -> gamma rate E * INR (S n) <= INR m.
  Proof.
    intros (_ & _ & H) L. destruct (le_lt_dec k (S n)) as [G|G].
    - specialize (H n L G). rewrite (S_INR m) in H. lra.
    - pose proof gamma_range. pose proof (size_pos n). assert (INR (S n) <= INR m) by (apply le_INR; lia). nra.
  Qed.

  Lemma adding_to_peak nA n : first_adding k rate E nA -> (n <= nA)%nat -> adding k rate E n <= adding k rate E nA.
  Proof.
    intros F L. remember (nA - n)%nat as d eqn:Hd. revert n L Hd. induction d; intros n L Hd.
    - replace n with nA by lia. lra.
    - eapply Rle_trans; [apply adding_rises, (early_adding nA); [assumption|lia]|]. apply IHd; lia.
  Qed.

  Lemma peak_gamma nA : first_adding k rate E nA -> gamma rate E * INR (S nA) <= INR k.
  Proof.
    intros F. pose proof gamma_range. destruct nA as [|n].
    - simpl (INR 1). assert (1 <= INR k) by (apply (le_INR 1); lia). lra.
    - pose proof (early_adding (S n) n F (Nat.lt_succ_diag_r n)). rewrite (S_INR (S n)), (S_INR m). lra.
  Qed.

  Lemma gains_at_peak nA : first_adding k rate E nA -> gains nA = adding k rate E nA.
  Proof.
    intros F. rewrite <- shown_gains_early by (now apply peak_gamma). unfold gains.
    rewrite (cut nA (fun j => Rmax 0 (gain nA j))).
    - rewrite sum_zero; [ring|]. intros j Hj. apply Rmax_left, gain_neg.
      destruct F as (_ & F & _). rewrite S_INR in F. assert (INR j <= INR m) by (apply le_INR; lia). lra.
    - intros j H. rewrite gain_beyond by assumption. apply Rmax_left; lra.
  Qed.

  (* Lemma 3: adding peaks at first_adding. *)
  Theorem adding_peak nA n phi : first_adding k rate E nA -> test phi ->
    chance k rate (S n) phi - E * chance k rate n phi <= adding k rate E nA.
  Proof.
    intros F Hphi. eapply Rle_trans; [now apply adding_below|].
    destruct (le_lt_dec nA n) as [L|L].
    - eapply Rle_trans; [apply shown_gains|]. rewrite <- gains_at_peak by assumption. now apply gains_fall.
    - rewrite shown_gains_early.
      + apply adding_to_peak; [assumption|lia].
      + pose proof (early_adding nA n F L). rewrite (S_INR m). lra.
  Qed.

  Definition is_shown (o : nat) : R := match o with O => 0 | S _ => 1 end.
  Definition is_hidden (o : nat) : R := match o with O => 1 | S _ => 0 end.

  Lemma shown_is_test : test is_shown.
  Proof. intros [|o]; simpl; lra. Qed.
  Lemma hidden_is_test : test is_hidden.
  Proof. intros [|o]; simpl; lra. Qed.

  Theorem adding_attained n : chance k rate (S n) is_shown - E * chance k rate n is_shown = adding k rate E n.
  Proof.
    rewrite chance_adding, adding_sum. simpl (is_shown 0). rewrite Rmult_0_l, Rplus_0_l.
    apply sum_ext. intros i _. simpl. ring.
  Qed.

  Theorem removing_attained n : chance k rate n is_hidden - E * chance k rate (S n) is_hidden = removing k rate E n.
  Proof.
    rewrite chance_removing. simpl (is_hidden 0). rewrite sum_zero; [ring|]. intros i _. simpl. ring.
  Qed.

  Lemma removing_rises n : eta rate E * INR (S n) <= INR m -> removing k rate E n <= removing k rate E (S n).
  Proof.
    intros H. pose proof (loss_neg n m H). unfold removing.
    pose proof (hidden_next rate m (S n)) as Next. pose proof (hidden_next rate m n) as Here. unfold loss in *.
    assert (0 <= rate * (E * f (S n) m - f n m)) by (apply Rmult_le_pos; lra). rewrite Next, Here. nra.
  Qed.

  Lemma removing_to_peak nR n : first_removing k rate E nR -> (n <= nR)%nat ->
    removing k rate E n <= removing k rate E nR.
  Proof.
    intros F L. remember (nR - n)%nat as d eqn:Hd. revert n L Hd. induction d; intros n L Hd.
    - replace n with nR by lia. lra.
    - eapply Rle_trans; [apply removing_rises|apply IHd; lia].
      destruct F as (_ & F). specialize (F n ltac:(lia)). rewrite (S_INR m) in F. lra.
  Qed.

  Lemma eta_range : eta rate E < 1.
  Proof. unfold eta. nra. Qed.

  Lemma losses_at_peak nR : first_removing k rate E nR -> losses nR = removing k rate E nR.
  Proof.
    intros (F1 & F2). unfold losses. rewrite (cut nR (fun j => Rmax 0 (loss nR j))).
    - rewrite (sum_zero (S (S nR))).
      + unfold removing, hidden. rewrite <- sum_scale, <- sum_minus, Rplus_0_r. apply sum_ext.
        intros j Hj. apply Rmax_right, loss_pos. rewrite S_INR in F1.
        assert (INR j <= INR m) by (apply le_INR; lia). lra.
      + intros i _. apply Rmax_left, loss_neg. apply Rle_trans with (INR k); [|apply le_INR; lia].
        pose proof eta_range. rewrite (S_INR m). pose proof (pos_INR m). destruct nR as [|n].
        * simpl (INR 1). lra.
        * specialize (F2 n ltac:(lia)). rewrite (S_INR m) in F2. rewrite (S_INR (S n)). lra.
    - intros j H. rewrite loss_beyond by assumption. apply Rmax_left; lra.
  Qed.

  Lemma removing_below n phi : test phi -> chance k rate n phi - E * chance k rate (S n) phi <= losses n.
  Proof.
    intros Hphi. rewrite (chance_wide n). unfold chance, losses. rewrite <- sum_scale, <- sum_minus.
    apply sum_le. intros j _.
    replace (f n j * phi (published k j) - E * (f (S n) j * phi (published k j)))
      with (phi (published k j) * loss n j) by (unfold loss; ring).
    apply share_le, Hphi.
  Qed.

  Lemma removing_early n phi : test phi -> eta rate E * INR (S n) <= INR k ->
    chance k rate n phi - E * chance k rate (S n) phi <= Rmax 0 (removing k rate E n).
  Proof.
    intros Hphi H. rewrite chance_removing.
    assert (sum (S (S n)) (fun i => phi (k + i)%nat * loss n (k + i)%nat) <= 0).
    { rewrite <- (sum_zero (S (S n)) (fun _ => 0)) by auto. apply sum_le. intros i _.
      assert (loss n (k + i)%nat <= 0). { apply loss_neg. eapply Rle_trans; [exact H|]. apply le_INR; lia. }
      pose proof (Hphi (k + i)%nat). nra. }
    pose proof (share_le _ (removing k rate E n) (Hphi O)). lra.
  Qed.

  (* Lemma 4: removing peaks at first_removing, and shows nothing if eta <= 0. *)
  Theorem removing_peak nR n phi : first_removing k rate E nR -> test phi ->
    chance k rate n phi - E * chance k rate (S n) phi <= removing k rate E nR.
  Proof.
    intros F Hphi. destruct (le_lt_dec nR n) as [L|L].
    - eapply Rle_trans; [now apply removing_below|]. rewrite <- losses_at_peak by assumption. now apply losses_fall.
    - assert (eta rate E * INR (S n) <= INR k).
      { destruct F as (_ & F). specialize (F n L). lra. }
      eapply Rle_trans; [now apply removing_early|]. apply Rmax_lub.
      + rewrite <- losses_at_peak by assumption. apply sum_nonneg. intros; apply Rmax_l.
      + apply removing_to_peak; [assumption|lia].
  Qed.

  Theorem removing_nothing n phi : eta rate E <= 0 -> test phi ->
    chance k rate n phi - E * chance k rate (S n) phi <= 0.
  Proof.
    intros H Hphi. eapply Rle_trans; [now apply removing_below|]. unfold losses. rewrite sum_zero; [lra|].
    intros j _. apply Rmax_left, loss_neg. pose proof (size_pos n). pose proof (pos_INR j). nra.
  Qed.

  (* The sizes exist. *)
  Lemma size_beyond x c : 0 < c -> exists n, (m <= n)%nat /\ x <= c * INR (S n).
  Proof.
    intros H. destruct (naturals_unbounded (x / c)) as [n Hn]. exists (m + n)%nat. split; [lia|].
    apply Rmult_lt_compat_l with (r := c) in Hn; [|assumption]. replace (c * (x / c)) with x in Hn by (field; lra).
    assert (INR n <= INR (S (m + n))) by (apply le_INR; lia). nra.
  Qed.

  Lemma least (P : nat -> Prop) : (forall n, P n \/ ~ P n) -> (exists n, P n) ->
    exists n, P n /\ forall i, (i < n)%nat -> ~ P i.
  Proof.
    intros D X. destruct (dec_inh_nat_subset_has_unique_least_element P D X) as (n & (Pn & L) & _).
    exists n. split; [assumption|]. intros i Hi Pi. specialize (L i Pi). lia.
  Qed.

  Theorem first_adding_exists : exists n, first_adding k rate E n.
  Proof.
    destruct (least (fun n => (k <= S n)%nat /\ INR k - 1 <= gamma rate E * INR (S n))) as (n & (A & B) & L).
    - intros n. destruct (le_lt_dec k (S n)), (Rle_lt_dec (INR k - 1) (gamma rate E * INR (S n)));
        [left; auto|right; lra|right; lia|right; lia].
    - pose proof gamma_range. destruct (size_beyond (INR k - 1) (gamma rate E)) as (n & ? & ?); [lra|].
      exists n. split; [lia|assumption].
    - exists n. split; [assumption|]. split; [assumption|]. intros i Hi Hk. apply Rnot_le_lt. intros G.
      now apply (L i Hi).
  Qed.

  Theorem first_removing_exists : 0 < eta rate E -> exists n, first_removing k rate E n.
  Proof.
    intros H. destruct (least (fun n => INR k - 1 <= eta rate E * INR (S n))) as (n & A & L).
    - intros n. destruct (Rle_lt_dec (INR k - 1) (eta rate E * INR (S n))); [left|right]; lra.
    - destruct (size_beyond (INR k - 1) (eta rate E)) as (n & _ & ?); [assumption|]. now exists n.
    - exists n. split; [assumption|]. intros i Hi. apply Rnot_le_lt, L, Hi.
  Qed.

  (* The claim: which delta are enough, and no smaller one is. *)
  Theorem exact_profile nA nR delta :
    first_adding k rate E nA -> first_removing k rate E nR ->
    (is_private E delta (chance k rate) <-> Rmax (adding k rate E nA) (removing k rate E nR) <= delta).
  Proof.
    intros FA FR. split.
    - intros P. apply Rmax_lub.
      + rewrite <- adding_attained. destruct (P nA is_shown shown_is_test). lra.
      + rewrite <- removing_attained. destruct (P nR is_hidden hidden_is_test). lra.
    - intros H n phi Hphi. pose proof (adding_peak nA n phi FA Hphi). pose proof (removing_peak nR n phi FR Hphi).
      pose proof (Rmax_l (adding k rate E nA) (removing k rate E nR)).
      pose proof (Rmax_r (adding k rate E nA) (removing k rate E nR)). split; lra.
  Qed.

  Theorem exact_profile_adding_alone nA delta :
    first_adding k rate E nA -> eta rate E <= 0 ->
    (is_private E delta (chance k rate) <-> adding k rate E nA <= delta).
  Proof.
    intros FA N. split.
    - intros P. rewrite <- adding_attained. destruct (P nA is_shown shown_is_test). lra.
    - intros H n phi Hphi. pose proof (adding_peak nA n phi FA Hphi).
      pose proof (removing_nothing n phi N Hphi).
      assert (0 <= adding k rate E nA).
      { rewrite <- gains_at_peak by assumption. apply sum_nonneg. intros; apply Rmax_l. }
      split; lra.
  Qed.
End Profile.
