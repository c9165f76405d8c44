//! Messages from JSON.
//!
//! serde's derive makes code for each way in which a format may give a struct or an enum, for each of them anew. A
//! message comes in one way only, and all are read by what is here.

use std::fmt;
use std::net::IpAddr;

use serde::de::Error as _;
use serde_json::{Error, Map, Value};

/// A message, or a part of one.
pub trait FromJson: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// `value` is something else, or has a field that it must not have.
    fn from_json(value: Value) -> Result<Self, Error>;

    /// What it is if its field is not there; `None`: the field must be there.
    fn absent() -> Option<Self> {
        None
    }
}

/// The fields of an object that are not read yet.
#[derive(Debug)]
pub(super) struct UnreadFields(Map<String, Value>);

impl UnreadFields {
    pub(super) fn of(value: Value) -> Result<Self, Error> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(Error::custom("not an object")),
        }
    }

    /// Reads a field.
    pub(super) fn take<T: FromJson>(&mut self, name: &str) -> Result<T, Error> {
        match self.0.remove(name) {
            Some(value) => T::from_json(value).map_err(|error| in_field(name, &error)),
            None => T::absent().ok_or_else(|| in_field(name, &"missing")),
        }
    }

    /// All are read.
    pub(super) fn end(self) -> Result<(), Error> {
        self.0.keys().next().map_or(Ok(()), |name| Err(in_field(name, &"unknown")))
    }
}

fn in_field(name: &str, what: &dyn fmt::Display) -> Error {
    Error::custom(format_args!("`{name}`: {what}"))
}

/// A name that is none of those that there are.
pub(super) fn unknown(name: &str) -> Error {
    Error::custom(format_args!("unknown name `{name}`"))
}

/// A struct is an object with these fields and no others.
macro_rules! read_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::protocol::fields::FromJson for $name {
            fn from_json(value: ::serde_json::Value) -> Result<Self, ::serde_json::Error> {
                let mut fields = $crate::protocol::fields::UnreadFields::of(value)?;
                let read = $name { $($field: fields.take(stringify!($field))?),* };
                fields.end()?;
                Ok(read)
            }
        }
    };
}

/// An enum is an object that has the name of the variant in one field, and the fields of the variant.
macro_rules! read_variants {
    ($name:ident by $tag:literal {
        $($text:literal => $variant:ident $({ $($field:ident),* })?),* $(,)?
    }) => {
        impl $crate::protocol::fields::FromJson for $name {
            fn from_json(value: ::serde_json::Value) -> Result<Self, ::serde_json::Error> {
                let mut fields = $crate::protocol::fields::UnreadFields::of(value)?;
                let read = match fields.take::<String>($tag)?.as_str() {
                    $($text => $name::$variant $({ $($field: fields.take(stringify!($field))?),* })?,)*
                    other => return Err($crate::protocol::fields::unknown(other)),
                };
                fields.end()?;
                Ok(read)
            }
        }
    };
}

/// An enum without fields is the name of the variant.
macro_rules! read_names {
    ($name:ident { $($text:literal => $variant:ident),* $(,)? }) => {
        impl $crate::protocol::fields::FromJson for $name {
            fn from_json(value: ::serde_json::Value) -> Result<Self, ::serde_json::Error> {
                match String::from_json(value)?.as_str() {
                    $($text => Ok($name::$variant),)*
                    other => Err($crate::protocol::fields::unknown(other)),
                }
            }
        }
    };
}

pub(super) use {read_names, read_struct, read_variants};

macro_rules! read_integers {
    ($($integer:ty),*) => {$(
        impl FromJson for $integer {
            fn from_json(value: Value) -> Result<Self, Error> {
                let number = integer(&value).and_then(|number| number.try_into().ok());
                number.ok_or_else(|| Error::custom(concat!("not a number of type ", stringify!($integer))))
            }
        }
    )*};
}

read_integers!(u8, u16, u32, u64, i32);

fn integer(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

impl FromJson for bool {
    fn from_json(value: Value) -> Result<Self, Error> {
        value.as_bool().ok_or_else(|| Error::custom("neither true nor false"))
    }
}

impl FromJson for String {
    fn from_json(value: Value) -> Result<Self, Error> {
        match value {
            Value::String(text) => Ok(text),
            _ => Err(Error::custom("not a string")),
        }
    }
}

impl FromJson for IpAddr {
    fn from_json(value: Value) -> Result<Self, Error> {
        String::from_json(value)?.parse().map_err(Error::custom)
    }
}

impl FromJson for (u32, u32) {
    fn from_json(value: Value) -> Result<Self, Error> {
        match Vec::from_json(value)?[..] {
            [first, second] => Ok((first, second)),
            _ => Err(Error::custom("not two numbers")),
        }
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: Value) -> Result<Self, Error> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Value) -> Result<Self, Error> {
        match value {
            Value::Array(values) => values.into_iter().map(T::from_json).collect(),
            _ => Err(Error::custom("not a list")),
        }
    }
}

#[cfg(test)]
mod tests;
