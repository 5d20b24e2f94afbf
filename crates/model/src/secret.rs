//! Recognizes secret variables and request headers by their names.

/// Parts of the names of secret variables and headers.
const SECRET_NAMES: [&str; 15] = [
    "TOKEN",
    "SECRET",
    "PASSW",
    "CREDENTIAL",
    "_KEY",
    "-KEY",
    "APIKEY",
    "AUTH",
    "COOKIE",
    "SESSION_ID",
    "PRIVATE",
    "PASSPHRASE",
    "_PWD",
    "_DSN",
    "CONNECTION_STRING",
];

/// Returns whether the value of a variable or of a request header may be a secret.
pub fn is_secret(name: &str) -> bool {
    // The author of a commit is not a secret.
    let name = name
        .to_ascii_uppercase()
        .replace("AUTHORIZATION", "AUTH")
        .replace("AUTHOR", "");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_their_names() {
        for name in [
            "GITHUB_TOKEN",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "X-Api-Key",
            "Authorization",
            "Cookie",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "MONKEY",
            "KEYBOARD",
            "LANG",
            "OLDPWD",
            "GIT_AUTHOR_NAME",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
