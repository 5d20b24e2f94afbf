//! Removes from the name of a function the parts that change from build to build.

/// Returns the name of a function without template arguments, parameters, suffixes of optimized
/// clones, prefixes of the C library's aliases, and hashes: `std::vector<int>::at(unsigned long)
/// const [clone .isra.0]` becomes `std::vector::at`.
pub fn bare_name(function: &str) -> String {
    // GCC appends the names of clones in symbols, and template arguments in assertions.
    let name = function.split(" [clone ").next().unwrap_or(function);
    let name = name.split(" [with ").next().unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    let name = without_suffix(name)
        .replace("(anonymous namespace)", "{anonymous}")
        .replace("{{closure}}", "{closure}");
    let name = without_impl(&name);
    let name = last_word(&without_brackets(&name));
    let name = without_hash(&name);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    // Newer compilers put symbols of the runtime into this module.
    let name = name.strip_prefix("__rustc::").unwrap_or(name);
    variant_of_libc(name).unwrap_or(name).to_owned()
}

/// Removes suffixes of clones and parts of a function: `.isra.0`, `.cold`.
fn without_suffix(name: &str) -> &str {
    const SUFFIXES: [&str; 9] = [
        ".isra.",
        ".part.",
        ".constprop.",
        ".lto_priv.",
        ".cold",
        ".llvm.",
        "._omp_fn.",
        ".localalias",
        "[abi:",
    ];
    let ends = SUFFIXES.iter().filter_map(|suffix| name.find(suffix));
    let end = ends.filter(|position| *position > 0).min();
    &name[..end.unwrap_or(name.len())]
}

/// Rewrites Rust's `<Type as Trait>::method` and `<impl Trait for Type>::method` to `Type::method`.
fn without_impl(name: &str) -> String {
    let in_module = || name.split_once("::<impl ").map(|(_, rest)| rest);
    let rest = name.strip_prefix('<').or_else(in_module);
    let Some((rest, end)) = rest.and_then(|rest| Some((rest, closing_bracket(rest)?))) else {
        return name.to_owned();
    };
    let inside = rest[..end].strip_prefix("impl ").unwrap_or(&rest[..end]);
    let subject = match (inside.split_once(" for "), inside.split_once(" as ")) {
        (Some((_, subject)), _) | (None, Some((subject, _))) => subject,
        (None, None) => inside,
    };
    let subject = match module_of_primitive(subject) {
        Some(module) => module.to_owned(),
        None => without_impl(subject.trim_start_matches(['&', '*'])),
    };
    format!("{subject}{}", &rest[end + 1..])
}

/// Returns the module with the methods of a pointer, a slice or a string, whose types have no path.
fn module_of_primitive(subject: &str) -> Option<&'static str> {
    if subject.starts_with("*const ") || subject.starts_with("*mut ") {
        return Some("core::ptr");
    }
    match subject {
        "str" => Some("core::str"),
        _ if subject.starts_with('[') => Some("core::slice"),
        _ => None,
    }
}

/// Returns the offset of the bracket that closes the one just before this text.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut previous = ' ';
    for (position, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(position);
        }
        previous = c;
    }
    None
}

/// Removes everything in angle brackets and parentheses, except for operators that contain them.
fn without_brackets(name: &str) -> String {
    const OPERATORS: [&str; 10] = [
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()",
    ];
    let mut bare = String::with_capacity(name.len());
    let mut depth = 0_u32;
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if depth == 0 && bare.ends_with("operator") {
            let operator = OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator));
            let length = operator.map_or(c.len_utf8(), |operator| operator.len());
            bare.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match c {
            // Go puts the type of a method's receiver in parentheses: `main.(*T).Run`.
            '(' if depth == 0 && bare.ends_with('.') => {
                let end = rest.find(')').map_or(rest.len(), |position| position + 1);
                bare.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(c),
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    // Removing Rust's turbofish leaves `::::`.
    bare.replace("::::", "::").trim_end_matches(':').to_owned()
}

/// Removes the type before the name and the qualifiers behind it.
fn last_word(name: &str) -> String {
    let mut name = name.trim();
    for qualifier in ["const", "volatile", "&", "&&"] {
        name = name
            .strip_suffix(qualifier)
            .filter(|rest| rest.ends_with(' '))
            .map_or(name, str::trim_end);
    }
    let start = match name.find("operator ") {
        Some(operator) => name[..operator]
            .rfind(' ')
            .map_or(0, |position| position + 1),
        None => name.rfind(' ').map_or(0, |position| position + 1),
    };
    name[start..].to_owned()
}

/// Removes the hash that old Rust compilers append: `::h0123456789abcdef`.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash))
            if hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()) =>
        {
            rest
        }
        _ => name,
    }
}

/// Returns the generic name of a function that the C library selects by CPU:
/// `__memmove_avx_unaligned_erms` becomes `memmove`. Otherwise, the same bug would have another
/// name on another machine.
fn variant_of_libc(name: &str) -> Option<&str> {
    let inside = name.strip_prefix("__")?;
    if !["mem", "str", "wcs", "wmem", "stp"]
        .iter()
        .any(|family| inside.starts_with(family))
    {
        return None;
    }
    let marks = [
        "_avx",
        "_sse",
        "_evex",
        "_erms",
        "_unaligned",
        "_generic",
        "_ssse",
    ];
    let end = marks.iter().filter_map(|mark| inside.find(mark)).min()?;
    Some(&inside[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_equal_in_every_build() {
        let same = [
            ("main", "main"),
            ("conv.isra.0", "conv"),
            ("conv.constprop.0.isra.0", "conv"),
            ("conv.part.3.cold", "conv"),
            ("conv.lto_priv.7", "conv"),
            ("conv [clone .cold]", "conv"),
            ("__GI_abort", "abort"),
            ("__GI___libc_malloc", "__libc_malloc"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("free@plt", "free"),
            ("__memmove_avx_unaligned_erms", "memmove"),
            ("__strlen_evex", "strlen"),
            ("__memcpy_chk", "__memcpy_chk"),
            ("f(int, char const*)", "f"),
            (
                "void apply<int (*)(long)>(std::function<int (long)> const&)",
                "apply",
            ),
            (
                "std::vector<int, std::allocator<int> >::at(unsigned long) const",
                "std::vector::at",
            ),
            (
                "std::ostream& operator<< <char>(std::ostream&, char)",
                "operator<<",
            ),
            ("S::operator()(int) const", "S::operator()"),
            ("S::operator->() const", "S::operator->"),
            ("operator new(unsigned long)", "operator new"),
            ("(anonymous namespace)::helper(int)", "{anonymous}::helper"),
            (
                "run()::{lambda(int)#1}::operator()(int) const",
                "run::{lambda#1}::operator()",
            ),
            ("f[abi:cxx11](int)", "f"),
            ("app::work::h0123456789abcdef", "app::work"),
            (
                "app::work::{{closure}}::h0123456789abcdef",
                "app::work::{closure}",
            ),
            ("app::work::{closure#0}", "app::work::{closure#0}"),
            (
                "core::ptr::drop_in_place::<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place",
            ),
            (
                "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
                "alloc::vec::Vec::drop",
            ),
            ("<&app::T as core::fmt::Debug>::fmt", "app::T::fmt"),
            ("app::x::<impl app::Tr for app::T<u8>>::go", "app::T::go"),
            (
                "core::ptr::mut_ptr::<impl *mut T>::read_volatile",
                "core::ptr::read_volatile",
            ),
            ("<*const u8>::read_volatile", "core::ptr::read_volatile"),
            ("alloc::slice::<impl [T]>::to_vec", "core::slice::to_vec"),
            ("core::str::<impl str>::split_at", "core::str::split_at"),
            ("main.(*Server).Run", "main.(*Server).Run"),
            ("", ""),
        ];
        for (name, bare) in same {
            assert_eq!(bare_name(name), bare, "{name}");
        }
    }

    #[test]
    fn malformed_names_do_not_panic() {
        for name in [
            "<", ">", "(((", "operator", "<a as", "::<impl ", "a<b", "()", "->", "<>::",
        ] {
            let _ = bare_name(name);
        }
    }
}
