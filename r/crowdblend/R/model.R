# The model of margins, pairs and rows: fitted counts of each two columns, and the tree of pairs by which coarse labels
# are shared out among finer ones. Columns are numbered by their places; tables are kept by "place place".

MOST_COLUMNS <- 40
LEAST_COUNT <- 1e-9
LEAST_SHARE <- 1e-6
FITTING_ROUNDS <- 30

# Returns above / below, and 0 where what is below is too small to divide by.
quotient <- function(above, below) {
  result <- above / below
  result[rep_len(!(below > 1e-12), length(result))] <- 0
  result
}

# Returns the nearest amounts that are at least 0 and add up to a number of records.
on_simplex <- function(noisy, records) {
  ordered <- sort(noisy, decreasing = TRUE)
  excess <- (cumsum(ordered) - records) / seq_along(ordered)
  pmax(noisy - excess[max(which(ordered > excess))], 0)
}

# Returns a noisy table drawn towards an estimate, in blocks of cells with like estimates.
# Source: W. James, C. Stein, Estimation with quadratic loss, Fourth Berkeley Symposium (1961).
shrunken <- function(noisy, estimate, deviation) {
  # Cells are taken row by row, as the release itself does: equal estimates then stand in the same order.
  flat <- as.vector(t(noisy))
  towards <- as.vector(t(estimate))
  blocks <- max(1, min(12, length(flat) %/% 4))
  sizes <- length(flat) %/% blocks + (seq_len(blocks) <= length(flat) %% blocks)
  result <- flat
  for (block in split(order(towards), rep(seq_len(blocks), sizes))) {
    # For two cells or fewer the estimator shrinks nothing.
    if (length(block) > 2) {
      difference <- flat[block] - towards[block]
      spread <- sum(difference^2)
      noise <- (length(block) - 2) * deviation^2
      result[block] <- towards[block] + (if (spread > noise) 1 - noise / spread else 0) * difference
    }
  }
  matrix(pmax(result, 0), nrow(noisy), ncol(noisy), byrow = TRUE)
}

# Returns a table scaled by rows and columns until it has these sums, nearly.
# Source: W. Deming, F. Stephan, Annals of Mathematical Statistics 11 (1940).
fitted_table <- function(table, rows, columns) {
  result <- pmax(table, 1e-12)
  for (round in seq_len(FITTING_ROUNDS)) {
    result <- result * quotient(rows, rowSums(result))
    result <- t(t(result) * quotient(columns, colSums(result)))
  }
  result
}

merged_table <- function(table, labels, shape) {
  rows <- matrix(0, shape[1], ncol(table))
  found <- rowsum(table, labels[[1]], reorder = FALSE)
  rows[as.integer(rownames(found)), ] <- found
  merged <- matrix(0, shape[2], shape[1])
  found <- rowsum(t(rows), labels[[2]], reorder = FALSE)
  merged[as.integer(rownames(found)), ] <- found
  t(merged)
}

pair_key <- function(pair) paste(pair, collapse = " ")
pair_of <- function(key) as.integer(strsplit(key, " ", fixed = TRUE)[[1]])

independent_table <- function(model, pair) outer(model$margins[[pair[1]]], model$margins[[pair[2]]]) / model$records

# Returns a counted pair's table with the first column's labels as rows, in whichever order they are given.
model_table <- function(model, first, second) {
  if (first < second) model$tables[[pair_key(c(first, second))]] else t(model$tables[[pair_key(c(second, first))]])
}

# Returns each column's neighbours in the forest of pairs by falling distance from independence, without circles.
model_neighbours <- function(model) {
  pairs <- lapply(names(model$tables), pair_of)
  distances <- vapply(pairs, function(pair) {
    sum(abs(model$tables[[pair_key(pair)]] - independent_table(model, pair)))
  }, 0)
  first <- vapply(pairs, `[`, 1L, 1)
  second <- vapply(pairs, `[`, 1L, 2)
  root <- seq_along(model$margins)
  neighbours <- lapply(root, function(place) integer())
  for (at in order(-distances, first, second)) {
    pair <- pairs[[at]]
    if (root[pair[1]] != root[pair[2]]) {
      root[root == root[pair[1]]] <- root[pair[2]]
      neighbours[[pair[1]]] <- c(neighbours[[pair[1]]], pair[2])
      neighbours[[pair[2]]] <- c(neighbours[[pair[2]]], pair[1])
    }
  }
  neighbours
}

# Returns the estimated counts of some pairs: tables where they were counted, others along the path between the columns
# in the forest, each step by the conditional shares of its pair; without a path the columns are independent.
model_estimates <- function(model, pairs) {
  found <- list()
  neighbours <- model_neighbours(model)
  for (start in unique(vapply(pairs, `[`, 1L, 1))) {
    reached <- list()
    reached[[as.character(start)]] <- diag(model$margins[[start]], length(model$margins[[start]]))
    last <- start
    while (length(last)) {
      here <- last[length(last)]
      last <- last[-length(last)]
      for (column in neighbours[[here]]) {
        if (is.null(reached[[as.character(column)]])) {
          table <- model_table(model, here, column)
          reached[[as.character(column)]] <- reached[[as.character(here)]] %*% quotient(table, rowSums(table))
          last <- c(last, column)
        }
      }
    }
    for (pair in Filter(function(pair) pair[1] == start, pairs)) {
      own <- model$tables[[pair_key(pair)]]
      if (is.null(own)) own <- reached[[as.character(pair[2])]]
      found[[pair_key(pair)]] <- if (is.null(own)) independent_table(model, pair) else own
    }
  }
  found
}

model_with_counts <- function(model, pair, counted, prior = NULL) {
  before <- if (is.null(prior)) model_estimates(model, list(pair))[[1]] else prior
  merged <- merged_table(before, counted$labels, dim(counted$counts))
  shrunk <- shrunken(counted$counts, merged, counted$deviation)
  # The pair may have been counted by coarser labels than the model's: within a cell the shares known before are kept.
  scaled <- before * quotient(shrunk, merged)[counted$labels[[1]], counted$labels[[2]], drop = FALSE]
  model$tables[[pair_key(pair)]] <- fitted_table(scaled, model$margins[[pair[1]]], model$margins[[pair[2]]])
  model
}

# Returns a pair's counts by the rows of all stages, spread over the finest labels as an estimate has them.
pair_by_rows <- function(names, estimate, table, columns, margins) {
  rest <- estimate
  found <- 0 * estimate
  for (stage in table$stages) {
    labels <- lapply(names, function(name) labels_to(columns[[name]], stage$levels[[name]]))
    shape <- vapply(names, function(name) columns[[name]]$hierarchy$size(stage$levels[[name]]), 0)
    place <- stage$codes[[names[1]]] + (stage$codes[[names[2]]] - 1) * shape[1]
    counted <- matrix(sums_by(stage$mass, place, prod(shape)), shape[1], shape[2])
    by_rest <- quotient(counted, merged_table(rest, labels, shape))
    # Where finer rows account for all of a label.
    by_whole <- ifelse(by_rest > 0, 0, quotient(counted, merged_table(estimate, labels, shape)))
    spread <- rest * by_rest[labels[[1]], labels[[2]], drop = FALSE] +
      estimate * by_whole[labels[[1]], labels[[2]], drop = FALSE]
    found <- found + spread
    rest <- pmax(rest - spread, 0)
  }
  if (sum(found) == 0) return(estimate)
  fitted_table(found, margins[[1]], margins[[2]])
}

# Returns the nearest counts of a column's finest labels that aren't below 0, level by level of its hierarchy, so that
# labels that nobody has take no records from far away.
counts_above_zero <- function(counts, column, records) {
  below <- rep(1L, column$size)
  totals <- max(records, 1)
  for (level in (column$hierarchy$levels - 1):column$level) {
    own <- labels_to(column, level)
    sums <- sums_by(counts, own, column$hierarchy$size(level))
    parent <- rep(1L, length(sums))
    parent[own] <- below
    fitted <- numeric(length(sums))
    children_of <- split(seq_along(parent), factor(parent, seq_along(totals)))
    for (code in which(totals > 0)) {
      children <- children_of[[code]]
      if (length(children)) fitted[children] <- on_simplex(sums[children], totals[code])
    }
    below <- own
    totals <- fitted
  }
  totals
}

# Returns the model of margins, pairs and rows.
pair_model <- function(release, combined) {
  columns <- release$columns
  names <- names(columns)
  records <- max(combined$records, 1)
  margins <- lapply(names, function(name) {
    counts_above_zero(margin_of(combined, name), columns[[name]], combined$records) + LEAST_COUNT
  })
  model <- list(records = records, margins = margins, tables = list())
  place_of <- function(counted) match(counted$columns, names)
  for (counted in release$pairs) model <- model_with_counts(model, place_of(counted), counted)
  every <- utils::combn(length(names), 2, simplify = FALSE)
  if (length(names) > MOST_COLUMNS) {
    own <- lapply(names(model$tables), pair_of)
    every <- own[order(vapply(own, `[`, 1L, 1), vapply(own, `[`, 1L, 2))]
  }
  estimates <- if (length(names) > 1) model_estimates(model, every) else list()
  tables <- lapply(estimates, identity)
  for (key in names(estimates)) {
    pair <- pair_of(key)
    told <- Filter(function(table) all(names[pair] %in% table$columns), release$rows)
    if (length(told)) {
      found <- lapply(told, function(table) {
        pair_by_rows(names[pair], estimates[[key]], table, columns, model$margins[pair])
      })
      tables[[key]] <- Reduce(`+`, found) / length(found)
    }
  }
  model$tables <- tables
  # Tables with fewer, larger cells come first, so that the finer ones have the last word.
  for (at in order(vapply(release$pairs, function(pair) length(pair$counts), 0L))) {
    counted <- release$pairs[[at]]
    pair <- place_of(counted)
    model <- model_with_counts(model, pair, counted, prior = model$tables[[pair_key(pair)]])
  }
  model
}

# Returns the forest of the pairs that differ most from independence: columns with their parents, parents first (0 of a
# root), and the shares of each label, given each label of the parent.
label_tree <- function(model) {
  neighbours <- model_neighbours(model)
  order <- parents <- integer()
  shares <- list()
  known <- function(column) column %in% order
  for (root in seq_along(model$margins)) {
    if (known(root)) next
    shares[[root]] <- matrix(model$margins[[root]] / sum(model$margins[[root]]), 1)
    order <- c(order, root)
    parents <- c(parents, 0L)
    last <- root
    while (length(last)) {
      here <- last[length(last)]
      last <- last[-length(last)]
      for (column in neighbours[[here]]) {
        if (!known(column)) {
          alone <- model$margins[[column]] / sum(model$margins[[column]])
          table <- t(t(pmax(model_table(model, here, column), 0)) + 1e-12 * alone)
          given <- table / rowSums(table)
          shares[[column]] <- t(t((1 - LEAST_SHARE) * given) + LEAST_SHARE * alone)
          order <- c(order, column)
          parents <- c(parents, here)
          last <- c(last, column)
        }
      }
    }
  }
  list(order = order, parents = parents, shares = shares)
}

# Returns how likely what is below each label is, per column and group, and the chance that a record has labels of the
# sets; masks are matrices by column's place, a row for each group. NULL has any label.
tree_upward <- function(tree, masks) {
  inside <- lapply(seq_along(tree$shares), function(place) {
    if (place <= length(masks) && !is.null(masks[[place]])) masks[[place]] * 1
  })
  chance <- rep(1, nrow(Filter(Negate(is.null), masks)[[1]]))
  for (at in rev(seq_along(tree$order))) {
    column <- tree$order[at]
    parent <- tree$parents[at]
    if (is.null(inside[[column]])) next
    below <- inside[[column]] %*% t(tree$shares[[column]])
    if (parent == 0) {
      chance <- chance * drop(below)
    } else {
      inside[[parent]] <- if (is.null(inside[[parent]])) below else inside[[parent]] * below
    }
  }
  list(inside = inside, chance = chance)
}

# Returns the finest labels that are within those of some groups, a matrix by column's place.
boxes <- function(stage, table, columns, some) {
  masks <- vector("list", length(columns))
  for (name in table$columns) {
    own <- labels_to(columns[[name]], stage$levels[[name]])
    masks[[match(name, names(columns))]] <- outer(stage$codes[[name]][some], own, `==`)
  }
  masks
}

AT_ONCE <- 2^14

chunks <- function(size) split(seq_len(size), (seq_len(size) - 1) %/% AT_ONCE)

# Returns how many records of a set the rows stand for, coarse labels shared out by the tree.
chosen_mass <- function(selection, table, columns, tree) {
  mass <- 0
  for (stage in table$stages) {
    for (some in chunks(length(stage$counts))) {
      masks <- chosen <- boxes(stage, table, columns, some)
      for (name in names(selection)) {
        place <- match(name, names(columns))
        chosen[[place]] <- t(t(masks[[place]]) & selection[[name]])
      }
      whole <- tree_upward(tree, masks)$chance
      share <- ifelse(whole > 0, tree_upward(tree, chosen)$chance / whole, 0)
      mass <- mass + sum(stage$mass[some] * share)
    }
  }
  mass
}
