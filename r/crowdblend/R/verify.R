# What is checked of a release without its publisher: the signature, the one form of the certificate, and every file.

FORMAT <- "crowdblend-certificate/5"
DOMAIN <- "crowdblend certificate 5\n"
ED25519_DER <- as.raw(c(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00))
FIELDS <- c(
  "code_sources", "code_version", "dataset", "day", "files", "format", "guarantee", "ledger", "map", "mechanism",
  "name", "private_looks", "published", "release_id", "sample_id", "sampler_layout", "series", "signature"
)
MAY_HAVE <- c("filter_budget", "inclusion", "unit_records")
# Keys whose signatures hold over many messages, without the sign of x: the points of order 1, 2, 4 and 8.
SMALL_ORDER <- c(
  strrep("00", 32), paste0("01", strrep("00", 31)), paste0("ec", strrep("ff", 30), "7f"),
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
)
NOT_CHECKED <- c(
  "the price: that epsilon and delta are those of the mechanism (`crowdblend verify`, in Python, computes them again)",
  "that the map, the hierarchies and the fields have a form that they could have (`crowdblend verify` does)"
)

cb_verify <- function(folder, public_key = NULL) {
  path <- certificate_path(folder)
  text <- certificate_text(path)
  findings <- character()
  signed_by <- NULL
  certificate <- parsed_certificate(text)
  if (is.null(certificate)) {
    findings <- paste("this is not a certificate of the format that this version reads:", FORMAT)
  } else {
    lacking <- setdiff(FIELDS, names(certificate))
    unknown <- setdiff(names(certificate), c(FIELDS, MAY_HAVE))
    findings <- c(sprintf("the field %s is missing", lacking), sprintf("the field '%s' is unknown", unknown))
  }
  if (!length(findings)) {
    signer <- signer_of(text, certificate)
    findings <- signer$fault
    if (!length(findings)) signed_by <- signer$key_id
    if (!length(findings) && !is.null(public_key) && !signer$key %in% public_keys(public_key)) {
      findings <- sprintf("it is signed by the key %s, which is none of those that were given", signer$key_id)
      signed_by <- NULL
    }
    findings <- c(findings, file_findings(certificate$files, dirname(path)))
  }
  unchecked <- NOT_CHECKED
  if (is.null(public_key)) {
    whose <- "whose key signed it: compare the key's id with what the publisher says, or give public_key"
    unchecked <- c(whose, unchecked)
  }
  structure(
    list(
      ok = !length(findings), findings = findings, signed_by = signed_by, unchecked = unchecked,
      release_id = certificate$release_id, guarantee = certificate$guarantee[c("epsilon", "delta")]
    ),
    class = "cb_verification"
  )
}

print.cb_verification <- function(x, ...) {
  if (x$ok) {
    cat("Holds: ", x$release_id, ", signed by the key ", x$signed_by, ".\n", sep = "")
    cat("Its files are those that were signed, and no others.\n")
    cat("It says epsilon ", x$guarantee$epsilon, ", delta ", x$guarantee$delta, ".\n", sep = "")
  } else {
    cat("DOES NOT HOLD:", paste0("- ", x$findings), sep = "\n")
  }
  cat("Not checked:", paste0("- ", x$unchecked), sep = "\n")
  invisible(x)
}

certificate_path <- function(folder) {
  path <- if (dir.exists(folder)) file.path(folder, "certificate.json") else folder
  if (!file.exists(path)) refuse(sprintf("There is no certificate at '%s'.", path), "Name the release's folder.")
  path
}

# Returns the certificate as text of bytes; its lines and letters are compared, so nothing of it is converted.
certificate_text <- function(path) {
  bytes <- readBin(path, "raw", file.size(path))
  if (any(bytes == 0)) refuse(sprintf("'%s' is no text.", path), "Get the release again from its publisher.")
  rawToChar(bytes)
}

parsed_certificate <- function(text) {
  marked <- text
  Encoding(marked) <- "UTF-8"
  if (!validUTF8(marked)) return(NULL)
  certificate <- tryCatch(jsonlite::fromJSON(marked, simplifyVector = FALSE), error = function(error) NULL)
  if (is.list(certificate) && !is.null(names(certificate)) && identical(certificate$format, FORMAT)) certificate
}

# Returns the texts and marks of JSON, in bytes: what stands in quotes, and all else without spaces.
json_tokens <- function(text) {
  places <- gregexpr("\"(?:[^\"\\\\]++|\\\\.)*+\"", text, perl = TRUE, useBytes = TRUE)
  strings <- regmatches(text, places)[[1]]
  others <- gsub("[ \n]+", "", regmatches(text, places, invert = TRUE)[[1]], useBytes = TRUE)
  found <- regmatches(others, gregexpr("[][{},:]|[^][{},:]+", others, useBytes = TRUE))
  unlist(c(rbind(found, c(as.list(strings), list(NULL)))), use.names = FALSE)
}

# Returns JSON in the one form in which certificates are written: a line for each name and each element, by two spaces.
indented <- function(tokens) {
  opens <- tokens %in% c("{", "[")
  closes <- tokens %in% c("}", "]")
  before <- c(FALSE, opens[-length(opens)])
  depth <- cumsum(opens) - cumsum(closes)
  # A line begins after what opens, after a comma, and before what closes, but within an empty list.
  breaks <- (before & !closes) | (closes & !before) | c(FALSE, tokens[-length(tokens)] == ",")
  line <- ifelse(breaks, paste0("\n", strrep("  ", pmax(depth - opens, 0))), "")
  paste0(paste0(line, tokens, ifelse(tokens == ":", " ", ""), collapse = ""), "\n")
}

# Returns texts with every letter beyond ASCII escaped, as those are that are signed.
ascii_json <- function(strings) {
  beyond <- grepl("[^ -~]", strings, useBytes = TRUE)
  strings[beyond] <- vapply(strings[beyond], function(string) {
    Encoding(string) <- "UTF-8"
    codes <- utf8ToInt(string)
    high <- codes > 0xffff
    written <- ifelse(codes > 126, sprintf("\\u%04x", codes), vapply(codes, intToUtf8, ""))
    rest <- codes[high] - 0x10000
    written[high] <- sprintf("\\u%04x\\u%04x", 0xd800 + rest %/% 1024, 0xdc00 + rest %% 1024)
    paste(written, collapse = "")
  }, "")
  strings
}

# Returns the key whose signature holds, or why none does.
signer_of <- function(text, certificate) {
  signature <- certificate$signature
  unreadable <- list(fault = "it has no signature that can be read")
  parts <- c("algorithm", "key_id", "public_key", "value")
  if (!is.list(signature) || !setequal(names(signature), parts) || !all(vapply(signature, is.character, NA))) {
    return(unreadable)
  }
  if (!grepl("^[0-9a-f]{64}$", signature$public_key) || !grepl("^[0-9a-f]{128}$", signature$value)) return(unreadable)
  key <- raw_of_hex(signature$public_key)
  last <- as.integer(key[32]) %% 128L # without the sign of x
  unsigned <- paste0(substr(signature$public_key, 1, 62), sprintf("%02x", last))
  beyond <- grepl("^(e[d-f]|f[0-9a-f])(ff){30}7f$", unsigned)
  if (unsigned %in% SMALL_ORDER || beyond) return(unreadable)
  key_id <- substr(sha256(key), 1, 16)
  tokens <- json_tokens(text)
  value <- paste0("\"", signature$value, "\"")
  at <- which(tokens == "\"value\"")
  at <- at[tokens[at + 1] == ":" & tokens[at + 2] == value]
  changed <- list(fault = "its signature does not hold: the certificate was changed after it was signed")
  if (length(at) != 1) return(changed)
  # `value` is the last name of the signature, so that the comma before it goes with it, and the object ends after it.
  if (tokens[at - 1] != "," || tokens[at + 3] != "}") {
    return(list(fault = "its bytes are not those that were written, though its fields are"))
  }
  message <- paste0(DOMAIN, paste(ascii_json(tokens[-(at - 1:-2)]), collapse = ""))
  holds <- identical(signature$algorithm, "Ed25519") && identical(signature$key_id, key_id) &&
    signature_holds(key, charToRaw(message), raw_of_hex(signature$value))
  if (!holds) return(changed)
  # Escaped letters and other spaces would be the same message, so the bytes are compared with the one form.
  if (!identical(charToRaw(indented(tokens)), charToRaw(text)) || has_needless_escape(tokens)) {
    return(list(fault = "its bytes are not those that were written, though its fields are"))
  }
  list(fault = character(), key = signature$public_key, key_id = key_id)
}

has_needless_escape <- function(tokens) {
  plain <- gsub("\\\\\\\\", "", tokens, useBytes = TRUE) # a written backslash begins no escape
  any(grepl("\\\\u(?!00[01])", plain, perl = TRUE, useBytes = TRUE))
}

raw_of_hex <- function(text) as.raw(strtoi(substring(text, seq(1, nchar(text), 2), seq(2, nchar(text), 2)), 16L))

# Returns the public keys of a PEM file, in hexadecimal digits.
public_keys <- function(path) {
  lines <- trimws(tryCatch(readLines(path, warn = FALSE), error = function(error) {
    refuse(sprintf("The public key '%s' can't be read.", path))
  }))
  text <- paste(lines, collapse = "")
  block <- "(?<=-----BEGIN PUBLIC KEY-----)[^-]*(?=-----END PUBLIC KEY-----)"
  blocks <- regmatches(text, gregexpr(block, text, perl = TRUE))[[1]]
  keys <- lapply(blocks, jsonlite::base64_dec)
  sound <- vapply(keys, function(key) length(key) == 44 && identical(key[1:12], ED25519_DER), NA)
  if (!length(keys) || !all(sound)) {
    refuse(
      sprintf("'%s' is not a file of Ed25519 public keys in PEM.", path),
      "The publisher writes one with `crowdblend key export FILE`."
    )
  }
  vapply(keys, function(key) paste(as.character(key[13:44]), collapse = ""), "")
}

# Returns which tool checks signatures and digests, the package openssl or the command; refuses where neither is there.
crypto <- function() {
  if (requireNamespace("openssl", quietly = TRUE)) return("package")
  if (nzchar(Sys.which("openssl"))) return("command")
  refuse(
    "Signatures are checked by the R package openssl or by the command openssl, and neither is there.",
    "Install one of them, as by install.packages(\"openssl\")."
  )
}

sha256 <- function(what) {
  if (crypto() == "package") {
    if (is.character(what)) {
      what <- file(what, "rb")
      on.exit(close(what))
    }
    return(paste(as.character(openssl::sha256(what)), collapse = "")) # without the attributes of a hash
  }
  path <- if (is.character(what)) what else with_file(what)
  if (!is.character(what)) on.exit(unlink(path))
  said <- run_openssl(c("dgst", "-sha256", "-r", shQuote(path)))
  substr(said[1], 1, 64)
}

signature_holds <- function(key, message, signature) {
  if (crypto() == "package") {
    own <- openssl::read_ed25519_pubkey(key)
    return(isTRUE(tryCatch(openssl::ed25519_verify(message, signature, own), error = function(error) FALSE)))
  }
  files <- c(with_file(c(ED25519_DER, key)), with_file(message), with_file(signature))
  on.exit(unlink(files))
  quoted <- shQuote(files)
  given <- c("-keyform", "DER", "-inkey", quoted[1], "-rawin", "-in", quoted[2], "-sigfile", quoted[3])
  said <- run_openssl(c("pkeyutl", "-verify", "-pubin", given))
  is.null(attr(said, "status")) && any(grepl("Verified Successfully", said))
}

run_openssl <- function(arguments) {
  suppressWarnings(system2("openssl", arguments, stdout = TRUE, stderr = TRUE))
}

with_file <- function(bytes) {
  path <- tempfile()
  writeBin(bytes, path)
  path
}

# Returns what does not hold of the files beside a certificate.
file_findings <- function(files, folder) {
  digests <- unlist(files)
  named <- is.list(files) && length(files) && !is.null(names(files))
  if (!named || !is.character(digests) || length(digests) != length(files)) return("it names no files")
  present <- setdiff(output_files(folder), "certificate.json")
  named <- names(files)
  both <- sort(intersect(named, present))
  sound <- vapply(both, function(name) {
    path <- file.path(folder, name)
    !nzchar(Sys.readlink(path)) && !dir.exists(path) && identical(sha256(path), files[[name]])
  }, NA)
  c(
    sprintf("%s is missing", sort(setdiff(named, present))),
    sprintf("%s is not named in the certificate", sort(setdiff(present, named))),
    sprintf("%s is not the file that was certified", both[!sound])
  )
}

# Returns the files of a folder, those in a folder of it as FOLDER/NAME; links and empty folders stand there themselves.
output_files <- function(folder) {
  list_of <- function(place) list.files(place, all.files = TRUE, no.. = TRUE)
  unlist(lapply(list_of(folder), function(name) {
    path <- file.path(folder, name)
    inside <- if (dir.exists(path) && !nzchar(Sys.readlink(path))) list_of(path)
    if (length(inside)) paste(name, inside, sep = "/") else name
  }))
}
