//! Deserializes the values of a scenario file.

use super::matrix::MatrixValue;
use super::{
    AttachedProcess, Codes, Concurrency, Confidence, DurationValue, EnvValue, Expectation,
    Frequency, HostList, HostsValue, IntegerRange, LimitValue, OnlyRule, Pattern, RateValue,
    ReadyWhen, TimeoutValue,
};
use crate::RunnerValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Makes a visitor read numbers of these types like their text.
macro_rules! read_as_text {
    ($($visit:ident($number:ty)),*) => {$(
        fn $visit<E: serde::de::Error>(self, number: $number) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }
    )*};
}
pub(super) use read_as_text;

/// Reads values of a file: from a string as for a flag, or from a plain number or Boolean.
struct TextOrNumberVisitor<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> de::Visitor<'_> for TextOrNumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    read_as_text!(visit_i64(i64), visit_u64(u64), visit_f64(f64));
}

/// Makes values readable from a file and writable to one: as text, or as an integer where it is one.
macro_rules! from_text {
    ($serialize:ident: $($value:ident),*) => {$(
        impl<'de> Deserialize<'de> for $value {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(TextOrNumberVisitor(std::marker::PhantomData))
            }
        }

        impl Serialize for $value {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $serialize(&self.to_string(), to)
            }
        }
    )*};
}

from_text! {
    serialize_text:
    DurationValue, TimeoutValue, RateValue, Confidence, Pattern, OnlyRule, RunnerValue,
    Expectation, IntegerRange, HostsValue, HostList, Frequency, ReadyWhen
}

from_text! {
    serialize_text_or_integer:
    MatrixValue, Concurrency, AttachedProcess, LimitValue
}

fn serialize_text<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn serialize_text_or_integer<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    match text.parse::<i64>() {
        Ok(number) => to.serialize_i64(number),
        Err(_) => to.serialize_str(text),
    }
}

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct CodesVisitor;
        impl<'de> de::Visitor<'de> for CodesVisitor {
            type Value = Codes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an exit code, a list of them, or text such as \"0,10-19\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Codes, E> {
                text.parse().map_err(E::custom)
            }

            read_as_text!(visit_i64(i64), visit_u64(u64));

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Codes, A::Error> {
                let mut codes = BTreeSet::new();
                while let Some(code) = list.next_element::<u8>()? {
                    codes.insert(i32::from(code));
                }
                Ok(Codes(codes))
            }
        }
        from.deserialize_any(CodesVisitor)
    }
}

impl Serialize for Codes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EnvValueVisitor;
        impl de::Visitor<'_> for EnvValueVisitor {
            type Value = EnvValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a number, or `false` to remove the variable")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EnvValue, E> {
                Ok(EnvValue(Some(text.to_owned())))
            }

            read_as_text!(visit_i64(i64), visit_u64(u64));

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<EnvValue, E> {
                if value {
                    return Err(E::custom(
                        "`true` is not a value; write \"true\" with quotes",
                    ));
                }
                Ok(EnvValue(None))
            }
        }
        from.deserialize_any(EnvValueVisitor)
    }
}

impl Serialize for EnvValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => to.serialize_str(value),
            None => to.serialize_bool(false),
        }
    }
}
