# Ordinary least squares from counted pairs: the sums of squares and products that it needs are sums of noisy counts.
#
# X'X and X'y are linear in the cells of margins and pairs, so that their errors are the noise's and known. The errors
# of coefficients follow to first order: those of X'y - X'Xb, which has no bias, times the inverse of X'X. No interval
# is offered where the noise of X'X isn't small beside it.

MOST_NOISE <- 0.2

cb_glm <- function(release, formula, family = stats::gaussian(), of = c("records", "population")) {
  of <- match.arg(of)
  if (is.function(family)) family <- family()
  if (is.character(family)) family <- get(family, asNamespace("stats"))()
  if (!inherits(family, "family") || family$family != "gaussian" || family$link != "identity") {
    refuse(
      "Counted pairs give least squares alone, family = gaussian() with the identity link.",
      "Other families need all columns of a record together: fit them on cb_complete() and combine by cb_rubin()."
    )
  }
  combined <- combined_of(release)
  if (is.null(combined) || !length(release$pairs)) {
    refuse(
      "This release counted no pairs of columns, from which a regression is made.",
      "Its rows, cb_rows(), can be weighted by `weight`; nothing says how far that is off."
    )
  }
  parts <- formula_parts(formula)
  names <- vapply(parts, function(part) column_of(release, part$column)$name, "")
  levels <- levels_for(release, unique(names))
  answer <- terms_of(release, parts[[1]], levels)
  if (length(answer) != 1) {
    refuse(
      sprintf("The response '%s' is no number.", names[1]),
      sprintf("Name one of its labels, %s[...], for the share that has it.", names[1])
    )
  }
  terms <- c(
    list(design_column("(constant)", NULL, 0, 1)),
    unlist(lapply(parts[-1], function(part) terms_of(release, part, levels)), recursive = FALSE)
  )
  moment <- function(one, other) moment_of(release, combined, one, other)
  products <- lapply(terms, function(one) lapply(terms, function(other) moment(one, other)))
  answered <- lapply(terms, function(term) moment(term, answer[[1]]))
  value <- function(asked) linear_value(combined, asked)
  squares <- matrix(vapply(unlist(products, recursive = FALSE), value, 0), length(terms), byrow = TRUE)
  inverse <- tryCatch(solve(squares, tol = 0), error = function(error) 0 * squares + NaN)
  with_answer <- vapply(answered, value, 0)
  coefficients <- drop(inverse %*% with_answer)
  rest <- value(moment(answer[[1]], answer[[1]])) - sum(with_answer * coefficients)
  residual <- max(rest, 0) / max(combined$records - length(terms), 1)
  coarser <- names(levels)[vapply(names(levels), function(name) levels[[name]] > release$columns[[name]]$level, NA)]
  note <- if (length(coarser)) paste("by coarser labels of", paste(coarser, collapse = ", ")) else ""
  found <- lapply(seq_along(terms), function(number) {
    moved <- linear_count()
    for (place in seq_along(terms)) {
      weight <- inverse[number, place]
      moved <- linear_plus(moved, answered[[place]], weight)
      for (other in seq_along(terms)) {
        moved <- linear_plus(moved, products[[place]][[other]], -weight * coefficients[other])
      }
    }
    variance <- linear_covariance(combined, moved, moved)
    if (of == "population") variance <- variance + residual * inverse[number, number]
    sound <- is_well_known(inverse[, number], products, combined) && isTRUE(variance > 0)
    error <- if (sound) sqrt(variance) else NA_real_
    width <- width_of(ERROR) * error
    data.frame(
      term = terms[[number]]$name, estimate = coefficients[number], lower = coefficients[number] - width,
      upper = coefficients[number] + width, standard_error = error,
      source = if (length(unique(names)) > 1) "pairs" else "margins",
      note = if (sound) note else "too few records tell this term from the others", stringsAsFactors = FALSE
    )
  })
  fit <- figures(do.call(rbind, found))
  class(fit) <- c("cb_glm", class(fit))
  fit
}

coef.cb_glm <- function(object, ...) stats::setNames(object$estimate, object$term)

confint.cb_glm <- function(object, parm, level = 0.95, ...) {
  width <- width_of(1 - level) * object$standard_error
  ends <- cbind(object$estimate - width, object$estimate + width)
  dimnames(ends) <- list(object$term, paste(format(100 * c((1 - level) / 2, (1 + level) / 2), trim = TRUE), "%"))
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

# Returns the response and the regressors of `income ~ age + C(region) + sex[Female]`, a formula or a text.
formula_parts <- function(formula) {
  if (is.character(formula)) {
    sides <- regmatches(formula, regexpr("~", formula), invert = TRUE)[[1]]
    texts <- trimws(c(sides[1], strsplit(paste(sides[-1], collapse = "~"), "+", fixed = TRUE)[[1]]))
    parts <- lapply(texts, part_of_text)
    if (length(sides) < 2) parts <- list()
  } else if (inherits(formula, "formula") && length(formula) == 3) {
    added <- function(call) {
      is_sum <- is.call(call) && identical(call[[1]], quote(`+`)) && length(call) == 3
      if (is_sum) c(added(call[[2]]), added(call[[3]])) else list(call)
    }
    parts <- lapply(c(list(formula[[2]]), added(formula[[3]])), part_of_call)
  } else {
    parts <- list()
  }
  if (length(parts) < 2 || any(vapply(parts, is.null, NA)) || anyDuplicated(parts)) {
    refuse(
      "This is no formula of a regression from counted pairs.",
      "Write it as response ~ column + column; C(column) for a coefficient of each label, column[\"label\"] for one."
    )
  }
  parts
}

# What a formula says of a column: "C" gives each of its labels a coefficient, "log" and "square" are of its numbers;
# a label alone may have one.
formula_part <- function(column, of = "", label = NULL) list(column = column, of = of, label = label)

part_of_text <- function(text) {
  if (!nzchar(text)) return(NULL)
  of_all <- "^(C|log|square)\\((.+)\\)$"
  of_one <- "^([^][]+)\\[(.+)\\]$"
  if (grepl(of_all, text)) return(formula_part(trimws(sub(of_all, "\\2", text)), sub(of_all, "\\1", text)))
  if (grepl(of_one, text)) return(formula_part(trimws(sub(of_one, "\\1", text)), label = sub(of_one, "\\2", text)))
  formula_part(text)
}

part_of_call <- function(call) {
  is_name <- function(one) is.symbol(one) || (is.character(one) && length(one) == 1)
  if (is_name(call)) return(formula_part(as.character(call)))
  if (!is.call(call) || !is.symbol(call[[1]])) return(NULL)
  kind <- as.character(call[[1]])
  if (kind %in% c("C", "factor", "log", "square") && length(call) == 2 && is_name(call[[2]])) {
    return(formula_part(as.character(call[[2]]), sub("factor", "C", kind)))
  }
  if (kind == "[" && length(call) == 3 && is_name(call[[2]]) && (is_name(call[[3]]) || is.numeric(call[[3]]))) {
    return(formula_part(as.character(call[[2]]), label = as.character(call[[3]])))
  }
  NULL
}

# Returns the finest labels by which all pairs of some columns were counted: each column's level.
levels_for <- function(release, names) {
  levels <- lapply(release$columns[names], function(column) column$level)
  names <- names[order(match(names, names(release$columns)))]
  if (length(names) < 2) return(levels)
  for (two in utils::combn(names, 2, simplify = FALSE)) {
    able <- Filter(function(pair) setequal(pair$columns, two), release$pairs)
    if (!length(able)) {
      refuse(
        sprintf("%s weren't counted together.", paste(two, collapse = " and ")),
        "Leave one of them out, or work with completed copies: cb_complete()."
      )
    }
    finest <- able[[which.max(vapply(able, function(pair) length(pair$counts), 0L))]]
    for (axis in 1:2) {
      name <- finest$columns[axis]
      levels[[name]] <- max(levels[[name]], finest$levels[axis])
    }
  }
  levels
}

# A column of the design, or the response: its name, whose labels have its values (NULL: the constant), at which level.
design_column <- function(name, column, level, values) {
  list(name = name, column = column, level = level, values = values)
}

# Returns the columns of the design that a part of a formula stands for; of categories all but the first label.
terms_of <- function(release, part, levels) {
  column <- column_of(release, part$column)
  level <- levels[[column$name]]
  labels <- labels_at(column, level)
  of_label <- function(label) {
    design_column(sprintf("%s[%s]", column$name, label), column$name, level, (labels == label) * 1)
  }
  if (!is.null(part$label)) {
    if (!part$label %in% labels) {
      refuse(
        sprintf("'%s' is no label of column '%s' in this regression.", part$label, column$name),
        sprintf("There are %s.", paste(labels, collapse = ", "))
      )
    }
    return(list(of_label(part$label)))
  }
  plain <- !nzchar(part$of)
  if (part$of %in% c("log", "square") || (plain && !is.null(edges_or_null(column, level)))) {
    name <- if (plain) column$name else sprintf("%s(%s)", part$of, column$name)
    return(list(design_column(name, column$name, level, numbers_of(release, part, column, level))))
  }
  lapply(labels[-(1:2)], of_label)
}

# Returns what a formula takes of the numbers of a column's labels. Numbers beyond the declared range count as its ends;
# what is no number counts as the mean of the others, by the margin: as 0 its noise would make all coefficients worse.
numbers_of <- function(release, part, column, level) {
  values <- edges_of(column, level)$middle
  capped <- labels_at(column, level)[!is.na(caps_of(column, level))]
  if (length(capped)) {
    remedy <- sprintf("Write C(%s) for a coefficient of each label, or %s[...] for one.", column$name, column$name)
    refuse_cap(column, capped[1], remedy)
  }
  ends <- label_bounds(labels_at(column, level))
  values <- ifelse(is.na(values), ifelse(is.na(ends$lower), ends$upper, ends$lower), values)
  if (part$of == "log") {
    if (any(values <= 0, na.rm = TRUE)) {
      refuse(sprintf("Labels of column '%s' have middles at 0 or below, which have no logarithm.", column$name))
    }
    values <- log(values)
  }
  if (part$of == "square") values <- values^2
  known <- !is.na(values)
  counts <- sums_by(release$margins[[column$name]], labels_to(column, level), length(values))[known]
  weights <- pmax(counts, 0) + LEAST_COUNT
  ifelse(known, values, sum(weights * values[known]) / sum(weights))
}

# Returns the sum over all records of the product of two terms, as a linear function of noisy counts.
moment_of <- function(release, combined, one, other) {
  values_at <- function(term, level) term$values[release$columns[[term$column]]$hierarchy$up(level, term$level)]
  of_column <- function(name, values) linear_count(mains = stats::setNames(list(values), name))
  if (is.null(one$column) && is.null(other$column)) return(linear_count(records = 1))
  if (is.null(one$column) || is.null(other$column)) {
    alone <- if (is.null(one$column)) other else one
    return(of_column(alone$column, values_at(alone, release$columns[[alone$column]]$level)))
  }
  if (one$column == other$column) {
    level <- release$columns[[one$column]]$level
    return(of_column(one$column, values_at(one, level) * values_at(other, level)))
  }
  found <- list()
  for (number in seq_along(release$pairs)) {
    pair <- release$pairs[[number]]
    if (!setequal(pair$columns, c(one$column, other$column))) next
    terms <- if (pair$columns[1] == one$column) list(one, other) else list(other, one)
    if (all(pair$levels <= c(terms[[1]]$level, terms[[2]]$level))) {
      cells <- outer(values_at(terms[[1]], pair$levels[1]), values_at(terms[[2]], pair$levels[2]))
      found <- c(found, list(linear_of_pair(combined, number, cells)))
    }
  }
  narrowest(combined, found)
}

# Returns whether the noise of what a term has besides the others is small beside it. With c the term's column of the
# inverse of X'X over its own entry, c'X'Xc is the sum of squares of what is left of the term.
is_well_known <- function(column, products, combined) {
  if (!all(is.finite(column)) || !any(column != 0)) return(FALSE)
  left <- linear_count()
  for (one in seq_along(column)) {
    for (other in seq_along(column)) left <- linear_plus(left, products[[one]][[other]], column[one] * column[other])
  }
  value <- linear_value(combined, left)
  value > 0 && linear_error(combined, left) <= MOST_NOISE * value
}
