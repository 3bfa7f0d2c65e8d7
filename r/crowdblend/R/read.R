# Reads a release: rows by stages, margins, pairs, and how rows count.

MOST_LABELS <- 2^20
TABLE_FORMS <- c("microdata", "counts", "histogram", "synthetic")
FIGURES <- c("stage", "weight", "count")

cb_read <- function(folder, public_key = NULL, hierarchies = list()) {
  path <- certificate_path(folder)
  check <- cb_verify(path, public_key)
  if (!check$ok) {
    refuse(
      sprintf("The release at '%s' does not verify: %s.", dirname(path), paste(check$findings, collapse = "; ")),
      "Get it again from its publisher."
    )
  }
  certificate <- parsed_certificate(certificate_text(path))
  release <- release_of(certificate, dirname(path), hierarchies)
  view <- members_view(certificate)
  if (!is.null(view)) release$members <- release_of(view, dirname(path), hierarchies, stem = "members")
  if (!are_margins_of_mechanism(certificate)) {
    refuse("The margins are not those of the release's mechanism and its map.", "Check it with `crowdblend verify`.")
  }
  release
}

# Returns whether as many margins and pairs are named as are paid for, of known columns, and a file with them.
are_margins_of_mechanism <- function(certificate) {
  paid <- function(name) {
    number <- certificate$mechanism[[name]]
    if (is.null(number)) 0 else number
  }
  stated <- certificate$published[["margins"]]
  files <- intersect(c("margins.parquet", "margins.csv"), names(certificate$files))
  if (paid("margins") == 0) return(!length(files) && is.null(stated))
  known <- vapply(certificate$map$columns, function(one) one$column, "")
  chosen <- lapply(certificate$published[["pairs"]], function(pair) pair$columns)
  length(files) == 1 && length(stated$columns) == paid("margins") && length(chosen) == paid("pairs") &&
    all(unlist(c(stated$columns, chosen)) %in% known)
}

# Returns the certificate as if its release had the table of members alone; NULL where there is no such table.
members_view <- function(certificate) {
  published <- certificate$published$members
  if (is.null(published)) return(NULL)
  stated <- certificate$mechanism
  certificate$mechanism <- list(
    kind = "deletion-release/1", k = stated$k, stages = stated$member_stages, noise = "gaussian",
    scale = stated$member_scale, width = stated$member_width
  )
  certificate$map <- published$map
  certificate$published <- published[setdiff(names(published), "map")]
  certificate
}

print.cb_release <- function(x, ...) {
  certificate <- x$certificate
  cat("Release ", certificate$release_id, ", epsilon ", certificate$guarantee$epsilon, ", delta ",
    certificate$guarantee$delta, "\n", sep = "")
  cat("Columns: ", paste(names(x$columns), collapse = ", "), "\n", sep = "")
  pairs <- vapply(x$pairs, function(pair) paste(pair$columns, collapse = " and "), "")
  if (length(pairs)) cat("Counted together: ", paste(unique(pairs), collapse = "; "), "\n", sep = "")
  if (!length(x$margins)) cat("No margins were counted: counts are made of rows.\n")
  if (!is.null(x$members)) {
    cat("Members of its units are in a table of their own, with the columns ",
      paste(names(x$members$columns), collapse = ", "), "\n", sep = "")
  }
  invisible(x)
}

labels.cb_release <- function(object, column, ...) {
  own <- column_of(object, column)
  labels_at(own, own$level)
}

column_of <- function(release, name) {
  found <- if (length(name) == 1) release$columns[[as.character(name)]]
  if (is.null(found)) {
    refuse(
      sprintf("There is no column '%s' whose labels are known.", paste(name, collapse = "', '")),
      sprintf("There are %s.", paste(names(release$columns), collapse = ", "))
    )
  }
  found
}

release_of <- function(certificate, folder, given, stem = "data") {
  reading <- reading_of(certificate)
  columns <- list()
  for (stated in certificate$map$columns) {
    described <- stated$hierarchy
    hierarchy <- if (is.null(described)) given_hierarchy(stated, given) else described_hierarchy(described)
    if (!is.null(hierarchy) && hierarchy$size(stated$level) <= MOST_LABELS) {
      columns[[stated$column]] <- list(
        name = stated$column, hierarchy = hierarchy, level = stated$level, size = hierarchy$size(stated$level)
      )
    }
  }
  counted <- counted_tables(certificate, folder, columns)
  release <- c(
    list(
      certificate = certificate, columns = columns, reading = reading,
      rows = row_tables(certificate, folder, columns, if (is.null(reading$rate)) 1 else 1 / reading$rate, stem),
      whole = length(columns) == length(certificate$map$columns) && is.null(certificate$published$blocks)
    ),
    counted
  )
  # What is computed of a release once is kept.
  release$kept <- new.env(parent = emptyenv())
  structure(release, class = "cb_release")
}

# Returns the hierarchy that the reader gave for a column: a file or a matrix without a header, from values to `*`.
given_hierarchy <- function(stated, given) {
  own <- given[[stated$column]]
  if (is.null(own)) return(NULL)
  if (is.character(own) && length(own) == 1 && file.exists(own)) {
    first <- readLines(own, 1, encoding = "UTF-8", warn = FALSE)
    own <- utils::read.table(own,
      sep = if (grepl(";", first)) ";" else ",", quote = "\"", colClasses = "character", comment.char = "",
      na.strings = character(), encoding = "UTF-8" # not fileEncoding, which loses letters that the locale doesn't have
    )
    own[1, 1] <- sub("^\ufeff", "", own[1, 1])
  }
  hierarchy <- value_hierarchy(as.matrix(own))
  rows <- apply(hierarchy$rows, 1, function(row) paste0("[", paste(json_string(row), collapse = ","), "]"))
  text <- sprintf("\"kind\":\"values/1\",\"levels\":%d,\"rows\":[%s]}", hierarchy$levels, paste(rows, collapse = ","))
  digests <- vapply(c("{", "{\"fold_case\":true,"), function(begin) sha256(charToRaw(paste0(begin, text))), "")
  if (!stated$hierarchy_sha256 %in% digests) {
    refuse(
      sprintf("The hierarchy that was given for column '%s' is not the one that the certificate names.", stated$column),
      "Ask the publisher for it."
    )
  }
  hierarchy
}

json_string <- function(texts) {
  texts <- gsub("\"", "\\\"", gsub("\\", "\\\\", texts, fixed = TRUE), fixed = TRUE)
  ascii_json(paste0("\"", gsub("\t", "\\t", texts, fixed = TRUE), "\""))
}

# Returns how rows count: the form, the sample's rate, k, epsilon of noise on counts, and E[Z] and Var[Z] of what is
# deleted of each group.
reading_of <- function(certificate) {
  form <- certificate$published$form
  stated <- certificate$mechanism
  own_rates <- !is.null(certificate$inclusion) || !is.null(stated$lowest_rate)
  if (!form %in% TABLE_FORMS || own_rates) {
    what <- if (own_rates) "rows of records with rates of their own" else paste(form, "tables")
    refuse(sprintf("This release has %s, which don't count records by labels.", what))
  }
  if (grepl("deletion-release/1$", stated$kind)) {
    moments <- deletion_moments(stated)
    return(list(form = form, k = stated$k, expected = moments[1], variance = moments[2], are_records = TRUE))
  }
  rate <- stated$sampling_rate
  noise <- if (form == "histogram") stated$epsilon
  list(
    form = form, rate = if (!is.null(rate) && rate != "whole" && form != "synthetic") as.numeric(rate), k = stated$k,
    noise = if (!is.null(noise)) as.numeric(noise), expected = 0, variance = 0,
    are_records = is.null(noise) && form != "synthetic"
  )
}

# Returns E[Z] and Var[Z] of the number of records that a group loses.
#
# The optimal law: Desfontaines, Voss, Gipson, Mandayam, arXiv:2006.03684, Theorem 1. The release draws by whole weights
# of 2^-128, from which these doubles differ by far less than they can tell.
deletion_moments <- function(stated) {
  number <- function(name) as.numeric(stated[[name]])
  if (stated$noise == "optimal") {
    growth <- exp(number("epsilon"))
    delta <- number("delta")
    # Of what lies above the middle the complement is followed, whose digits would be lost beside 1.
    below <- 0
    above <- 1
    while (below[length(below)] < 1 && above[length(above)] > 0) {
      low <- below[length(below)]
      high <- above[length(above)]
      up <- growth * low + delta
      left <- (high - delta) / growth
      rising <- up <= 1 - left
      below <- c(below, if (rising) up else 1 - left)
      above <- c(above, if (rising) max(1 - up, 0) else max(left, 0))
    }
    # E[Z] is the sum of Pr[Z > z], and E[Z(Z + 1)] that of 2(z + 1) Pr[Z > z].
    beyond <- above[-1]
    mean <- sum(beyond)
    return(c(mean, sum(2 * seq_along(beyond) * beyond) - mean - mean^2))
  }
  width <- number("width")
  distance <- -width:width
  exponent <- switch(stated$noise,
    geometric = -number("epsilon") * abs(distance),
    gaussian = -distance^2 / (2 * number("scale")^2),
    refuse("Records were deleted by a law that this version doesn't know.", "Update the package.")
  )
  c(width, sum(distance^2 * exp(exponent)) / sum(exp(exponent)))
}

file_of <- function(certificate, stem) intersect(paste0(stem, c(".parquet", ".csv")), names(certificate$files))[1]

# Returns a table whose columns of labels are texts.
read_table <- function(path) {
  if (grepl("\\.parquet$", path)) {
    if (requireNamespace("nanoparquet", quietly = TRUE)) return(as.data.frame(nanoparquet::read_parquet(path)))
    if (requireNamespace("arrow", quietly = TRUE)) return(as.data.frame(arrow::read_parquet(path)))
    refuse(
      sprintf("'%s' is Parquet, which R reads with a package that isn't there.", path),
      "Install one, as by install.packages(\"nanoparquet\"), or ask for the release as CSV."
    )
  }
  utils::read.csv(path,
    colClasses = "character", check.names = FALSE, na.strings = character(), encoding = "UTF-8", comment.char = ""
  )
}

row_tables <- function(certificate, folder, columns, weight_of_row, stem) {
  published <- certificate$published
  first <- list()
  for (stated in certificate$map$columns) first[[stated$column]] <- stated$level
  blocks <- if (is.null(published$blocks)) list(c(list(name = ""), published["stages"])) else published$blocks
  tables <- lapply(blocks, function(block) {
    file <- file_of(certificate, if (nzchar(block$name)) paste0(stem, "-", block$name) else stem)
    if (is.na(file)) return(NULL)
    own <- if (nzchar(block$name)) intersect(names(columns), unlist(block$columns)) else names(columns)
    levels <- lapply(block$stages, function(stage) stage$levels)
    figures <- setdiff(FIGURES, names(first))
    if (!length(levels)) levels <- list(first)
    table <- row_table(read_table(file.path(folder, file)), columns[own], figures, levels, weight_of_row)
    c(table, name = block$name)
  })
  tables[!vapply(tables, is.null, NA)]
}

row_table <- function(frame, columns, figures, levels, weight_of_row) {
  names <- names(columns)
  there <- intersect(figures, names(frame))
  if (!all(names %in% names(frame))) refuse("The table of rows lacks a column that the certificate names.")
  for (name in names) frame[[name]] <- enc2utf8(as.character(frame[[name]]))
  for (name in there) frame[[name]] <- as.numeric(frame[[name]])
  keys <- frame[c(names, setdiff(there, "count"))]
  group <- rep(1, nrow(frame))
  for (key in keys) {
    group <- group * nrow(frame) + match(key, unique(key))
    group <- match(group, unique(group))
  }
  first <- !duplicated(group)
  times <- if ("count" %in% there) frame$count else rep(1, nrow(frame))
  counts <- if (nrow(frame)) sums_by(times, group, max(group)) else numeric()
  groups <- frame[first, , drop = FALSE]
  stages <- lapply(seq_along(levels), function(number) {
    kept <- if ("stage" %in% there) groups$stage == number else rep(TRUE, nrow(groups))
    at <- unlist(levels[[number]][names])
    codes <- lapply(stats::setNames(nm = names), function(name) {
      own <- match(groups[[name]][kept], labels_at(columns[[name]], at[[name]]))
      if (anyNA(own)) refuse("The table of rows has labels that the certificate's hierarchies don't have.")
      own
    })
    weights <- if ("weight" %in% there) groups$weight[kept] else weight_of_row
    list(levels = at, codes = codes, counts = counts[kept], mass = counts[kept] * weights)
  })
  if (!"weight" %in% there) frame$weight <- rep(weight_of_row, nrow(frame))
  list(columns = names, stages = stages, frame = frame)
}

# Returns the sums of amounts by code, 0 of codes that there aren't.
sums_by <- function(amounts, codes, size) {
  result <- numeric(size)
  if (length(codes)) {
    found <- rowsum(as.numeric(amounts), codes, reorder = FALSE)
    result[as.integer(rownames(found))] <- found
  }
  result
}

# Returns margins of all columns or of none, their standard error, pairs, and a total that was counted by itself.
counted_tables <- function(certificate, folder, columns) {
  stated <- certificate$published$margins
  file <- file_of(certificate, "margins")
  none <- list(margins = list(), deviation = 0, pairs = list(), total = NULL)
  if (is.null(stated) || is.na(file)) return(none)
  table <- read_table(file.path(folder, file))
  counts <- as.numeric(table$count)
  deviation <- stated$standard_error
  if (!any(lengths(stated$columns) > 0)) return(utils::modifyList(none, list(total = c(counts[1], deviation))))
  levels <- list()
  for (one in certificate$map$columns) levels[[one$column]] <- one$level
  if (length(columns) < length(levels)) {
    refuse(
      "The certificate lacks the hierarchy of a column, without which its margins can't be told apart.",
      "Give it as `hierarchies`; the publisher has it."
    )
  }
  errors <- if (is.null(table$standard_error)) rep(deviation, length(counts)) else as.numeric(table$standard_error)
  # Tables stand one after the other, each with all its cells in the order of its labels.
  tables <- lapply(stated$columns, function(names) {
    list(columns = unlist(names), levels = unlist(levels[unlist(names)]))
  })
  tables <- c(tables, lapply(certificate$published$pairs, function(pair) {
    list(columns = unlist(pair$columns), levels = unlist(pair$levels))
  }))
  margins <- pairs <- list()
  begin <- 0
  for (own in tables) {
    shape <- mapply(function(name, level) columns[[name]]$hierarchy$size(level), own$columns, own$levels)
    cells <- begin + seq_len(prod(shape))
    labels <- Map(function(name, level) labels_at(columns[[name]], level), own$columns, own$levels)
    told <- table[cells[c(1, length(cells))], c("label", if (length(shape) > 1) "second_label"), drop = FALSE]
    ends <- vapply(labels, function(own) own[c(1, length(own))], character(2))
    if (begin + prod(shape) > length(counts) || !identical(unname(as.matrix(told)), unname(ends))) {
      refuse("The cells of the margins stand in another order than the certificate tells.")
    }
    if (length(shape) == 1) {
      margins[[own$columns]] <- counts[cells]
    } else {
      pairs <- c(pairs, list(list(
        columns = own$columns, levels = unname(own$levels), deviation = errors[cells[1]],
        labels = Map(function(name, level) labels_to(columns[[name]], level), own$columns, own$levels),
        counts = matrix(counts[cells], shape[1], shape[2], byrow = TRUE)
      )))
    }
    begin <- begin + prod(shape)
  }
  if (begin != length(counts)) refuse("The margins have other cells than the certificate names.")
  list(margins = margins[names(columns)], deviation = deviation, pairs = pairs, total = NULL)
}

cb_rows <- function(release, table = 1) {
  names <- vapply(release$rows, function(one) one$name, "")
  at <- if (is.character(table)) match(table, names) else table
  if (length(at) != 1 || !at %in% seq_along(names)) {
    known <- paste(sprintf("'%s'", names), collapse = ", ")
    refuse("There is no such table of rows.", sprintf("There are %d: %s.", length(names), known))
  }
  release$rows[[at]]$frame
}
