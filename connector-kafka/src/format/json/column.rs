//! The builders of the columns, one variant per way to read a value.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, ArrowPrimitiveType, NullArray, NullBufferBuilder, PrimitiveArray},
        datatypes::{
            DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field, Float32Type,
            Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
            UInt64Type,
        },
        error::ArrowError,
    },
};

use jiff::tz::TimeZone;

use super::{
    JsonOptions, UnavailableValue,
    cursor::Cursor,
    encoding::Encoding,
    error::{Fault, JsonErrorKind},
    keys::{KeyMark, KeyRule},
    list::ListColumn,
    map::MapColumn,
    object::ObjectColumn,
    scalar::{BooleanColumn, DecimalColumn, FloatColumn, IntegerColumn},
    temporal::{DateColumn, TimeColumn, TimestampColumn},
    text::{BinaryColumn, FixedBinaryColumn, TextColumn},
};

/// What decoding needs besides the record and the columns.
#[derive(Debug)]
pub(in crate::format) struct Context {
    pub(in crate::format) options: JsonOptions,
    /// Whether `options.time_zone` is UTC, where no rule has to be looked up.
    pub(in crate::format) utc: bool,
    /// Holds the text that was read last, if it had escapes.
    pub(in crate::format) scratch: String,
    /// How keys that have no column of their own are compared.
    pub(in crate::format) key_rule: KeyRule,
    /// Keys that may stand twice, of all objects that are open: those of maps, and unknown ones.
    pub(in crate::format) keys: Vec<KeyMark>,
    /// Counts objects, so that each can tell its own keys from those of the object before.
    pub(in crate::format) objects: u64,
}

impl Context {
    pub(in crate::format) fn new(options: JsonOptions) -> Self {
        Self {
            utc: options.time_zone == TimeZone::UTC,
            key_rule: KeyRule::new(options.case_insensitive),
            options,
            scratch: String::new(),
            keys: Vec::new(),
            objects: 0,
        }
    }
}

/// A value that is at hand already, and needs not be read from text.
#[derive(Debug, Clone, Copy)]
pub(in crate::format) enum Given<'a> {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// What every builder does. A row is appended by exactly one of the first three.
pub(in crate::format) trait Build {
    /// Appends the value that starts at the cursor, which is not `null`. After an error the builder may
    /// hold parts of the row; `truncate` then takes them back.
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault>;
    /// Appends the value that a text stands for, as CSV has it. After an error as `decode`.
    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault>;
    /// Appends a value where the column takes it as it is, without a rule that texts are read by. False where it does not: then
    /// `decode` has to read the value's JSON.
    fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        let _ = (given, context);
        false
    }
    /// Appends a null.
    fn append_null(&mut self);
    /// Appends a value that nobody sees, as the row's parent is null.
    fn append_filler(&mut self);
    /// Takes back every row from `len` on.
    fn truncate(&mut self, len: usize);
    /// Makes room for as many rows as the batch before had.
    fn reserve(&mut self);
    /// Takes the rows.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;
    /// Bytes of the rows.
    fn memory_size(&self) -> usize;
}

/// One column with the rows so far.
#[derive(Debug)]
pub(in crate::format) struct Column {
    nullable: bool,
    /// Whether a null is taken where there can be none, for the time being.
    sparse: bool,
    /// Whether it holds the items of an array: where a placeholder is one, it is the array that was not at hand.
    items: bool,
    builder: Builder,
}

macro_rules! builders {
    ($($variant:ident($builder:ty)),+ $(,)?) => {
        #[derive(Debug)]
        pub(super) enum Builder {
            $($variant($builder)),+
        }

        impl Build for Builder {
            #[inline]
            fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
                match self {
                    $(Self::$variant(builder) => builder.decode(cursor, context)),+
                }
            }

            fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
                match self {
                    $(Self::$variant(builder) => builder.decode_text(text, context)),+
                }
            }

            #[inline]
            fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
                match self {
                    $(Self::$variant(builder) => builder.take(given, context)),+
                }
            }

            fn append_null(&mut self) {
                match self {
                    $(Self::$variant(builder) => builder.append_null()),+
                }
            }

            fn append_filler(&mut self) {
                match self {
                    $(Self::$variant(builder) => builder.append_filler()),+
                }
            }

            fn truncate(&mut self, len: usize) {
                match self {
                    $(Self::$variant(builder) => builder.truncate(len)),+
                }
            }

            fn reserve(&mut self) {
                match self {
                    $(Self::$variant(builder) => builder.reserve()),+
                }
            }

            fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
                match self {
                    $(Self::$variant(builder) => builder.finish()),+
                }
            }

            fn memory_size(&self) -> usize {
                match self {
                    $(Self::$variant(builder) => builder.memory_size()),+
                }
            }
        }
    };
}

builders! {
    Null(NullColumn),
    Boolean(BooleanColumn),
    Int8(IntegerColumn<Int8Type>),
    Int16(IntegerColumn<Int16Type>),
    Int32(IntegerColumn<Int32Type>),
    Int64(IntegerColumn<Int64Type>),
    UInt8(IntegerColumn<UInt8Type>),
    UInt16(IntegerColumn<UInt16Type>),
    UInt32(IntegerColumn<UInt32Type>),
    UInt64(IntegerColumn<UInt64Type>),
    Float32(FloatColumn<Float32Type>),
    Float64(FloatColumn<Float64Type>),
    Decimal32(DecimalColumn<Decimal32Type>),
    Decimal64(DecimalColumn<Decimal64Type>),
    Decimal128(DecimalColumn<Decimal128Type>),
    Decimal256(DecimalColumn<Decimal256Type>),
    Date(DateColumn),
    Time(TimeColumn),
    Timestamp(TimestampColumn),
    Text(TextColumn<i32>),
    LargeText(TextColumn<i64>),
    Binary(BinaryColumn<i32>),
    LargeBinary(BinaryColumn<i64>),
    FixedBinary(FixedBinaryColumn),
    List(Box<ListColumn<i32>>),
    LargeList(Box<ListColumn<i64>>),
    Object(Box<ObjectColumn>),
    Map(Box<MapColumn>),
}

impl<B: Build> Build for Box<B> {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        (**self).decode(cursor, context)
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        (**self).decode_text(text, context)
    }

    fn append_null(&mut self) {
        (**self).append_null();
    }

    fn append_filler(&mut self) {
        (**self).append_filler();
    }

    fn truncate(&mut self, len: usize) {
        (**self).truncate(len);
    }

    fn reserve(&mut self) {
        (**self).reserve();
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        (**self).finish()
    }

    fn memory_size(&self) -> usize {
        (**self).memory_size()
    }
}

impl Column {
    /// The builder of a field; `path` names it in errors.
    pub(in crate::format) fn new(field: &Field, path: &str, options: &JsonOptions) -> Result<Self> {
        let encoding = Encoding::of(field, path)?;
        Ok(Self {
            nullable: field.is_nullable(),
            sparse: false,
            items: false,
            builder: Builder::new(field, encoding, path, options)?,
        })
    }

    /// Appends the value that starts at the cursor.
    #[inline]
    pub(in crate::format) fn decode(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<(), Fault> {
        if cursor.peek() == b'n' {
            return self.decode_null(cursor);
        }
        let start = cursor.pos();
        match self.builder.decode(cursor, context) {
            Err(fault) if fault.kind() == JsonErrorKind::Unavailable && !self.items => {
                self.decode_unavailable(fault, start, cursor, context)
            }
            decoded => decoded,
        }
    }

    /// A placeholder stood in place of a value; the builder is as it was before it.
    #[cold]
    fn decode_unavailable(
        &mut self,
        fault: Fault,
        start: usize,
        cursor: &mut Cursor<'_>,
        context: &Context,
    ) -> Result<(), Fault> {
        // Others hold parts of the value already; in a struct it is the field that becomes null.
        let whole = !matches!(self.builder, Builder::Object(_) | Builder::Map(_));
        let accepted = context.options.unavailable_value == UnavailableValue::Null && self.nullable;
        if !whole || !(accepted || self.sparse) {
            return Err(fault);
        }
        cursor.set_pos(start);
        cursor.skip_value()?;
        self.append_blank();
        Ok(())
    }

    /// Appends a value that is at hand. False where [`Self::decode`] has to read its JSON.
    #[inline]
    pub(in crate::format) fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        self.builder.take(given, context)
    }

    /// Appends the value that a text stands for.
    pub(in crate::format) fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        self.builder.decode_text(text, context)
    }

    /// Appends a null, or what stands for one where there can be none: for rows of which only the key counts.
    pub(in crate::format) fn append_blank(&mut self) {
        if self.nullable { self.builder.append_null() } else { self.builder.append_filler() }
    }

    /// The same column for the items of an array.
    pub(super) fn of_items(mut self) -> Self {
        self.items = true;
        self
    }

    /// Whether an empty text is a value of this column.
    pub(in crate::format) fn is_text(&self) -> bool {
        matches!(self.builder, Builder::Text(_) | Builder::LargeText(_))
    }

    #[inline]
    fn decode_null(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let start = cursor.pos();
        cursor.literal("null")?;
        self.append_absent().map_err(|()| {
            Fault::new(JsonErrorKind::MissingValue, start, "a value, as the column is not nullable")
        })
    }

    /// Appends what a missing value stands for: a null, or an error where there can be none.
    #[inline]
    pub(in crate::format) fn append_absent(&mut self) -> Result<(), ()> {
        if !self.nullable && !self.sparse {
            return Err(());
        }
        self.append_blank();
        Ok(())
    }

    /// Whether a null is taken as [`Self::append_blank`] does.
    pub(in crate::format) fn set_sparse(&mut self, sparse: bool) {
        self.sparse = sparse;
    }

    /// Appends a value that nobody sees, as the row's parent is null.
    pub(in crate::format) fn append_filler(&mut self) {
        self.append_blank();
    }

    pub(in crate::format) fn truncate(&mut self, len: usize) {
        self.builder.truncate(len);
    }

    pub(in crate::format) fn reserve(&mut self) {
        self.builder.reserve();
    }

    pub(in crate::format) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.builder.finish()
    }

    pub(in crate::format) fn memory_size(&self) -> usize {
        self.builder.memory_size()
    }
}

impl Builder {
    fn new(field: &Field, encoding: Encoding, path: &str, options: &JsonOptions) -> Result<Self> {
        Ok(match field.data_type() {
            DataType::Null => Self::Null(NullColumn::default()),
            DataType::Boolean => Self::Boolean(BooleanColumn::new()),
            DataType::Int8 => Self::Int8(IntegerColumn::new()),
            DataType::Int16 => Self::Int16(IntegerColumn::new()),
            DataType::Int32 => Self::Int32(IntegerColumn::new()),
            DataType::Int64 => Self::Int64(IntegerColumn::new()),
            DataType::UInt8 => Self::UInt8(IntegerColumn::new()),
            DataType::UInt16 => Self::UInt16(IntegerColumn::new()),
            DataType::UInt32 => Self::UInt32(IntegerColumn::new()),
            DataType::UInt64 => Self::UInt64(IntegerColumn::new()),
            DataType::Float32 => Self::Float32(FloatColumn::new()),
            DataType::Float64 => Self::Float64(FloatColumn::new()),
            DataType::Decimal32(p, s) => {
                Self::Decimal32(DecimalColumn::new(*p, *s, encoding, path, options)?)
            }
            DataType::Decimal64(p, s) => {
                Self::Decimal64(DecimalColumn::new(*p, *s, encoding, path, options)?)
            }
            DataType::Decimal128(p, s) => {
                Self::Decimal128(DecimalColumn::new(*p, *s, encoding, path, options)?)
            }
            DataType::Decimal256(p, s) => {
                Self::Decimal256(DecimalColumn::new(*p, *s, encoding, path, options)?)
            }
            DataType::Date32 => Self::Date(DateColumn::new()),
            DataType::Time32(unit) | DataType::Time64(unit) => Self::Time(TimeColumn::new(*unit, encoding)),
            DataType::Timestamp(unit, zone) => {
                Self::Timestamp(TimestampColumn::new(*unit, zone.clone(), encoding, options))
            }
            DataType::Utf8 => Self::Text(TextColumn::new(false, encoding)),
            DataType::Utf8View => Self::Text(TextColumn::new(true, encoding)),
            DataType::LargeUtf8 => Self::LargeText(TextColumn::new(false, encoding)),
            DataType::Binary => Self::Binary(BinaryColumn::new(false)),
            DataType::BinaryView => Self::Binary(BinaryColumn::new(true)),
            DataType::LargeBinary => Self::LargeBinary(BinaryColumn::new(false)),
            DataType::FixedSizeBinary(width) => Self::FixedBinary(FixedBinaryColumn::new(*width, path)?),
            DataType::List(item) => Self::List(Box::new(ListColumn::new(item, path, options)?)),
            DataType::LargeList(item) => Self::LargeList(Box::new(ListColumn::new(item, path, options)?)),
            DataType::Struct(fields) => Self::Object(Box::new(ObjectColumn::new(fields, path, options)?)),
            DataType::Map(entries, sorted) => {
                Self::Map(Box::new(MapColumn::new(entries, *sorted, path, options)?))
            }
            other => return Err(unsupported(path, &format!("the type {other} cannot be read from JSON"))),
        })
    }
}

/// A schema that the decoder cannot serve.
pub(in crate::format) fn unsupported(path: &str, reason: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("column `{path}`: {reason}; give the column another type"))
        .with_operation("kafka.decode")
        .with_context("column", path)
}

/// The name of a field within its parent.
pub(in crate::format) fn nested_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Values of a fixed width, and which of them are null.
#[derive(Debug)]
pub(super) struct Store<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    validity: NullBufferBuilder,
    /// Rows of the batch before.
    hint: usize,
}

impl<T: ArrowPrimitiveType> Store<T> {
    pub(in crate::format) fn new() -> Self {
        Self { values: Vec::new(), validity: NullBufferBuilder::new(0), hint: 0 }
    }

    #[inline]
    pub(in crate::format) fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.validity.append_non_null();
    }

    pub(in crate::format) fn push_null(&mut self) {
        self.values.push(T::Native::default());
        self.validity.append_null();
    }

    pub(in crate::format) fn push_filler(&mut self) {
        self.push(T::Native::default());
    }

    pub(in crate::format) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.validity.truncate(len);
    }

    pub(in crate::format) fn reserve(&mut self) {
        self.values.reserve_exact(self.hint);
        self.validity = NullBufferBuilder::new(self.hint);
    }

    pub(in crate::format) fn finish(&mut self) -> Result<PrimitiveArray<T>, ArrowError> {
        self.hint = self.values.len();
        PrimitiveArray::try_new(std::mem::take(&mut self.values).into(), self.validity.finish())
    }

    pub(in crate::format) fn memory_size(&self) -> usize {
        size_of_val(self.values.as_slice()) + self.values.len().div_ceil(8)
    }
}

/// Rows that are all null.
#[derive(Debug, Default)]
pub(in crate::format) struct NullColumn {
    len: usize,
}

impl Build for NullColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, _: &mut Context) -> Result<(), Fault> {
        Err(cursor.mismatch("null"))
    }

    fn decode_text(&mut self, _: &str, _: &mut Context) -> Result<(), Fault> {
        Err(Fault::new(JsonErrorKind::WrongType, 0, "null"))
    }

    fn append_null(&mut self) {
        self.len += 1;
    }

    fn append_filler(&mut self) {
        self.len += 1;
    }

    fn truncate(&mut self, len: usize) {
        self.len = len;
    }

    fn reserve(&mut self) {}

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(NullArray::new(std::mem::take(&mut self.len))))
    }

    fn memory_size(&self) -> usize {
        0
    }
}
