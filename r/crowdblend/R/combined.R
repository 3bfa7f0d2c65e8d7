# Counts by margins and counted pairs together: the best unbiased combination of all that was counted with noise.
#
# A table's sum, its row effects, its column effects and what is left of it are uncorrelated, so that generalized least
# squares has a closed form, column by column. Source of the decomposition: Xiao, He, Zhang, Kifer, arXiv:2305.08175.
#
# A linear count is a weighted sum of counts, as coefficients of what was estimated: `mains` by column, `records`, and
# `interactions` by the number of a pair.

MOST_DENSE <- 2000

linear_count <- function(mains = list(), records = 0, interactions = list()) {
  list(mains = mains, records = records, interactions = interactions)
}

linear_plus <- function(one, other, times = 1) {
  for (part in c("mains", "interactions")) {
    for (key in names(other[[part]])) {
      own <- one[[part]][[key]]
      one[[part]][[key]] <- times * other[[part]][[key]] + if (is.null(own)) 0 else own
    }
  }
  one$records <- one$records + times * other$records
  one
}

combined_counts <- function(margins, deviation, pairs, total) {
  own <- lapply(stats::setNames(nm = names(margins)), function(name) {
    combined_column(name, margins[[name]], deviation, pairs)
  })
  sums <- c(
    lapply(own, function(column) c(column$records, column$variance)),
    lapply(pairs, function(pair) c(sum(pair$counts), length(pair$counts) * pair$deviation^2)),
    if (!is.null(total)) list(c(total[1], total[2]^2))
  )
  sums <- do.call(rbind, sums)
  variance <- 1 / sum(1 / sums[, 2])
  list(
    columns = own, pairs = pairs, records = variance * sum(sums[, 1] / sums[, 2]), records_variance = variance,
    left = lapply(pairs, function(pair) pair$counts - outer_part(pair$counts))
  )
}

# Returns a column's effects by its margin and the pairs that have it, by how much each count moves with the number of
# records, the effects' covariance (or one variance around their mean), and the number of records with its variance.
combined_column <- function(name, counts, deviation, pairs) {
  size <- length(counts)
  effects <- list()
  for (pair in pairs) {
    for (axis in which(pair$columns == name)) {
      sums <- if (axis == 1) rowSums(pair$counts) else colSums(pair$counts)
      across <- dim(pair$counts)[3 - axis]
      effects <- c(effects, list(list(labels = pair$labels[[axis]], sums = sums, variance = across * pair$deviation^2)))
    }
  }
  if (!length(effects) || size > MOST_DENSE) {
    return(list(
      effects = counts - mean(counts), direction = rep(1 / size, size), covariance = deviation^2,
      records = sum(counts), variance = size * deviation^2
    ))
  }
  precision <- diag(1 / deviation^2, size)
  seen <- counts / deviation^2
  for (effect in effects) {
    merged <- merging(effect$labels, length(effect$sums))
    centred <- sweep(merged, 2, colMeans(merged))
    precision <- precision + crossprod(centred) / effect$variance
    seen <- seen + drop(crossprod(centred, effect$sums - mean(effect$sums))) / effect$variance
  }
  covariance <- solve(precision)
  estimate <- drop(covariance %*% seen)
  moved <- rowSums(covariance)
  variance <- sum(moved)
  list(
    effects = estimate - moved / variance * sum(estimate), direction = moved / variance,
    covariance = covariance - outer(moved, moved) / variance, records = sum(estimate), variance = variance
  )
}

# Returns the matrix that adds up finer labels to coarser ones.
merging <- function(labels, size) {
  merged <- matrix(0, size, length(labels))
  merged[cbind(labels, seq_along(labels))] <- 1
  merged
}

# Returns what row sums and column sums explain of a table.
outer_part <- function(table) outer(rowMeans(table), colMeans(table), "+") - mean(table)

margin_of <- function(combined, name) {
  column <- combined$columns[[name]]
  column$effects + column$direction * combined$records
}

covariance_matrix <- function(column) {
  if (is.matrix(column$covariance)) return(column$covariance)
  size <- length(column$effects)
  column$covariance * (diag(size) - 1 / size)
}

# Returns a weighted sum of the cells of a counted pair.
linear_of_pair <- function(combined, number, coefficients) {
  pair <- combined$pairs[[number]]
  mains <- list()
  mains[[pair$columns[1]]] <- (rowSums(coefficients) / ncol(coefficients))[pair$labels[[1]]]
  mains[[pair$columns[2]]] <- (colSums(coefficients) / nrow(coefficients))[pair$labels[[2]]]
  interactions <- list()
  interactions[[as.character(number)]] <- coefficients
  linear_count(mains, -sum(coefficients) / length(coefficients), interactions)
}

linear_value <- function(combined, asked) {
  mains <- vapply(names(asked$mains), function(name) sum(asked$mains[[name]] * margin_of(combined, name)), 0)
  left <- vapply(names(asked$interactions), function(number) {
    sum(asked$interactions[[number]] * combined$left[[as.integer(number)]])
  }, 0)
  asked$records * combined$records + sum(mains) + sum(left)
}

linear_covariance <- function(combined, one, other) {
  of_records <- function(asked) {
    asked$records + sum(vapply(names(asked$mains), function(name) {
      sum(asked$mains[[name]] * combined$columns[[name]]$direction)
    }, 0))
  }
  result <- of_records(one) * of_records(other) * combined$records_variance
  for (name in intersect(names(one$mains), names(other$mains))) {
    covariance <- combined$columns[[name]]$covariance
    mine <- one$mains[[name]]
    its <- other$mains[[name]]
    result <- result + if (is.matrix(covariance)) {
      sum(mine * (covariance %*% its))
    } else {
      covariance * (sum(mine * its) - sum(mine) * sum(its) / length(mine))
    }
  }
  for (number in intersect(names(one$interactions), names(other$interactions))) {
    mine <- one$interactions[[number]]
    deviation <- combined$pairs[[as.integer(number)]]$deviation
    result <- result + deviation^2 * sum((mine - outer_part(mine)) * other$interactions[[number]])
  }
  result
}

linear_error <- function(combined, asked) sqrt(max(linear_covariance(combined, asked, asked), 0))

# Returns the weighted mean of several unbiased estimates of one number that has the least variance.
narrowest <- function(combined, asked) {
  best <- asked[[1]]
  for (other in asked[-1]) {
    own <- linear_covariance(combined, best, best)
    shared <- linear_covariance(combined, best, other)
    spread <- own + linear_covariance(combined, other, other) - 2 * shared
    if (spread > 1e-12 * own) {
      weight <- (own - shared) / spread
      best <- linear_plus(linear_plus(linear_count(), best, 1 - weight), other, weight)
    }
  }
  best
}

# Returns the estimates of all cells of a counted pair, and their variances.
pair_cells <- function(combined, number) {
  pair <- combined$pairs[[number]]
  shape <- dim(pair$counts)
  estimate <- combined$left[[number]]
  variance <- matrix(pair$deviation^2 * prod(1 - 1 / shape), shape[1], shape[2])
  moves <- matrix(-1 / prod(shape), shape[1], shape[2])
  for (axis in 1:2) {
    column <- combined$columns[[pair$columns[axis]]]
    merged <- merging(pair$labels[[axis]], shape[axis])
    across <- shape[3 - axis]
    spread_out <- function(amounts) {
      matrix(amounts, shape[1], shape[2], byrow = axis == 2)
    }
    spread <- rowSums((merged %*% covariance_matrix(column)) * merged)
    estimate <- estimate + spread_out(drop(merged %*% margin_of(combined, pair$columns[axis])) / across)
    variance <- variance + spread_out(spread / across^2)
    moves <- moves + spread_out(drop(merged %*% column$direction) / across)
  }
  list(estimate = estimate - combined$records / prod(shape), variance = variance + moves^2 * combined$records_variance)
}
