# A changed file, a changed count, another key and a changed certificate are each found; so is what isn't refused.

library(crowdblend)

published <- system.file("extdata", "named-pairs", package = "crowdblend")
key <- system.file("extdata", "publisher.pem", package = "crowdblend")
other_key <- tempfile(fileext = ".pem")
stranger <- c(crowdblend:::ED25519_DER, as.raw(1:32))
writeLines(c("-----BEGIN PUBLIC KEY-----", jsonlite::base64_enc(stranger), "-----END PUBLIC KEY-----"), other_key)

sound <- cb_verify(published, key)
stopifnot(sound$ok, !length(sound$findings), any(grepl("the price", sound$unchecked)))
stopifnot(!any(grepl("whose key", sound$unchecked)), any(grepl("whose key", cb_verify(published)$unchecked)))

# What is found of a copy of the release in which something was changed, by the key of its publisher.
found_after <- function(change, public_key = key) {
  folder <- tempfile("release")
  dir.create(folder)
  file.copy(list.files(published, full.names = TRUE), folder)
  change(folder)
  refused <- tryCatch({
    cb_read(folder, public_key)
    FALSE
  }, cb_refusal = function(refusal) TRUE)
  found <- cb_verify(folder, public_key)
  stopifnot(refused, !found$ok)
  paste(found$findings, collapse = "; ")
}

# Replaces a text in a file, the first time that it is there, byte for byte.
replace <- function(name, old, new) {
  function(folder) {
    path <- file.path(folder, name)
    text <- crowdblend:::certificate_text(path)
    changed <- sub(old, new, text, fixed = TRUE, useBytes = TRUE)
    stopifnot(!identical(text, changed))
    writeBin(charToRaw(changed), path)
  }
}

# Moves the signature's value to directly after its algorithm.
moved_value <- function(folder) {
  path <- file.path(folder, "certificate.json")
  lines <- strsplit(crowdblend:::certificate_text(path), "\n", fixed = TRUE, useBytes = TRUE)[[1]]
  value <- max(grep("^    \"value\": ", lines, useBytes = TRUE))
  algorithm <- max(grep("^    \"algorithm\": ", lines, useBytes = TRUE))
  lines[value - 1] <- sub(",$", "", lines[value - 1], useBytes = TRUE)
  between <- (algorithm + 1):(value - 1)
  moved <- c(lines[1:algorithm], paste0(lines[value], ","), lines[between], lines[-(1:value)])
  writeBin(charToRaw(paste0(moved, "\n", collapse = "")), path)
}

changes <- list(
  "data.csv is not the file" = replace("data.csv", "f,", "m,"),
  "margins.csv is not the file" = replace("margins.csv", "sex,f,,,1", "sex,f,,,2"),
  "data.csv is missing" = function(folder) file.remove(file.path(folder, "data.csv")),
  "more.csv is not named" = function(folder) writeLines("a", file.path(folder, "more.csv")),
  "signature does not hold" = replace("certificate.json", "\"epsilon\": \"1.9", "\"epsilon\": \"0.9"),
  "signature does not hold" = replace("certificate.json", "\"day\": \"2", "\"day\": \"1"),
  "bytes are not those" = replace("certificate.json", "\"day\": ", "\"day\":  "),
  "bytes are not those" = moved_value,
  "bytes are not those" = replace("certificate.json", "Gen\u00e8ve", "Gen\\u00e8ve"),
  "this version reads" = replace("certificate.json", "crowdblend-certificate/5", "crowdblend-certificate/6"),
  "it names no files|signature does not hold" = replace("certificate.json", "\"files\": {", "\"files\": {\"x\": 1,")
)
for (at in seq_along(changes)) stopifnot(grepl(names(changes)[at], found_after(changes[[at]])))
stopifnot(grepl("none of those that were given", found_after(function(folder) NULL, other_key)))

# What the labels can't express, and what wasn't counted together, is refused in words.
release <- cb_read(published, key)
refusal_of <- function(asked) tryCatch({
  asked
  ""
}, cb_refusal = conditionMessage)
stopifnot(
  grepl("can't be counted finer", refusal_of(cb_count(release, list(age = 37)))),
  grepl("no column 'income'", refusal_of(cb_mean(release, "income"))),
  grepl("stand for no numbers", refusal_of(cb_mean(release, "sex"))),
  grepl("A condition is a list", refusal_of(cb_count(release, list("f")))),
  grepl("weren't counted together", refusal_of(cb_glm(release, wage ~ town))),
  grepl("least squares alone", refusal_of(cb_glm(release, sex["f"] ~ age, family = binomial()))),
  grepl("no formula", refusal_of(cb_glm(release, wage ~ age * sex))),
  grepl("Ed25519", refusal_of(cb_read(published, system.file("DESCRIPTION", package = "crowdblend"))))
)

# A label without a largest number is in no range that ends within it, and isn't taken as a number.
households <- cb_read(system.file("extdata", "members", package = "crowdblend"), key)
size <- households$columns$size
capped <- cb_count(households, list(size = "4 or more"))
stopifnot(
  identical(cb_count(households, list(size = cb_range(4, Inf))), capped),
  grepl("ends at 4", refusal_of(cb_count(households, list(size = cb_range(2, 10))))),
  grepl("no largest number", refusal_of(cb_count(households, list(size = cb_range(5, Inf))))),
  grepl("no largest number", refusal_of(crowdblend:::numbers_of(households, list(of = ""), size, 0))),
  is.nan(crowdblend:::odds_of(crowdblend:::figure(NaN, source = "pairs"))$estimate),
  grepl("more than 3 members", cb_count(households$members, list(sex = "f"))$note),
  !grepl("more than", capped$note)
)

# A formula is the same as its text; a copy follows from its seed and leaves the session's random numbers alone.
by_text <- cb_glm(release, "wage ~ sex[m] + C(schooling)")
stopifnot(identical(cb_glm(release, wage ~ sex["m"] + factor(schooling)), by_text))
set.seed(5)
drawn <- runif(1)
set.seed(5)
copies <- cb_complete(release, 2, seed = 3)
stopifnot(identical(runif(1), drawn), identical(copies, cb_complete(release, 2, seed = 3)))
stopifnot(!identical(copies, cb_complete(release, 2, seed = 4)), all(copies[[2]]$completed_copy == 2))

# Copies have the published rows' labels: at least as many records of each as there are rows.
rows <- table(cb_rows(release)$sex)
stopifnot(all(vapply(copies, function(copy) all(table(copy$sex)[names(rows)] >= rows), NA)))
stopifnot(all(vapply(copies, function(copy) all(copy$age >= 15 & copy$age < 65, na.rm = TRUE), NA)))

# Estimates of a survey design are those of the weights, and copies combine by mitools.
if (requireNamespace("survey", quietly = TRUE) && requireNamespace("mitools", quietly = TRUE)) {
  own <- cb_rows(release)
  design <- survey::svydesign(ids = ~1, weights = ~weight, data = own)
  share <- sum(own$weight[own$sex == "f"]) / sum(own$weight)
  stopifnot(abs(coef(survey::svymean(~sex, design))[["sexf"]] - share) < 1e-12)
  fits <- with(mitools::imputationList(copies), stats::lm(wage ~ sex))
  combined <- mitools::MIcombine(fits)
  means <- vapply(copies, function(copy) coef(stats::lm(wage ~ sex, copy))[["sexm"]], 0)
  stopifnot(abs(coef(combined)[["sexm"]] - mean(means)) < 1e-9)
}
print(release)
print(sound)
print(cb_table(release, "sex", "schooling"))
print(copies)
