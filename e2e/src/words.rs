//! Splitting a command line into words as a shell does, as far as tests need it.

/// The words of `line`: separated by white space, which within single quotes is kept.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            letter if letter.is_whitespace() && !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    assert!(!quoted, "a quote is open at the end of: {line}");
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_keep_blanks_and_empty_words() {
        assert_eq!(split("get  pods\n-o wide "), ["get", "pods", "-o", "wide"]);
        assert_eq!(split("patch -p '{\"a\": 1}' ''"), ["patch", "-p", "{\"a\": 1}", ""]);
        assert_eq!(split("-o jsonpath='{.a} {.b}'"), ["-o", "jsonpath={.a} {.b}"]);
    }
}
