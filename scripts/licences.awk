# Checks the licence of every crate against the allow-list of deny.toml.
# usage: cargo tree … --prefix none --format '{p}|{l}' | awk -f licences.awk deny.toml -
# Reads SPDX expressions: AND, OR, WITH, parentheses, and the old spelling "MIT/Apache-2.0".

function expression(    ok) {
    ok = conjunction()
    while (token[at] == "OR") { at++; if (conjunction()) ok = 1 }
    return ok
}

function conjunction(    ok) {
    ok = licence()
    while (token[at] == "AND") { at++; if (!licence()) ok = 0 }
    return ok
}

function licence(    ok, name) {
    if (token[at] == "(") { at++; ok = expression(); at++; return ok }
    name = token[at++]
    if (token[at] == "WITH") { name = name " WITH " token[at + 1]; at += 2 }
    return name in allowed
}

function permitted(text,    count) {
    gsub(/\//, " OR ", text)
    gsub(/\(/, " ( ", text)
    gsub(/\)/, " ) ", text)
    split("", token)
    count = split(text, token, " ")
    at = 1
    return count > 0 && expression() && at == count + 1
}

# First file: the strings between `allow = [` and `]`.
FNR == NR {
    if ($0 ~ /^allow = \[/) inside = 1
    rest = $0
    while (inside && match(rest, /"[^"]+"/)) {
        allowed[substr(rest, RSTART + 1, RLENGTH - 2)] = 1
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (inside && $0 ~ /\]/) inside = 0
    next
}

# Second file: one crate a line.
{
    sub(/ \(\*\)$/, "")
    if ($0 == "" || $0 in seen) next
    seen[$0] = 1
    crates++
    bar = index($0, "|")
    terms = substr($0, bar + 1)
    if (!permitted(terms)) {
        print "licence not allowed: " substr($0, 1, bar - 1) ": " (terms == "" ? "none given" : terms)
        bad++
    }
}

END {
    if (crates == 0) { print "no crates to check"; exit 1 }
    if (bad) exit 1
    print crates " crates, all licences allowed"
}
