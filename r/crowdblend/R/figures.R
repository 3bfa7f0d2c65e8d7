# What a researcher asks: counts, shares, means, quantiles and tables, each with an interval or none.

cb_count <- function(release, where = NULL) figures(noted(release, count_of(release, selection_of(release, where))))

cb_share <- function(release, where, of = NULL) {
  whole <- selection_of(release, of)
  figures(noted(release, share_of(release, both_of(whole, selection_of(release, where)), whole)))
}

share_of <- function(release, part, whole) {
  above <- linear_of(release, part)
  below <- linear_of(release, whole)
  if (!length(above) || !length(below)) return(share_by_rows(release, part, whole))
  combined <- combined_of(release)
  ratio <- ratio_of(combined, narrowest(combined, above), narrowest(combined, below))
  note <- if (is.finite(ratio$lower)) "" else TOO_FEW
  figure(
    within(ratio$estimate, 0, 1), within(ratio$lower, 0, 1), within(ratio$upper, 0, 1),
    source_of(c(names(part), names(whole))), note
  )
}

cb_mean <- function(release, column, where = NULL, by = NULL) {
  name <- column_of(release, column)$name
  require_no_cap(release, name, where)
  figures_by(release, name, where, by, function(selection) mean_of(release, name, selection))
}

cb_quantile <- function(release, column, q = 0.5, where = NULL, by = NULL) {
  if (!is.numeric(q) || length(q) != 1 || is.na(q) || q <= 0 || q >= 1) refuse("A quantile's share is between 0 and 1.")
  name <- column_of(release, column)$name
  require_no_cap(release, name, where)
  figures_by(release, name, where, by, function(selection) quantile_of(release, name, q, selection))
}

cb_table <- function(release, rows, columns = NULL, where = NULL) {
  names <- vapply(c(rows, columns), function(name) column_of(release, name)$name, "", USE.NAMES = FALSE)
  selection <- selection_of(release, where)
  if (!length(selection) && length(names) == 2) {
    able <- which(vapply(release$pairs, function(pair) setequal(pair$columns, names), NA))
    if (length(able)) return(figures(counted_pair(release, names, able)))
  }
  levels <- vapply(names, function(name) level_of_table(release, name, length(names) == 1 && !length(selection)), 0)
  labels <- lapply(names, function(name) labels_at(release$columns[[name]], levels[[name]]))
  cells <- expand.grid(rev(lapply(labels, seq_along)))[length(names):1]
  found <- lapply(seq_len(nrow(cells)), function(at) {
    cell <- selection
    for (place in seq_along(names)) {
      column <- release$columns[[names[place]]]
      own <- list()
      own[[names[place]]] <- labels_to(column, levels[[place]]) == cells[at, place]
      cell <- both_of(cell, own)
    }
    count_of(release, cell)
  })
  named <- mapply(function(own, codes) own[codes], labels, cells, SIMPLIFY = FALSE)
  figures(noted(release, labelled(names, named, do.call(rbind, found))))
}

print.cb_figures <- function(x, digits = 4, ...) {
  shown <- as.data.frame(x)
  numbers <- vapply(shown, is.numeric, NA)
  shown[numbers] <- lapply(shown[numbers], function(own) {
    # Counts are shown whole; smaller figures by their first digits.
    ifelse(is.na(own), "", ifelse(abs(own) >= 1000, format(round(own), big.mark = ","), format(signif(own, digits))))
  })
  shown[numbers] <- lapply(shown[numbers], trimws)
  # Notes are sentences, which stand below with a number each.
  notes <- setdiff(unique(as.character(shown$note)), "")
  shown$note <- if (length(notes)) ifelse(nzchar(shown$note), match(shown$note, notes), "")
  print(shown, row.names = FALSE, right = TRUE, ...)
  cat(sprintf("%d: %s\n", seq_along(notes), notes), sep = "")
  invisible(x)
}

as.data.frame.cb_figures <- function(x, ...) {
  class(x) <- "data.frame"
  x
}

figures <- function(frame) {
  row.names(frame) <- NULL
  structure(frame, class = c("cb_figures", "data.frame"))
}

# Adds to figures of members what they leave out: those beyond the most of a unit.
noted <- function(release, frame) {
  most <- release$certificate$published[["most"]]
  if (is.null(most)) return(frame)
  beyond <- sprintf("of a unit with more than %s members only %s are counted", most, most)
  frame$note <- ifelse(nzchar(frame$note), paste(frame$note, beyond, sep = "; "), beyond)
  frame
}

# Puts columns of labels before figures.
labelled <- function(names, labels, frame) {
  labels <- as.data.frame(stats::setNames(labels, names), stringsAsFactors = FALSE, optional = TRUE)
  cbind(labels, frame)
}

# Returns a figure of a column, or one for each label of another: the finest by which both were counted together.
figures_by <- function(release, of, where, by, figure_of) {
  selection <- selection_of(release, where)
  if (is.null(by)) return(figures(noted(release, figure_of(selection))))
  column <- column_of(release, by)
  together <- Filter(function(pair) setequal(pair$columns, c(column$name, of)), release$pairs)
  levels <- vapply(together, function(pair) pair$levels[[match(column$name, pair$columns)]], 0)
  level <- if (length(levels)) min(levels) else column$level
  own <- labels_to(column, level)
  labels <- labels_at(column, level)
  codes <- if (length(labels) == 1) 1 else seq_along(labels)[-1]
  found <- lapply(codes, function(code) {
    cell <- list()
    cell[[column$name]] <- own == code
    figure_of(both_of(selection, cell))
  })
  figures(noted(release, labelled(column$name, list(labels[codes]), do.call(rbind, found))))
}

level_of_table <- function(release, name, alone) {
  own <- release$columns[[name]]$level
  if (alone && length(release$margins)) return(own)
  levels <- lapply(release$rows, function(table) {
    if (name %in% table$columns) table$stages[[length(table$stages)]]$levels[[name]]
  })
  max(own, unlist(levels))
}

# Returns the cells of a counted pair, the finest of several.
counted_pair <- function(release, names, able) {
  number <- able[which.max(vapply(able, function(one) length(release$pairs[[one]]$counts), 0L))]
  pair <- release$pairs[[number]]
  cells <- pair_cells(combined_of(release), number)
  least <- certain_cells(release, pair)
  labels <- Map(function(name, level) labels_at(release$columns[[name]], level), pair$columns, pair$levels)
  turned <- pair$columns[1] == names[1]
  flat <- function(table) as.vector(if (turned) t(table) else table) # the first of the names varies last
  labels <- labels[names]
  named <- list(rep(labels[[1]], each = length(labels[[2]])), rep(labels[[2]], length(labels[[1]])))
  width <- width_of(ERROR) * sqrt(cells$variance)
  labelled(names, named, whole_count(flat(cells$estimate), flat(width), flat(least), "pairs"))
}

# Returns for each cell of a pair how many published rows are surely of it.
certain_cells <- function(release, pair) {
  sizes <- dim(pair$counts)
  least <- matrix(0, sizes[1], sizes[2])
  table <- table_for(release, pair$columns)
  if (is.null(table) || !release$reading$are_records) return(least)
  for (stage in table$stages) {
    levels <- stage$levels[pair$columns]
    if (all(levels <= pair$levels)) {
      codes <- lapply(1:2, function(axis) {
        name <- pair$columns[axis]
        release$columns[[name]]$hierarchy$up(levels[[axis]], pair$levels[axis])[stage$codes[[name]]]
      })
      least <- least + matrix(sums_by(stage$counts, codes[[1]] + (codes[[2]] - 1) * sizes[1], prod(sizes)), sizes[1])
    }
  }
  least
}

# Returns a ratio of two counts that were made of margins and pairs, with all ratios that aren't rejected.
# Source: E. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).
ratio_of <- function(combined, above, below) {
  a <- linear_value(combined, above)
  b <- linear_value(combined, below)
  square <- width_of(ERROR)^2
  leading <- b^2 - square * linear_covariance(combined, below, below)
  estimate <- if (b > 0) a / b else NaN
  if (leading <= 0 || b <= 0) return(list(estimate = estimate, lower = -Inf, upper = Inf))
  middle <- a * b - square * linear_covariance(combined, above, below)
  root <- sqrt(max(middle^2 - leading * (a^2 - square * linear_covariance(combined, above, above)), 0))
  list(estimate = estimate, lower = (middle - root) / leading, upper = (middle + root) / leading)
}

# Returns a share by the intervals of both counts, each with half of the error.
share_by_rows <- function(release, part, whole) {
  above <- count_of(release, part, ERROR / 2)
  below <- count_of(release, whole, ERROR / 2)
  estimate <- if (below$estimate > 0) within(above$estimate / below$estimate, 0, 1) else NaN
  note <- if (nzchar(above$note)) above$note else below$note
  if (anyNA(c(above$lower, above$upper, below$lower, below$upper))) {
    return(figure(estimate, source = "rows", note = if (nzchar(note)) note else NO_INTERVAL))
  }
  lower <- if (below$upper > 0) above$lower / below$upper else 0
  upper <- if (below$lower > 0) min(above$upper / below$lower, 1) else 1
  figure(estimate, lower, upper, "rows", note)
}

# Returns how weights of a column's labels become a weighted count, and the numbers of these labels; NULL where a
# condition on other columns wasn't counted together with it.
weighted <- function(release, name, selection) {
  column <- release$columns[[name]]
  combined <- combined_of(release)
  others <- setdiff(names(selection), name)
  own <- selection[[name]]
  if (!length(release$margins) || length(others) > 1) return(NULL)
  if (!length(others)) {
    inner <- if (is.null(own)) rep(TRUE, column$size) else own
    of_weights <- function(weights) linear_count(mains = stats::setNames(list(ifelse(inner, weights, 0)), name))
    return(list(of_weights = of_weights, edges = edges_of(column, column$level)))
  }
  able <- list()
  for (number in seq_along(release$pairs)) {
    pair <- release$pairs[[number]]
    if (!setequal(pair$columns, c(name, others))) next
    mine <- match(name, pair$columns)
    its <- 3 - mine
    shape <- dim(pair$counts)
    outer_mask <- merged_mask(selection[[others]], pair$labels[[its]], shape[its])
    inner <- if (is.null(own)) rep(TRUE, shape[mine]) else merged_mask(own, pair$labels[[mine]], shape[mine])
    if (!is.null(outer_mask) && !is.null(inner)) {
      one <- list(level = pair$levels[mine], number = number, mine = mine, outer = outer_mask, inner = inner)
      able <- c(able, list(one))
    }
  }
  if (!length(able)) return(NULL)
  finest <- able[[which.min(vapply(able, function(one) one$level, 0))]]
  of_weights <- function(weights) {
    cells <- outer(ifelse(finest$inner, weights, 0), finest$outer * 1)
    linear_of_pair(combined, finest$number, if (finest$mine == 1) cells else t(cells))
  }
  list(of_weights = of_weights, edges = edges_of(column, finest$level))
}

mean_of <- function(release, name, selection) {
  found <- weighted(release, name, selection)
  if (is.null(found)) return(mean_by_rows(release, name, selection))
  combined <- combined_of(release)
  edges <- found$edges
  below <- found$of_weights(edges$known * 1)
  ratios <- lapply(edges[c("lower", "middle", "upper")], function(numbers) {
    ratio_of(combined, found$of_weights(ifelse(edges$known, numbers, 0)), below)
  })
  least <- min(edges$lower, na.rm = TRUE)
  most <- max(edges$upper, na.rm = TRUE)
  sound <- is.finite(ratios$lower$lower) && is.finite(ratios$upper$upper)
  figure(
    within(ratios$middle$estimate, least, most), within(ratios$lower$lower, least, most),
    within(ratios$upper$upper, least, most), source_of(c(names(selection), name)),
    if (!sound) TOO_FEW else if (all(edges$known)) "" else LEFT_OUT
  )
}

note_by_rows <- function(release) {
  if (release$reading$form == "synthetic") NO_PEOPLE else paste(NO_INTERVAL, LEFT_OUT, sep = "; ")
}

mean_by_rows <- function(release, name, selection) {
  edges <- edges_of(release$columns[[name]], release$columns[[name]]$level)
  weights <- weights_of_labels(release, name, selection)
  known <- edges$known & weights > 0
  total <- sum(weights[known])
  estimate <- if (total > 0) sum(weights[known] * edges$middle[known]) / total else NaN
  figure(estimate, source = "rows", note = note_by_rows(release))
}

quantile_of <- function(release, name, q, selection) {
  found <- weighted(release, name, selection)
  if (is.null(found)) {
    edges <- edges_of(release$columns[[name]], release$columns[[name]]$level)
    order <- ascending(edges)
    weights <- weights_of_labels(release, name, selection)
    return(figure(interpolated(weights[order], edges, order, q), source = "rows", note = note_by_rows(release)))
  }
  combined <- combined_of(release)
  edges <- found$edges
  order <- ascending(edges)
  width <- width_of(ERROR)
  counts <- numeric(length(order))
  above <- below <- logical(length(order))
  reached <- numeric(length(edges$known))
  for (at in seq_along(order)) {
    own <- numeric(length(reached))
    own[order[at]] <- 1
    reached[order[at]] <- 1
    counts[at] <- linear_value(combined, found$of_weights(own))
    # How many more records are at or below this label than a share of all.
    excess <- found$of_weights(reached - q * edges$known)
    value <- linear_value(combined, excess)
    error <- linear_error(combined, excess)
    above[at] <- value > width * error
    below[at] <- value < -width * error
  }
  # A label may hold the quantile unless too few are at or below it, or too many already below it.
  possible <- !below & !c(FALSE, above[-length(above)])
  if (!any(possible)) possible <- !below
  ends <- if (any(possible)) order[possible] else order
  figure(
    interpolated(counts, edges, order, q), min(edges$lower[ends]), max(edges$upper[ends]),
    source_of(c(names(selection), name)), if (all(edges$known)) "" else LEFT_OUT
  )
}

ascending <- function(edges) which(edges$known)[order(edges$lower[edges$known])]

# Returns a quantile, records spread evenly within its label.
interpolated <- function(counts, edges, order, q) {
  kept <- pmax(counts, 0)
  total <- sum(kept)
  if (total <= 0) return(NaN)
  reached <- cumsum(kept)
  place <- min(which(c(reached >= q * total - 1e-9, TRUE))[1], length(order))
  part <- if (kept[place] > 0) (q * total - (reached[place] - kept[place])) / kept[place] else 0.5
  edges$lower[order[place]] + part * (edges$upper[order[place]] - edges$lower[order[place]])
}
