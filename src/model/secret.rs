//! Which variables and request headers are secret, by their names.

/// Parts of the names of secret variables and headers.
const SECRET_NAMES: [&str; 11] = [
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
];

/// True when the value of a variable or of a request header may be a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_secret() {
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
        for name in ["PATH", "HOME", "MONKEY", "KEYBOARD", "LANG"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
