# Which labels a researcher means: labels, values and ranges of numbers, as sets of a column's finest labels. A
# selection is a list of logical vectors by column.

cb_range <- function(lower, upper) structure(list(lower = lower, upper = upper), class = "cb_range")

selection_of <- function(release, where) {
  if (is.null(where)) return(list())
  if (!is.list(where) || (length(where) && is.null(names(where))) || any(names(where) == "")) {
    refuse("A condition is a list of columns, as list(sex = \"Female\", age = cb_range(20, 40)).")
  }
  found <- list()
  for (name in names(where)) {
    mask <- mask_of(column_of(release, name), where[[name]])
    if (!all(mask)) found[[name]] <- mask
  }
  found
}

mask_of <- function(column, asked) {
  if (inherits(asked, "cb_range")) return(mask_between(column, "this range", asked$lower, asked$upper))
  if (is.factor(asked)) asked <- as.character(asked)
  if (length(asked) == 1 && !is.list(asked)) return(mask_of_label(column, asked))
  Reduce(`|`, lapply(asked, function(one) mask_of(column, one)), rep(FALSE, column$size))
}

# Returns the finest labels below a label of any level, the finest level that has it; or those of an interval.
mask_of_label <- function(column, asked) {
  numeric <- is.numeric(asked)
  text <- enc2utf8(if (numeric) format(asked, scientific = FALSE, trim = TRUE, digits = 15) else as.character(asked))
  for (level in column$level:(column$hierarchy$levels - 1)) {
    labels <- labels_at(column, level)
    if (text %in% labels) return(labels_to(column, level) == match(text, labels))
  }
  if (column$hierarchy$kind != "values") {
    ends <- label_bounds(text)
    if (!is.na(ends$lower) || !is.na(ends$upper)) {
      lower <- if (is.na(ends$lower)) -Inf else ends$lower
      return(mask_between(column, text, lower, if (is.na(ends$upper)) Inf else ends$upper))
    }
  }
  refuse_label(column, text)
}

# Returns the labels whose numbers are at least the lower and below the upper; none may lie across an end.
mask_between <- function(column, text, lower, upper) {
  if (column$hierarchy$kind == "values") {
    numbers <- edges_of(column, column$level)$lower
    least <- caps_of(column, column$level)
    capped <- !is.na(least) & lower <= least & upper == Inf
    across <- which(!is.na(least) & !capped & upper > least)
    if (length(across)) {
      remedy <- "%s reaches into it: ask for several labels, or for a range that ends at %s."
      remedy <- sprintf(remedy, text, least[across[1]])
      refuse_cap(column, labels_at(column, column$level)[across[1]], sub("^t", "T", remedy))
    }
    return(capped | (!is.na(numbers) & numbers >= lower & numbers < upper))
  }
  ends <- label_bounds(labels_at(column, column$level))
  known <- !is.na(ends$lower) | !is.na(ends$upper)
  first <- ifelse(is.na(ends$lower), -Inf, ends$lower)
  beyond <- ifelse(is.na(ends$upper), Inf, ends$upper)
  inside <- lower <= first & beyond <= upper
  if (any(known & !inside & !(beyond <= lower | first >= upper))) refuse_label(column, text)
  known & inside
}

# Refuses the mean or quantile of numbers one of whose labels, such as "4 or more", has no largest one.
require_no_cap <- function(release, name, where) {
  column <- release$columns[[name]]
  mask <- selection_of(release, where)[[name]]
  capped <- !is.na(caps_of(column, column$level)) & (if (is.null(mask)) TRUE else mask)
  if (any(capped)) {
    remedy <- "Ask for counts or shares of its labels, or by `where` for those below it."
    refuse_cap(column, labels_at(column, column$level)[capped][1], remedy)
  }
}

CAPPED <- "^(>= ?-?[0-9]+(\\.[0-9]+)?|-?[0-9]+(\\.[0-9]+)?(\\+| (or|and) (more|over|older|above)))$"

# Returns the least number of each listed label that has no largest one, such as "4 or more"; NA of others. The labels
# beyond a range of intervals are others: what is there counts as outside of the range.
caps_of <- function(column, level) {
  labels <- labels_at(column, level)
  capped <- column$hierarchy$kind == "values" & grepl(CAPPED, labels)
  as.numeric(ifelse(capped, gsub("[^-0-9.]", "", labels), NA))
}

refuse_cap <- function(column, label, remedy) {
  refuse(sprintf("Column '%s' has the label '%s', which has no largest number.", column$name, label), remedy)
}

refuse_label <- function(column, text) {
  labels <- labels_at(column, column$level)
  shown <- paste(c(utils::head(labels, 6), if (length(labels) > 6) "..."), collapse = ", ")
  refuse(
    sprintf("'%s' is no label of column '%s', nor made of its labels: it can't be counted finer.", text, column$name),
    sprintf("The finest labels are %s", shown)
  )
}

both_of <- function(one, other) {
  for (name in names(other)) {
    one[[name]] <- if (is.null(one[[name]])) other[[name]] else one[[name]] & other[[name]]
  }
  one
}

# Returns the coarser labels that a set of finer ones is made of; NULL where it has parts of some.
merged_mask <- function(mask, labels, size) {
  inside <- tabulate(labels[mask], size)
  if (any(inside > 0 & inside < tabulate(labels, size))) NULL else inside > 0
}
