# Odds and odds ratios by counts whose noise is known, with intervals.

cb_odds <- function(release, where, of = NULL, by = NULL, against = NULL) {
  whole <- selection_of(release, of)
  condition <- selection_of(release, where)
  if (is.null(by) && is.null(against)) {
    return(figures(noted(release, odds_of(share_of(release, both_of(whole, condition), whole)))))
  }
  if (is.null(by) && is.list(against)) {
    return(figures(noted(release, odds_ratio(release, condition, whole, selection_of(release, against)))))
  }
  if (is.null(by) || length(by) != 1 || is.list(against)) {
    refuse(
      "Odds are compared by the labels of one column.",
      "A logit of several columns doesn't follow from counts of two; cb_glm gives the linear probability model."
    )
  }
  name <- column_of(release, by)$name
  base <- if (!is.null(against)) both_of(whole, selection_of(release, stats::setNames(list(against), name)))
  figures_by(release, c(setdiff(names(condition), name), name)[1], NULL, by, function(label) {
    own <- both_of(whole, label)
    if (is.null(base)) return(odds_of(share_of(release, both_of(own, condition), own)))
    odds_ratio(release, condition, own, base)
  })
}

# Returns a share's odds; an upper end of infinity where the share may be all, NaN where it is no number.
odds_of <- function(share) {
  numbers <- c("estimate", "lower", "upper")
  share[numbers] <- lapply(share[numbers], function(part) {
    if (isTRUE(part >= 1)) Inf else part / (1 - part)
  })
  share
}

# Returns the odds of a condition among some records over those among others.
#
# The interval is put together from those of both odds, whose ends are unequally far off where counts are small, with
# the correlation of their errors. Source: G. Zou, A. Donner, Construction of confidence limits about effect measures,
# Statistics in Medicine 27 (2008), with Fieller's intervals.
odds_ratio <- function(release, condition, whole, base) {
  combined <- combined_of(release)
  sets <- lapply(list(whole, base), function(own) {
    list(part = both_of(own, condition), whole = own)
  })
  counted <- lapply(sets, function(set) lapply(set, function(own) linear_of(release, own)))
  if (any(lengths(unlist(counted, recursive = FALSE)) == 0)) {
    shares <- lapply(sets, function(set) share_of(release, set$part, set$whole))
    odds <- vapply(shares, function(share) odds_of(share)$estimate, 0)
    notes <- c(shares[[1]]$note, shares[[2]]$note, NO_INTERVAL)
    ratio <- if (isTRUE(odds[2] > 0)) odds[1] / odds[2] else NaN
    return(figure(ratio, source = "rows", note = notes[nzchar(notes)][1]))
  }
  parts <- lapply(counted, function(set) {
    log_odds(combined, narrowest(combined, set$part), narrowest(combined, set$whole))
  })
  if (is.null(parts[[1]]) || is.null(parts[[2]])) return(figure(NaN, source = "pairs", note = TOO_FEW))
  above <- parts[[1]]
  below <- parts[[2]]
  spread <- linear_error(combined, above$moved) * linear_error(combined, below$moved)
  shared <- if (spread > 0) linear_covariance(combined, above$moved, below$moved) / spread else 0
  if (shared > 1 - 1e-9) return(figure(1, 1, 1, "pairs", "compared with"))
  # The distance of an end from that of both odds; infinite where one of them is.
  together <- function(one, other) {
    if (is.infinite(one) || is.infinite(other)) Inf else sqrt(max(one^2 + other^2 - 2 * shared * one * other, 0))
  }
  middle <- above$middle - below$middle
  lower <- exp(middle - together(above$middle - above$lower, below$upper - below$middle))
  upper <- exp(middle + together(above$upper - above$middle, below$middle - below$lower))
  figure(exp(middle), lower, upper, "pairs", if (lower > 0 && is.finite(upper)) "" else TOO_FEW)
}

# Returns the logarithm of odds, with Fieller's interval, and how it moves with the counts; NULL where a count isn't
# above 0.
log_odds <- function(combined, part, whole) {
  rest <- linear_plus(whole, part, -1)
  yes <- linear_value(combined, part)
  no <- linear_value(combined, rest)
  if (yes <= 0 || no <= 0) return(NULL)
  ratio <- ratio_of(combined, part, whole)
  of_share <- function(share) if (share <= 0) -Inf else if (share >= 1) Inf else log(share / (1 - share))
  list(
    middle = log(yes / no), lower = of_share(ratio$lower), upper = of_share(ratio$upper),
    moved = linear_plus(linear_plus(linear_count(), part, 1 / yes), rest, -1 / no)
  )
}
