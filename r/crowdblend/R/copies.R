# Completed copies of a release: files of as many records as there were, drawn from all that is published.
#
# A copy isn't the records. Its rows are published rows whose labels are filled in, and drawn ones in the place of
# those that were deleted or not sampled. Each copy has noise of its own on every count, of the size that the release's
# has, so that the spread between copies tells what the noise leaves open (Rubin 1987).

CANDIDATES <- 4
WEIGHT_ROUNDS <- 20

cb_complete <- function(release, copies = 20, seed = 1) {
  some <- is.numeric(copies) && length(copies) == 1 && !is.na(copies) && copies >= 1
  if (!some || !length(release$margins) || !release$reading$are_records) {
    refuse("Copies are completed by margins beside rows of records, and there is to be one or more.")
  }
  drawn <- with_seed(seed, lapply(seq_len(copies), function(number) {
    codes <- completed_codes(release, stats::runif, stats::rnorm)
    values <- lapply(release$columns, function(column) values_within(column, codes[[column$name]], stats::runif))
    as.data.frame(
      c(list(completed_copy = rep(number, length(codes[[1]]))), values),
      optional = TRUE, stringsAsFactors = FALSE
    )
  }))
  structure(drawn, class = c("cb_copies", "list"))
}

print.cb_copies <- function(x, ...) {
  cat(length(x), " completed copies of ", nrow(x[[1]]), " rows or so; no row of them is a record.\n", sep = "")
  cat("Columns: ", paste(names(x[[1]]), collapse = ", "), "\n", sep = "")
  invisible(x)
}

cb_rubin <- function(estimates, variances = NULL, error = 0.05) {
  own <- as.numeric(unlist(estimates))
  if (length(own) < 2) refuse("Rubin's rules need two copies or more.")
  inside <- if (is.null(variances)) 0 else mean(as.numeric(unlist(variances)))
  between <- (1 + 1 / length(own)) * stats::var(own)
  whole <- inside + between
  if (!isTRUE(whole > 0)) return(figures(figure(mean(own), source = "copies", note = "copies don't differ")))
  freedom <- if (between > 0) (length(own) - 1) * (whole / between)^2 else Inf
  width <- stats::qt(1 - error / 2, min(freedom, 1e9)) * sqrt(whole)
  figures(figure(mean(own), mean(own) - width, mean(own) + width, "copies", "as far as the copies' model holds"))
}

# Computes with random numbers that follow from a seed, and leaves the session's own as they were.
with_seed <- function(seed, compute) {
  had <- exists(".Random.seed", envir = globalenv(), inherits = FALSE)
  if (had) before <- get(".Random.seed", envir = globalenv())
  kinds <- RNGkind("Mersenne-Twister", "Inversion", "Rejection")
  on.exit({
    do.call(RNGkind, as.list(kinds))
    if (had) assign(".Random.seed", before, envir = globalenv()) else rm(".Random.seed", envir = globalenv())
  })
  set.seed(seed)
  compute
}

# Draws one copy: per column the finest label of each record.
#
# Published rows are all in it, each with finest labels within its own. The records that are missing to the number of
# all are drawn by the rows' weights, or of any labels by the model. Of several candidates for each record weights
# choose one. They are fitted so that all records together have the counts of margins and pairs that this copy drew.
#   uniform, normal: functions of a number to so many numbers
completed_codes <- function(release, uniform, normal) {
  drawn <- with_noise(release, normal)
  combined <- combined_counts(drawn$margins, drawn$deviation, drawn$pairs, drawn$total)
  model <- pair_model(drawn, combined)
  tree <- label_tree(model)
  table <- table_for(release, character())
  parts <- unlist(lapply(table$stages, function(stage) {
    lapply(chunks(length(stage$counts)), function(some) list(
      counts = stage$counts[some], left = pmax(stage$mass[some] - stage$counts[some], 0),
      masks = boxes(stage, table, release$columns, some)
    ))
  }), recursive = FALSE)
  sizes <- vapply(parts, function(part) length(part$counts), 0L)
  there <- lapply(parts, function(part) rep(seq_along(part$counts), part$counts * CANDIDATES))
  known <- sum(lengths(there)) / CANDIDATES
  missing <- max(round(combined$records) - known, 0)
  spare <- unlist(lapply(parts, function(part) part$left))
  # Half of the others come of groups that are there, half of any labels: some groups have no row at all.
  half <- if (sum(spare) > 0) missing * CANDIDATES %/% 2 else 0
  chosen <- if (half) systematic(spare, half, uniform) else integer()
  begins <- cumsum(c(0, sizes))
  from_parts <- function(groups_of) {
    lapply(seq_along(parts), function(at) drawn_labels(tree, parts[[at]]$masks, groups_of(at), uniform))
  }
  anything <- list(matrix(TRUE, 1, release$columns[[1]]$size))
  candidates <- c(
    from_parts(function(at) there[[at]]),
    from_parts(function(at) chosen[chosen > begins[at] & chosen <= begins[at + 1]] - begins[at]),
    list(drawn_labels(tree, anything, rep(1, missing * CANDIDATES - half), uniform))
  )
  codes <- lapply(seq_along(tree$shares), function(place) unlist(lapply(candidates, `[[`, place)))
  weights <- candidate_weights(codes, drawn, model, known, missing)
  # Of a published row's candidates one by their weights; of the others' so many as are missing.
  own <- seq_len(known * CANDIDATES)
  reached <- cumulated(matrix(weights[own], known, CANDIDATES, byrow = TRUE))
  one <- rowSums(reached <= uniform(known) * reached[, CANDIDATES])
  taken <- (seq_len(known) - 1) * CANDIDATES + pmin(one, CANDIDATES - 1) + 1
  if (missing) {
    # In the order of their labels, so that each label is taken as often as its weights say but for one.
    others <- lapply(rev(codes), function(own) own[-seq_len(known * CANDIDATES)])
    if (!known) others <- rev(codes)
    order <- known * CANDIDATES + do.call(order, others)
    taken <- c(taken, order[systematic(weights[order], missing, uniform)])
  }
  stats::setNames(lapply(codes, function(own) own[taken]), names(release$columns))
}

# Returns the release with as much noise again: what the records' counts may have been, given the noisy ones.
with_noise <- function(release, normal) {
  release$margins <- lapply(release$margins, function(own) own + release$deviation * normal(length(own)))
  release$pairs <- lapply(release$pairs, function(pair) {
    noise <- matrix(normal(length(pair$counts)), nrow(pair$counts), ncol(pair$counts), byrow = TRUE)
    pair$counts <- pair$counts + pair$deviation * noise
    pair
  })
  release$kept <- new.env(parent = emptyenv())
  release
}

cumulated <- function(table) {
  for (at in seq_len(ncol(table))[-1]) table[, at] <- table[, at] + table[, at - 1]
  table
}

# Draws finest labels for records of some groups, some records at a time; a vector of codes by column's place.
drawn_labels <- function(tree, masks, groups, uniform) {
  some_of <- if (length(groups)) chunks(length(groups)) else list(integer())
  drawn <- lapply(some_of, function(some) {
    own <- lapply(masks, function(mask) if (!is.null(mask)) mask[groups[some], , drop = FALSE])
    inside <- tree_upward(tree, own)$inside
    found <- vector("list", length(tree$shares))
    for (at in seq_along(tree$order)) {
      column <- tree$order[at]
      parent <- tree$parents[at]
      shares <- tree$shares[[column]]
      given <- shares[if (parent) found[[parent]] else rep(1, length(some)), , drop = FALSE]
      if (!is.null(inside[[column]])) given <- given * inside[[column]]
      reached <- cumulated(given)
      passed <- rowSums(reached <= uniform(length(some)) * reached[, ncol(reached)])
      found[[column]] <- pmin(passed, ncol(reached) - 1) + 1
    }
    found
  })
  lapply(seq_along(tree$shares), function(place) unlist(lapply(drawn, `[[`, place)))
}

# Returns so many places, each as often as its weight says but for one.
systematic <- function(weights, number, uniform) {
  reached <- cumsum(weights)
  at <- (seq_len(number) - 1 + uniform(1)) * (reached[length(reached)] / number)
  pmin(findInterval(at, reached) + 1, length(weights))
}

# Returns weights of candidates by which all records together have the counts that were drawn. The candidates of a
# published row, which come first, have 1 together, those of the others the number of the missing.
candidate_weights <- function(codes, drawn, model, known, missing) {
  names <- names(drawn$columns)
  largest_last <- order(vapply(drawn$pairs, function(pair) length(pair$counts), 0L))
  targets <- lapply(drawn$pairs[largest_last], function(pair) {
    places <- match(pair$columns, names)
    first <- pair$labels[[1]][codes[[places[1]]]]
    second <- pair$labels[[2]][codes[[places[2]]]]
    asked <- merged_table(model$tables[[pair_key(places)]], pair$labels, dim(pair$counts))
    list(at = first + (second - 1) * nrow(asked), asked = as.vector(asked))
  })
  targets <- c(targets, Map(function(own, margin) list(at = own, asked = margin), codes, model$margins))
  weights <- rep(1 / CANDIDATES, length(codes[[1]]))
  own <- seq_len(known * CANDIDATES)
  for (round in seq_len(WEIGHT_ROUNDS)) {
    for (target in targets) {
      have <- sums_by(weights, target$at, length(target$asked))
      factors <- pmin(pmax(ifelse(have > 1e-9, target$asked / have, 1), 1e-3), 1e3)
      weights <- weights * factors[target$at]
    }
    rows <- colSums(matrix(weights[own], CANDIDATES))
    weights[own] <- weights[own] / rep(pmax(rows, 1e-300), each = CANDIDATES)
    if (missing) {
      others <- if (known) weights[-own] else weights
      weights[length(own) + seq_along(others)] <- others * (missing / max(sum(others), 1e-300))
    }
  }
  weights
}

# Returns values within labels: numbers of intervals, others their labels; what has none is missing. A column has
# numbers if all values that were declared are numbers: N, for not applicable, isn't a missing number.
values_within <- function(column, codes, uniform) {
  edges <- edges_or_null(column, column$level)
  if (is.null(edges) || (column$hierarchy$kind == "values" && !all(edges$known[-1]))) {
    labels <- labels_at(column, column$level)
    if (length(labels) > 1) labels[1] <- NA
    return(labels[codes])
  }
  lower <- edges$lower[codes]
  part <- uniform(length(codes))
  if (column$hierarchy$whole) return(lower + floor(part * (edges$upper[codes] - lower + 1)))
  lower + part * (edges$upper[codes] - lower)
}
