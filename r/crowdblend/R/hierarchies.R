# Hierarchies as a certificate describes them. Levels count from 0, as they do there; codes count from 1, and the first
# is `*`. A hierarchy is a list of functions: size(level), labels(level), and up(level, to), the code at level `to` of
# each code of `level`. `kind` is "values" or "numbers"; `whole` says whether numbers have no decimals.

NUMBER <- "^\\s*[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?\\s*$"
MOST_DIGITS <- 2^53

# Signals a refusal: what is wrong, and what to do.
refuse <- function(what, remedy = "") {
  message <- trimws(paste(what, remedy))
  stop(structure(class = c("cb_refusal", "error", "condition"), list(message = message, call = NULL)))
}

# Returns the hierarchy that a certificate describes.
described_hierarchy <- function(description) {
  switch(description$kind,
    "values/1" = value_hierarchy(rows_of(description)),
    "dates/1" = value_hierarchy(day_rows(description)),
    "interval/1" = {
      numbers <- lapply(description[c("lower", "upper", "widths")], as.numeric)
      if (any(abs(unlist(numbers)) > MOST_DIGITS)) refuse("A column has larger numbers than R tells apart.")
      number_hierarchy(numbers$lower, numbers$upper, numbers$widths)
    },
    "decimal-interval/1" = {
      texts <- c(description$lower, description$upper, unlist(description$widths))
      places <- max(1, nchar(sub("^[^.]*\\.?", "", texts)))
      units <- round(as.numeric(texts) * 10^places)
      number_hierarchy(units[1], units[2], units[-(1:2)], places = places)
    },
    "weight-classes/1" = weight_hierarchy(unlist(description$bounds)),
    refuse("A column has a kind of hierarchy that this version doesn't know.", "Update the package.")
  )
}

rows_of <- function(description) {
  if (!length(description$rows)) return(matrix("*", 1, description$levels))
  matrix(unlist(description$rows), ncol = description$levels, byrow = TRUE)
}

day_rows <- function(description) {
  days <- format(seq(as.Date(description$from), as.Date(description$to), by = "day"))
  part <- function(level) {
    switch(level,
      month = substr(days, 1, 7),
      quarter = paste0(substr(days, 1, 4), "-Q", (as.integer(substr(days, 6, 7)) + 2L) %/% 3L),
      year = substr(days, 1, 4),
      decade = paste0(substr(days, 1, 3), "0s"),
      refuse("A column of days has a level that this version doesn't know.", "Update the package.")
    )
  }
  do.call(cbind, c(list(days), lapply(unlist(description$levels), part), list("*")))
}

# Returns a hierarchy of listed values.
#   rows: a matrix of a row for each value, from the value itself to its most general label
value_hierarchy <- function(rows) {
  rows <- enc2utf8(rows)
  rows <- rows[rows[, 1] != "*", , drop = FALSE]
  # Labels stand in the order of their bytes, as they do in the release's files.
  rows <- rows[order(rows[, 1], method = "radix"), , drop = FALSE]
  labels <- lapply(seq_len(ncol(rows)), function(level) {
    c("*", sort(setdiff(unique(rows[, level]), "*"), method = "radix"))
  })
  codes <- lapply(seq_along(labels), function(level) c(1L, match(rows[, level], labels[[level]])))
  list(
    kind = "values", whole = FALSE, levels = length(labels), rows = rows,
    size = function(level) length(labels[[level + 1]]),
    labels = function(level) labels[[level + 1]],
    up = function(level, to) {
      became <- rep(1L, length(labels[[level + 1]]))
      became[codes[[level + 1]]] <- codes[[to + 1]]
      became
    }
  )
}

# Returns a hierarchy of numbers in intervals of equal widths: bucket, bottom, intervals, top.
#   places: decimals of the unit in which the other numbers are; NULL where they are whole
number_hierarchy <- function(lower, upper, widths, places = NULL) {
  width <- function(level) if (level == 0) 1 else if (level <= length(widths)) widths[level]
  shown <- function(units) {
    if (is.null(places)) sprintf("%.0f", units) else sprintf("%.*f", places, units / 10^places)
  }
  size <- function(level) {
    own <- width(level)
    if (is.null(own)) 1 else 3 + ceiling((upper - lower) / own)
  }
  list(
    kind = "numbers", whole = is.null(places), levels = length(widths) + 2, size = size,
    labels = function(level) {
      own <- width(level)
      if (is.null(own)) return("*")
      starts <- lower + (seq_len(size(level) - 3) - 1) * own
      alone <- level == 0 && is.null(places)
      inner <- if (alone) shown(starts) else paste0("[", shown(starts), ", ", shown(pmin(starts + own, upper)), ")")
      c("*", paste("<", shown(lower)), inner, paste(">=", shown(upper)))
    },
    up = function(level, to) {
      fine <- width(level)
      coarse <- width(to)
      codes <- seq_len(size(level)) - 1
      if (is.null(fine) || is.null(coarse)) return(rep(1L, length(codes)))
      merged <- floor((codes - 2) / (coarse / fine)) + 2 # the bottom code stays what it is
      merged[1] <- 0
      merged[length(merged)] <- size(to) - 1
      as.integer(merged + 1)
    }
  )
}

# Returns a hierarchy of survey weights in classes, of which neighbours are merged two by two.
weight_hierarchy <- function(bounds) {
  classes <- length(bounds) - 1
  levels <- ceiling(log2(classes)) + 1
  top <- levels - 1
  size <- function(level) if (level == top) 1 else 1 + ceiling(classes / 2^level)
  list(
    kind = "numbers", whole = FALSE, levels = levels, size = size,
    labels = function(level) {
      if (level == top) return("*")
      begin <- (seq_len(size(level) - 1) - 1) * 2^level
      end <- pmin(begin + 2^level, classes)
      own <- paste0("[", bounds[begin + 1], ", ", bounds[end + 1], ")")
      own[end == classes] <- paste(">=", bounds[begin[end == classes] + 1])
      own[begin == 0] <- paste("<", bounds[end[1] + 1])
      c("*", own)
    },
    up = function(level, to) {
      codes <- seq_len(size(level)) - 1
      if (to == top || level == top) return(rep(1L, length(codes)))
      as.integer(ifelse(codes == 0, 0, (codes - 1) %/% 2^(to - level) + 1) + 1)
    }
  )
}

# Returns the numbers that labels begin with and end before, NA where there is none: of "[0, 5)", "< 0", ">= 5", "7".
label_bounds <- function(labels) {
  pattern <- "^\\[([^,]+), (.+)\\)$"
  pick <- function(pattern, part) {
    found <- grepl(pattern, labels)
    result <- rep(NA_real_, length(labels))
    text <- sub(pattern, part, labels[found])
    result[found] <- suppressWarnings(as.numeric(ifelse(grepl(NUMBER, text), text, NA)))
    result
  }
  first <- function(...) Reduce(function(one, other) ifelse(is.na(one), other, one), list(...))
  single <- pick("^(-?[0-9]+(\\.[0-9]+)?)$", "\\1")
  places <- nchar(sub("^[^.]*\\.?", "", labels))
  list(
    lower = first(pick(pattern, "\\1"), pick("^>= (.+)$", "\\1"), single),
    upper = first(pick(pattern, "\\2"), pick("^< (.+)$", "\\1"), round(single + 10^-places, pmin(places, 15)))
  )
}

# Returns the numbers that the labels of a level stand for, NA where a label has none; NULL where they stand for none.
edges_or_null <- function(column, level) {
  labels <- column$hierarchy$labels(level)
  if (column$hierarchy$kind == "values") {
    numbers <- as.numeric(ifelse(grepl(NUMBER, labels), labels, NA))
    ends <- list(lower = numbers, upper = numbers)
  } else {
    ends <- label_bounds(labels)
    if (column$hierarchy$whole) ends$upper <- ends$upper - 1
    open <- is.na(ends$lower) | is.na(ends$upper)
    ends$lower[open] <- ends$upper[open] <- NA
  }
  if (all(is.na(ends$lower))) return(NULL)
  ends$middle <- (ends$lower + ends$upper) / 2
  ends$known <- !is.na(ends$lower)
  ends
}

edges_of <- function(column, level) {
  ends <- edges_or_null(column, level)
  if (is.null(ends)) {
    refuse(
      sprintf("The labels of column '%s' stand for no numbers.", column$name), "Ask for shares of its labels instead."
    )
  }
  ends
}

labels_at <- function(column, level) column$hierarchy$labels(level)

# Returns the label at a level of each of a column's finest labels.
labels_to <- function(column, level) column$hierarchy$up(column$level, level)
