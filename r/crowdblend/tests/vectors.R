# Every answer is the one that Python's crowdblend.analysis gives: labels, sources, notes, and numbers to 1e-9.

library(crowdblend)

releases <- system.file("extdata", package = "crowdblend")
vectors <- jsonlite::fromJSON("vectors.json", simplifyVector = FALSE)

condition <- function(given) {
  lapply(given, function(one) {
    if (is.list(one) && !is.null(one$range)) return(cb_range(one$range[[1]], one$range[[2]]))
    if (is.list(one)) unlist(one) else one
  })
}

# The numbers x <- 16807 x mod (2^31 - 1), which Python computes alike.
state <- 1
uniform <- function(number) {
  found <- numeric(number)
  for (place in seq_len(number)) {
    state <<- (16807 * state) %% (2^31 - 1)
    found[place] <- state / (2^31 - 1)
  }
  found
}

copy_counts <- function(release) {
  state <<- 1
  # Groups of rows in the order of their labels: a reader may have them in any other.
  release$rows <- lapply(release$rows, function(table) {
    table$stages <- lapply(table$stages, function(stage) {
      at <- do.call(order, unname(c(stage$codes, list(stage$counts))))
      stage$codes <- lapply(stage$codes, `[`, at)
      stage[c("counts", "mass")] <- lapply(stage[c("counts", "mass")], `[`, at)
      stage
    })
    table
  })
  codes <- crowdblend:::completed_codes(release, uniform, function(number) qnorm(uniform(number)))
  list(
    size = length(codes[[1]]),
    sums = vapply(codes, function(own) sum((own - 1) * seq_along(own)), 0),
    counts = unlist(Map(function(own, column) tabulate(own, column$size), codes, release$columns))
  )
}

answer <- function(release, question) {
  if (!is.null(question$members)) release <- release$members
  where <- condition(question$where)
  tryCatch(switch(question$ask,
    count = cb_count(release, where),
    share = cb_share(release, where, of = condition(question$of)),
    odds = cb_odds(
      release, where,
      of = condition(question$of), by = question$by,
      against = if (is.list(question$against)) condition(question$against) else question$against
    ),
    table = cb_table(release, question$rows, question$columns, where),
    mean = cb_mean(release, question$column, where = where, by = question$by),
    quantile = cb_quantile(release, question$column, question$q, where = where, by = question$by),
    regression = cb_glm(release, question$formula, of = question$of),
    copy = if (length(release$margins)) copy_counts(release)
  ), cb_refusal = function(refusal) NULL)
}

same <- function(mine, its) {
  its <- lapply(its, function(one) if (is.null(one)) NA else one)
  its <- unlist(its)
  if (!length(its) %in% c(1, length(mine))) return(FALSE)
  its <- rep_len(its, length(mine)) # values that are all alike stand once
  if (is.character(mine)) return(identical(as.character(mine), as.character(its)))
  mine <- unname(mine)
  mine[!is.finite(mine)] <- NA
  its <- as.numeric(its)
  identical(is.na(mine), is.na(its)) && all(abs(mine - its) <= 1e-9 * pmax(1, abs(its)), na.rm = TRUE)
}

asked <- 0
differing <- character()
for (name in names(vectors$releases)) {
  release <- cb_read(file.path(releases, name), file.path(releases, "publisher.pem"))
  for (question in vectors$releases[[name]]) {
    asked <- asked + 1
    mine <- answer(release, question)
    its <- question$answer
    alike <- vapply(names(its), function(part) same(mine[[part]], its[[part]]), NA)
    agree <- is.null(mine) == is.null(its) && all(alike)
    if (!agree) {
      question$answer <- NULL
      differing <- c(differing, paste(name, jsonlite::toJSON(question, auto_unbox = TRUE)))
    }
  }
}
for (question in vectors$rubin) {
  mine <- cb_rubin(question$estimates, question$variances)
  asked <- asked + 1
  agree <- all(vapply(names(question$answer), function(part) same(mine[[part]], question$answer[part]), NA))
  if (!agree) differing <- c(differing, "rubin")
}
# Labels of each level, and the code of each at the next one, are Python's; so is the digest of listed values.
for (known in vectors$hierarchies) {
  own <- crowdblend:::described_hierarchy(known$hierarchy)
  stopifnot(own$levels == length(known$levels))
  for (level in seq_along(known$levels) - 1) {
    its <- known$levels[[level + 1]]
    stopifnot(own$size(level) == its$size)
    if (is.null(its$labels)) next
    up <- own$up(level, min(level + 1, own$levels - 1)) - 1
    stopifnot(identical(own$labels(level), unlist(its$labels)), identical(as.integer(up), unlist(its$up)))
  }
  if (known$hierarchy$kind == "values/1" && length(known$hierarchy$rows)) {
    rows <- crowdblend:::rows_of(known$hierarchy)
    stated <- list(column = "c", hierarchy_sha256 = known$digest)
    file <- tempfile()
    quoted <- apply(rows, 1:2, function(text) paste0("\"", gsub("\"", "\"\"", text), "\""))
    lines <- paste(apply(quoted, 1, paste, collapse = ";"), collapse = "\n")
    writeBin(charToRaw(paste0("\ufeff", lines, "\n")), file)
    for (given in list(rows, rows[rev(seq_len(nrow(rows))), ], file)) {
      own <- crowdblend:::given_hierarchy(stated, list(c = given))
      stopifnot(identical(own$labels(0), unlist(known$levels[[1]]$labels)))
    }
    rows[1, 1] <- "another"
    refused <- tryCatch(crowdblend:::given_hierarchy(stated, list(c = rows)), cb_refusal = conditionMessage)
    stopifnot(is.character(refused), grepl("not the one", refused))
  }
}

cat(asked, "questions,", length(differing), "answered otherwise than in Python\n")
cat(utils::head(differing, 20), sep = "\n")
stopifnot(asked > 100, !length(differing))
