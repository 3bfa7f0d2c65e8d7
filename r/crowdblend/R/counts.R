# How many records a set of labels has: by noisy counts, else by rows, with an interval or without.

ERROR <- 0.05
LONG_TAILS <- 0.2
QUANTILE <- 1.959964
NO_PEOPLE <- "this release's rows are no person's records, and have no stated error"
NO_INTERVAL <- "rows give no interval of this"
TOO_FEW <- "too few records to tell"
LEFT_OUT <- "records without a number, or outside the declared range, are left out"

# Returns a figure as a row of a table.
figure <- function(estimate, lower = NA_real_, upper = NA_real_, source, note = "") {
  data.frame(
    estimate = as.numeric(estimate), lower = as.numeric(lower), upper = as.numeric(upper), source = source, note = note,
    stringsAsFactors = FALSE
  )
}

# Returns what is computed of a release, once.
kept <- function(release, name, compute) {
  if (!exists(name, envir = release$kept, inherits = FALSE)) assign(name, compute(), envir = release$kept)
  get(name, envir = release$kept, inherits = FALSE)
}

# Returns the counts by margins and pairs; NULL where nothing was counted beside the rows.
combined_of <- function(release) {
  if (!length(release$margins) && is.null(release$total)) return(NULL)
  kept(release, "combined", function() {
    combined_counts(release$margins, release$deviation, release$pairs, release$total)
  })
}

# Returns how records are spread over each column's finest labels, none below 0; empty without margins.
fitted_of <- function(release) {
  if (!length(release$margins)) return(list())
  combined <- combined_of(release)
  kept(release, "fitted", function() {
    lapply(release$columns, function(column) {
      counts_above_zero(margin_of(combined, column$name), column, combined$records)
    })
  })
}

model_of <- function(release) {
  if (length(release$margins)) kept(release, "model", function() pair_model(release, combined_of(release)))
}

tree_of <- function(release) {
  if (length(release$margins)) kept(release, "tree", function() label_tree(model_of(release)))
}

# Returns the unbiased estimates of a count by margins and pairs; none where it isn't a function of them.
linear_of <- function(release, selection) {
  combined <- combined_of(release)
  if (is.null(combined)) return(list())
  if (!length(selection)) return(list(linear_count(records = 1)))
  if (!length(release$margins)) return(list())
  if (length(selection) == 1) return(list(linear_count(mains = lapply(selection, as.numeric))))
  found <- list()
  for (number in seq_along(release$pairs)) {
    pair <- release$pairs[[number]]
    if (setequal(pair$columns, names(selection))) {
      masks <- lapply(1:2, function(axis) {
        merged_mask(selection[[pair$columns[axis]]], pair$labels[[axis]], dim(pair$counts)[axis])
      })
      if (!is.null(masks[[1]]) && !is.null(masks[[2]])) {
        found <- c(found, list(linear_of_pair(combined, number, outer(masks[[1]], masks[[2]]) * 1)))
      }
    }
  }
  found
}

# Returns the table of rows that has all these columns, the one with the most rows; NULL where none has.
table_for <- function(release, names) {
  able <- Filter(function(table) all(names %in% table$columns), release$rows)
  if (!length(able)) return(NULL)
  rows <- vapply(able, function(table) sum(vapply(table$stages, function(stage) sum(stage$counts), 0)), 0)
  able[[which.max(rows)]]
}

# Returns which share of each group is of a set, and whether it surely is and whether it may be.
group_shares <- function(selection, stage, columns, fitted) {
  share <- rep(1, length(stage$counts))
  surely <- maybe <- rep(TRUE, length(stage$counts))
  for (name in names(selection)) {
    mask <- selection[[name]]
    column <- columns[[name]]
    codes <- stage$codes[[name]]
    own <- labels_to(column, stage$levels[[name]])
    size <- column$hierarchy$size(stage$levels[[name]])
    inside <- tabulate(own[mask], size)
    spread <- (if (is.null(fitted[[name]])) rep(1, length(mask)) else fitted[[name]]) + 1e-9
    part <- sums_by(mask * spread, own, size) / sums_by(spread, own, size)
    share <- share * part[codes]
    surely <- surely & (inside == tabulate(own, size))[codes]
    maybe <- maybe & (inside > 0)[codes]
  }
  list(share = share, surely = surely, maybe = maybe)
}

# Returns of how many records the rows of a set stand, how many are surely of it, how many groups of the last stage are
# among them, and whether some rows may be of it or not; rows of the set `less`, and those that may be, are left out.
counted_rows <- function(release, selection, stages, less = NULL) {
  fitted <- fitted_of(release)
  result <- list(weight = 0, certain = 0, groups = 0, spread = FALSE)
  # Of a histogram without noise a 0 stands for a group that isn't shown; with noise each cell is there.
  suppressed <- release$reading$form == "histogram" && is.null(release$reading$noise)
  for (number in seq_along(stages)) {
    stage <- stages[[number]]
    own <- group_shares(selection, stage, release$columns, fitted)
    surely <- own$surely
    if (!is.null(less)) surely <- surely & !group_shares(less, stage, release$columns, fitted)$maybe
    result$weight <- result$weight + sum(stage$mass * own$share)
    result$certain <- result$certain + sum(stage$counts[surely])
    result$spread <- result$spread || any(own$maybe & !surely)
    if (number == length(stages)) {
      shown <- if (suppressed) stage$counts > 0 else TRUE
      result$groups <- sum(surely & shown)
    }
  }
  result
}

# Returns how many records a set has at least, but for this error.
#
# Of a deletion release each published group of the last stage has lost Z records, E[Z] in the mean; of a sampled one
# the exact limit of the binomial law holds.
least_records <- function(release, counted, error) {
  reading <- release$reading
  if (!reading$are_records) return(0)
  if (!is.null(reading$rate)) {
    if (counted$certain <= 0) return(0)
    return(counted$certain + stats::qnbinom(error, counted$certain, reading$rate))
  }
  if (!reading$expected || !counted$groups) return(counted$certain)
  deviation <- sqrt(reading$variance * (counted$groups + LONG_TAILS))
  counted$certain + max(reading$expected * counted$groups + stats::qnorm(error) * deviation - 0.5, 0)
}

width_of <- function(error) -stats::qnorm(error / 2)

source_of <- function(names) if (length(unique(names)) > 1) "pairs" else "margins"

within <- function(value, least, most) min(max(value, least), most)

# Returns a count: whole numbers within its interval, none below what is there for certain.
whole_count <- function(value, width, least, source) {
  figure(
    pmax(value, least), pmax(ceiling(value - width - 1e-9), least), pmax(floor(value + width + 1e-9), least), source
  )
}

count_of <- function(release, selection, error = ERROR) {
  table <- table_for(release, names(selection))
  counted <- if (!is.null(table)) counted_rows(release, selection, table$stages)
  found <- linear_of(release, selection)
  if (length(found)) {
    combined <- combined_of(release)
    best <- narrowest(combined, found)
    width <- width_of(error) * sqrt(linear_covariance(combined, best, best))
    least <- if (is.null(counted) || !release$reading$are_records) 0 else counted$certain
    return(whole_count(linear_value(combined, best), width, least, source_of(names(selection))))
  }
  if (is.null(counted) && !length(release$margins)) refuse_tables()
  count_by_rows(release, selection, table, counted, error)
}

count_by_rows <- function(release, selection, table, counted, error) {
  reading <- release$reading
  if (is.null(counted)) counted <- list(weight = 0, certain = 0, groups = 0, spread = FALSE)
  note <- if (counted$spread) "some rows have coarser labels, and are shared out" else ""
  if (is.null(table)) note <- "no rows have these columns together; the estimate is a model's"
  if (reading$form == "synthetic") return(figure(counted$weight, source = "rows", note = NO_PEOPLE))
  if (is.null(combined_of(release))) {
    ends <- bounds_by_rows_alone(release, selection, counted, error)
  } else {
    ends <- c(least_records(release, counted, error / 2), most_beside_others(release, selection, table, error / 2))
  }
  if (anyNA(ends)) {
    if (!nzchar(note)) note <- NO_INTERVAL
    return(figure(counted$weight, ends[1], ends[2], "rows", note))
  }
  lower <- ceiling(max(ends[1], 0) - 1e-9)
  upper <- max(floor(ends[2] + 1e-9), lower)
  weight <- estimated_count(release, selection, table, counted)
  figure(if (is.null(reading$noise)) within(weight, lower, upper) else weight, lower, upper, "rows", note)
}

# Returns how many records a set has by the model, or by the rows where there is none.
estimated_count <- function(release, selection, table, counted) {
  model <- model_of(release)
  if (is.null(model)) return(counted$weight)
  places <- sort(match(names(selection), names(release$columns)))
  if (length(places) == 2 && !is.null(model$tables[[pair_key(places)]])) {
    masks <- selection[names(release$columns)[places]]
    return(sum(model$tables[[pair_key(places)]][masks[[1]], masks[[2]]]))
  }
  if (!is.null(table)) return(chosen_mass(selection, table, release$columns, tree_of(release)))
  masks <- vector("list", length(release$columns))
  for (place in places) masks[[place]] <- matrix(selection[[names(release$columns)[place]]], 1)
  model$records * tree_upward(tree_of(release), masks)$chance
}

# Returns how many records a set has at most: those of a larger set that was counted, less known others. The larger sets
# are those by all but some columns; the error is shared out among them.
most_beside_others <- function(release, selection, table, error) {
  combined <- combined_of(release)
  names <- names(selection)
  for (size in intersect(c(2, 1, 0), seq_along(names) - 1)) {
    # A larger set by fewer columns holds those by more; it is taken only where they weren't counted.
    subsets <- if (size) utils::combn(names, size, simplify = FALSE) else list(character())
    subsets <- Filter(function(subset) length(linear_of(release, selection[subset])) > 0, subsets)
    if (!length(subsets)) next
    # The error is shared by the noise, and by the draw of the sample or of what is deleted.
    each <- error / length(subsets) / 2
    ends <- vapply(subsets, function(subset) {
      own <- narrowest(combined, linear_of(release, selection[subset]))
      above <- linear_value(combined, own) + width_of(2 * each) * sqrt(linear_covariance(combined, own, own))
      if (is.null(table)) return(above)
      inner <- table_for(release, names)
      others <- counted_rows(release, selection[subset], inner$stages, less = selection)
      above - least_records(release, others, each)
    }, 0)
    return(min(ends))
  }
  NA_real_
}

# Returns bounds by rows and what each absent combination may have at most, NA where there is none.
bounds_by_rows_alone <- function(release, selection, counted, error) {
  reading <- release$reading
  groups <- combinations_of(release, selection)
  if (!is.null(reading$noise)) {
    if (is.null(reading$rate) || error != ERROR) return(c(NA_real_, NA_real_))
    # Of noisy counts of a sample: bounds of closed form.
    alpha <- exp(-reading$noise)
    noise <- function(groups) 2 * alpha / (1 - alpha)^2 * (groups + LONG_TAILS)
    others <- 1 - reading$rate
    least <- counted$certain - 1
    lower <- max(least - QUANTILE * sqrt(max(least, 0) * others + noise(counted$groups)), 0) / reading$rate
    if (is.null(groups)) return(c(lower, NA_real_))
    root <- max(counted$certain + 1, 0) * others + QUANTILE^2 / 4 + noise(groups)
    return(c(lower, max(counted$certain + 1 + QUANTILE^2 / 2 + QUANTILE * sqrt(root), 0) / reading$rate))
  }
  c(least_records(release, counted, error / 2), most_with_absent(release, counted, groups, error / 2))
}

most_with_absent <- function(release, counted, groups, error) {
  reading <- release$reading
  if (is.null(groups) || is.null(reading$k) || counted$spread) return(NA_real_)
  absent <- groups - counted$groups
  if (!is.null(reading$rate)) {
    most <- counted$certain + (reading$k - 1) * absent
    return(most + stats::qnbinom(1 - error, most + 1, reading$rate))
  }
  deviation <- sqrt(reading$variance * (groups + LONG_TAILS))
  weights <- counted$certain + reading$expected * counted$groups
  weights + (reading$expected + reading$k - 1) * absent + width_of(2 * error) * deviation + 0.5
}

# Returns how many combinations of labels of the last stage a set has; NULL where it has parts of some.
combinations_of <- function(release, selection) {
  if (!release$whole || length(release$rows) != 1) return(NULL)
  table <- release$rows[[1]]
  levels <- table$stages[[length(table$stages)]]$levels
  product <- 1
  for (name in table$columns) {
    column <- release$columns[[name]]
    size <- column$hierarchy$size(levels[[name]])
    if (!is.null(selection[[name]])) {
      mask <- merged_mask(selection[[name]], labels_to(column, levels[[name]]), size)
      if (is.null(mask)) return(NULL)
      size <- sum(mask)
    }
    product <- product * size
  }
  product
}

# Returns for how many records the rows stand of each of a column's finest labels.
weights_of_labels <- function(release, name, selection) {
  column <- release$columns[[name]]
  table <- table_for(release, c(names(selection), name))
  if (is.null(table)) refuse_tables()
  others <- setdiff(names(selection), name)
  places <- match(c(name, others), names(release$columns))
  model <- model_of(release)
  if (!is.null(model) && length(others) == 1 && !is.null(model$tables[[pair_key(sort(places))]])) {
    counts <- drop(model_table(model, places[1], places[2]) %*% selection[[others]])
    return(if (is.null(selection[[name]])) counts else ifelse(selection[[name]], counts, 0))
  }
  fitted <- fitted_of(release)[[name]]
  spread <- (if (is.null(fitted)) rep(1, column$size) else fitted) + 1e-9
  weights <- numeric(column$size)
  for (stage in table$stages) {
    finer <- labels_to(column, stage$levels[[name]])
    parts <- spread / sums_by(spread, finer, max(finer))[finer]
    for (code in sort(unique(stage$codes[[name]]))) {
      mask <- finer == code
      part <- list()
      part[[name]] <- mask
      own <- counted_rows(release, both_of(selection, part), list(stage))
      weights[mask] <- weights[mask] + parts[mask] * own$weight
    }
  }
  weights
}

refuse_tables <- function() {
  refuse(
    "No table of this release has all these columns.", "Ask for columns of one table of rows, or of a counted pair."
  )
}
