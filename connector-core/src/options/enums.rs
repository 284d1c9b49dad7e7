//! Enums as option values.

/// Declares an enum whose values are option values: each variant with its spellings, the first of
/// which is the one that is written. Spellings ignore case.
///
/// Gives `Debug`, `Clone`, `Copy`, `PartialEq`, `Eq`, `Hash`, `Display`, `FromStr`, `as_str`, the list
/// `ALL` and what an option needs of its type.
///
/// ```
/// connector_core::option_enum! {
///     /// What a reader does when there is no valid offset.
///     pub enum OffsetReset {
///         /// Begin at the first record.
///         Earliest = "earliest",
///         /// Begin after the last record.
///         Latest = "latest" | "largest",
///     }
/// }
///
/// assert_eq!("LARGEST".parse::<OffsetReset>()?, OffsetReset::Latest);
/// assert_eq!(OffsetReset::Latest.to_string(), "latest");
/// # Ok::<_, connector_core::Error>(())
/// ```
#[macro_export]
macro_rules! option_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $first:literal $(| $other:literal)* ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling that is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $first, )+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                <$crate::options::Plain as $crate::options::Codec<Self>>::from_raw(text.into()).map_err(
                    |reason| $crate::Error::new($crate::ErrorKind::OptionInvalid, format!("`{text}` {reason}")),
                )
            }
        }

        impl $crate::options::Codec<$name> for $crate::options::Plain {
            const TYPE: &'static str = "enum";
            const LIST_TYPE: &'static str = "list<enum>";
            // All spellings, each with a comma in front, without the first comma.
            const ALLOWED: &'static str = concat!($(",", $first $(, ",", $other)*),+).split_at(1).1;

            fn from_raw(raw: $crate::options::RawValue) -> Result<$name, $crate::options::Invalid> {
                $crate::options::__private::read_enum(raw, &[
                    $( ($name::$variant, &[$first $(, $other)*]), )+
                ])
            }

            fn to_raw(value: &$name) -> $crate::options::RawValue {
                value.as_str().into()
            }
        }

        impl $crate::options::IntoValue<$name> for $name {
            fn into_value(self) -> Result<$name, $crate::options::Invalid> {
                Ok(self)
            }
        }
    };
}
