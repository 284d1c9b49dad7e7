//! The declaration of an option set.

/// Declares the options of one source or sink, once. See the [module](crate::options) for an example.
///
/// Head, in this order, what is not needed left out:
///
/// - `connector "kafka"; role "source";` and, for a connector with two spellings, `dialect "DataSail";`
/// - `validate path;` a `fn(&Options, &mut Problems)` for checks over several options;
/// - `siblings [OtherOptions];` sets of the other roles, to say where a misplaced key belongs;
/// - `constant "type" = "kafka";` a key with one value and no field;
/// - `entries { "key" => path; }` for a map option, a `fn(&str) -> bool` that is true for the system's
///   own names: such a name outside the map, and an option inside it, are errors that say so;
/// - `refused { "key" => "reason"; }` keys that are known and not accepted.
///
/// Then in `options { … }` one declaration each:
///
/// ```text
/// /// What it does, in a line.
/// "key" alias "other.key" deprecated "old.key" => field: Type as Codec, presence, modifier "text", …;
/// ```
///
/// `alias` and `deprecated` may be left out or repeated, and `as Codec` names a
/// [`Codec`](crate::options::Codec) where the Rust type does not tell the spelling (`Duration as Millis`). The presence is `required`,
/// `optional` (the field is an `Option`) or `default value`. Modifiers are the methods of
/// [`OptionSpec`](crate::options::OptionSpec): `min 1`, `max 9`, `allowed "words"`, `shown "words"`,
/// `type_name "rows"`, `role "common"`, `inert "reason"`.
#[macro_export]
macro_rules! option_set {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident, builder $builder:ident {
            connector $connector:literal;
            role $role:literal;
            $(dialect $dialect:literal;)?
            $(validate $validate:path;)?
            $(siblings [$($sibling:ty),* $(,)?];)?
            $(constant $const_key:literal = $const_value:literal;)*
            $(entries { $($map_key:literal => $holds:path;)* })?
            $(refused { $($refused_key:literal => $reason:literal;)* })?
            options {
                $(
                    $(#[doc = $doc:literal])+
                    $key:literal $(alias $alias:literal)* $(deprecated $old:literal)* =>
                        $field:ident : $ty:ty $(as $codec:ty)?, $presence:ident $($default:literal)?
                        $(, $modifier:ident $argument:literal)* ;
                )*
            }
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nKey `", $key, "`.")]
                pub $field: $crate::__option_type!($presence $ty),
            )*
        }

        #[doc = concat!("Builds [`", stringify!($name), "`]. Setters do not fail; `build` reports every problem at once.")]
        #[derive(Debug, Clone, Default)]
        $vis struct $builder {
            __problems: $crate::options::Problems,
            $( $field: $crate::options::__private::Slot<$ty $(, $codec)?>, )*
        }

        impl $name {
            /// Everything about the options: keys, types, defaults, what is allowed.
            pub const OPTIONS: &'static [$crate::options::OptionSpec] = &[
                $(
                    $crate::options::OptionSpec::new($connector, $role, $key)
                        .described(&[$($alias),*], &[$($old),*], concat!($($doc),+))
                        .codec::<$ty, $crate::__option_codec!($($codec)?)>()
                        .$presence($(concat!($default))?)
                        $( .$modifier(concat!($argument)) )*,
                )*
                $( $crate::options::OptionSpec::constant($connector, $role, $const_key, $const_value), )*
            ];

            /// The table from which options are parsed.
            pub const SET: &'static $crate::options::SetSpec =
                &$crate::options::SetSpec::new($connector, $role, concat!($connector, ".options"), Self::OPTIONS)
                    $( .dialect($dialect) )?
                    $( .siblings(&[$(<$sibling>::OPTIONS),*]) )?
                    $( .entries(&[$(($map_key, $holds as fn(&str) -> bool)),*]) )?
                    $( .refused(&[$(($refused_key, $reason)),*]) )?;

            /// A builder without values.
            pub fn builder() -> $builder {
                $builder::default()
            }

            /// A builder with the values of these options.
            pub fn to_builder(&self) -> $builder {
                $builder {
                    __problems: $crate::options::Problems::default(),
                    $( $field: $crate::options::__private::Slot::of(
                        $crate::__option_keep!($presence self.$field.clone())
                    ), )*
                }
            }

            /// Parses options from pairs of name and value.
            ///
            /// # Errors
            /// `OptionInvalid` with everything that is wrong: unknown, missing and doubly given options, wrong
            /// values, and options that contradict each other. The values of secrets are not shown.
            pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> $crate::Result<Self>
            where
                K: Into<String>,
                V: Into<$crate::options::RawValue>,
            {
                Self::from_raw(options.into_iter().collect())
            }

            /// Parses options that were collected or read from a file before.
            ///
            /// # Errors
            /// As [`Self::from_options`].
            pub fn from_raw(options: $crate::options::RawOptions) -> $crate::Result<Self> {
                $crate::options::__private::from_raw(options)
            }

            /// Checks bounds and contradictions again, for options that were changed after they were built.
            ///
            /// # Errors
            /// As [`Self::from_options`].
            pub fn validate(&self) -> $crate::Result<()> {
                $crate::options::__private::build::<Self>(self.to_builder()).map(drop)
            }

            /// Keys and values as they would be written, unset ones left out. Secrets are masked.
            pub fn to_options(&self) -> Vec<(&'static str, $crate::options::RawValue)> {
                $crate::options::__private::to_options(self)
            }
        }

        impl $builder {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nKey `", $key, "`.")]
                #[must_use]
                pub fn $field(mut self, value: impl $crate::options::IntoValue<$ty>) -> Self {
                    self.$field.put(value.into_value(), $name::SET, $key, &mut self.__problems);
                    self
                }
            )*

            /// Checks everything and gives the options.
            ///
            /// # Errors
            /// `OptionInvalid` with everything that is missing, out of bounds or contradicts something else.
            pub fn build(self) -> $crate::Result<$name> {
                $crate::options::__private::build(self)
            }
        }

        impl $crate::options::OptionSet for $name {
            type Builder = $builder;
            const SET: &'static $crate::options::SetSpec = $name::SET;

            fn to_builder(&self) -> $builder {
                $name::to_builder(self)
            }

            fn slots(builder: &mut $builder) -> Vec<&mut dyn $crate::options::__private::AnySlot> {
                vec![$( &mut builder.$field ),*]
            }

            fn problems(builder: &mut $builder) -> &mut $crate::options::Problems {
                &mut builder.__problems
            }

            fn assemble(builder: $builder) -> $crate::Result<Self> {
                Ok(Self { $( $field: $crate::__option_take!($presence builder.$field, $key $(, $default)?), )* })
            }

            fn cross_check(&self, problems: &mut $crate::options::Problems) {
                let _ = &problems;
                $( $validate(self, problems); )?
            }
        }

        impl $crate::options::__private::serde::Serialize for $name {
            /// Writes a flat map of keys to values, secrets masked.
            fn serialize<S: $crate::options::__private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                $crate::options::__private::serialize(self, serializer)
            }
        }

        impl<'de> $crate::options::__private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::options::__private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                $crate::options::__private::deserialize(deserializer)
            }
        }
    };
}

/// The type of a field by the presence of its option.
#[doc(hidden)]
#[macro_export]
macro_rules! __option_type {
    (optional $ty:ty) => { Option<$ty> };
    ($presence:ident $ty:ty) => { $ty };
}

/// The codec of an option.
#[doc(hidden)]
#[macro_export]
macro_rules! __option_codec {
    () => {
        $crate::options::Plain
    };
    ($codec:ty) => {
        $codec
    };
}

/// A field's value as the `Option` that a slot holds.
#[doc(hidden)]
#[macro_export]
macro_rules! __option_keep {
    (optional $value:expr) => {
        $value
    };
    ($presence:ident $value:expr) => {
        Some($value)
    };
}

/// A slot's value as the field holds it.
#[doc(hidden)]
#[macro_export]
macro_rules! __option_take {
    (required $slot:expr, $key:literal) => {
        $slot.required($key)?
    };
    (optional $slot:expr, $key:literal) => {
        $slot.optional()
    };
    (default $slot:expr, $key:literal, $default:literal) => {
        $slot.or_default(concat!($default), $key)?
    };
}
