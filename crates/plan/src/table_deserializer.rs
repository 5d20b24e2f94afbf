//! Deserializes the parsed tables of a scenario file, so that every error has a position.
//!
//! `toml` can do the same, but adds the code of every type three times: for tables, for dates and for values with a
//! position.

use super::expected_value::{type_name, type_words};
use super::{Load, RepeatedLoad, Scenario};
use serde::Deserializer;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl Scenario {
    /// Reads every group of settings from the same table.
    pub(super) fn from_table(table: &DeTable<'_>) -> Result<Self, ValueError> {
        Ok(Self {
            outline: read_fields(table)?,
            baseline: read_fields(table)?,
            confirm: read_fields(table)?,
            count: read_fields(table)?,
            comparison: read_fields(table)?,
            candidates: read_fields(table)?,
            bisect: read_fields(table)?,
            items: read_fields(table)?,
            reduce: read_fields(table)?,
            hunt: read_fields(table)?,
            differ: read_fields(table)?,
            why: read_fields(table)?,
            suite: read_fields(table)?,
            search: read_fields(table)?,
            program: read_fields(table)?,
            conditions: read_fields(table)?,
            trials: read_fields(table)?,
            hosts: read_fields(table)?,
            stop: read_fields(table)?,
            judge: read_fields(table)?,
            evidence: read_fields(table)?,
            load: match table.get("load").and_then(|load| load.get_ref().as_table()) {
                Some(load) => Some(Load::from_table(load)?),
                None => None,
            },
            again: RepeatedLoad::default(),
            trust: false,
        })
    }
}

impl Load {
    fn from_table(table: &DeTable<'_>) -> Result<Self, ValueError> {
        Ok(Self {
            service: read_fields(table)?,
            traffic: read_fields(table)?,
            connection: read_fields(table)?,
        })
    }
}

/// Reads the fields of one group. Other fields are ignored.
fn read_fields<T: DeserializeOwned>(table: &DeTable<'_>) -> Result<T, ValueError> {
    T::deserialize(MapDeserializer::new(entries(table)))
}

/// Why a value was refused.
#[derive(Debug)]
pub(super) struct ValueError {
    pub(super) message: String,
    /// Position in the text; `None` if the error has no position.
    pub(super) span: Option<Range<usize>>,
}

impl ValueError {
    /// Adds the position, unless the error comes from a value within this one.
    fn with_span(self, span: Range<usize>) -> Self {
        Self {
            span: self.span.or(Some(span)),
            ..self
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValueError {}

impl de::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            span: None,
        }
    }
}

/// A value with its position.
#[derive(Clone, Copy)]
struct Located<'a>(&'a Spanned<DeValue<'a>>);

/// Returns the fields of a table in the order of the text.
fn entries<'a>(table: &'a DeTable<'a>) -> std::vec::IntoIter<(&'a str, Located<'a>)> {
    let mut fields: Vec<_> = table
        .iter()
        .map(|(key, value)| (key.get_ref().as_ref(), Located(value)))
        .collect();
    fields.sort_by_key(|(_, value)| value.0.span().start);
    fields.into_iter()
}

impl<'a> Located<'a> {
    fn refuse_type(self, expected: &dyn de::Expected) -> ValueError {
        let found = type_words(type_name(self.0.get_ref()));
        de::Error::invalid_type(Unexpected::Other(found), expected)
    }

    fn visit_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Integer(number) => {
                let (digits, radix) = (number.as_str(), number.radix());
                if let Ok(number) = i64::from_str_radix(digits, radix) {
                    visitor.visit_i64(number)
                } else if let Ok(number) = u64::from_str_radix(digits, radix) {
                    visitor.visit_u64(number)
                } else {
                    Err(self.refuse_type(&visitor))
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(value) if value.is_finite() || !number.as_str().contains('e') => {
                    visitor.visit_f64(value)
                }
                _ => Err(de::Error::custom("the number is too large")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(_) => Err(self.refuse_type(&visitor)),
            DeValue::Array(_) => self.visit_list(visitor),
            DeValue::Table(_) => self.visit_table(visitor),
        }
    }

    fn visit_list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let Some(items) = self.0.get_ref().as_array() else {
            return Err(self.refuse_type(&visitor));
        };
        SeqDeserializer::new(items.iter().map(Located)).deserialize_any(visitor)
    }

    fn visit_table<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let Some(table) = self.0.get_ref().as_table() else {
            return Err(self.refuse_type(&visitor));
        };
        visitor.visit_map(MapDeserializer::new(entries(table)))
    }

    fn visit_name<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let Some(name) = self.0.get_ref().as_str() else {
            return Err(self.refuse_type(&visitor));
        };
        visitor.visit_enum(StrDeserializer::new(name))
    }
}

/// Reads a structure only from a table, and a list only from a list: each further way would add code to every type.
impl<'de> Deserializer<'de> for Located<'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let read = self.visit_any(visitor);
        read.map_err(|error| error.with_span(self.0.span()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let read = self.visit_list(visitor);
        read.map_err(|error| error.with_span(self.0.span()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let read = self.visit_table(visitor);
        read.map_err(|error| error.with_span(self.0.span()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let read = self.visit_name(visitor);
        read.map_err(|error| error.with_span(self.0.span()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct identifier
    }
}

impl<'de> IntoDeserializer<'de, ValueError> for Located<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
