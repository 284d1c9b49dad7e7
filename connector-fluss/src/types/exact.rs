//! Rows in the exact types of a table, or an error that names row, column and value.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array},
        compute::{CastOptions, can_cast_types, cast_with_options},
        datatypes::{DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit},
        util::display::{ArrayFormatter, FormatOptions},
    },
};
use fluss::metadata::{DataType, RowType, TableInfo};

use crate::error::from_client;

/// The columns of a table to write.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    schema: SchemaRef,
    types: Vec<DataType>,
    /// A primary-key table keeps times of day in milliseconds.
    keyed: bool,
}

/// What becomes of columns that the rows do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are an error.
    Refuse,
    /// They are null, for writers that do not write them.
    Null,
}

impl Target {
    pub(crate) fn new(info: &TableInfo) -> Result<Self> {
        Self::of(info.row_type(), info.has_primary_key())
    }

    pub(crate) fn of(row: &RowType, keyed: bool) -> Result<Self> {
        Ok(Self {
            schema: fluss::record::to_arrow_schema(row).map_err(|e| from_client(&e))?,
            types: row.fields().iter().map(|field| field.data_type().clone()).collect(),
            keyed,
        })
    }

    /// The batch with the table's columns in the table's order and types.
    ///
    /// # Errors
    /// `SchemaMismatch` for columns that the table or the rows lack and for types without an exact way to the
    /// column's; `DataInvalid` for a value that the column cannot hold.
    pub(crate) fn convert(&self, batch: &RecordBatch, missing: Missing) -> Result<RecordBatch> {
        let given = batch.schema();
        for field in given.fields() {
            if self.schema.column_with_name(field.name()).is_none() {
                return Err(mismatch("the table has no such column", field.name()));
            }
        }
        let mut columns = Vec::with_capacity(self.types.len());
        let mut fields = Vec::with_capacity(self.types.len());
        for (field, kind) in self.schema.fields().iter().zip(&self.types) {
            let mut absent = false;
            let column = match given.column_with_name(field.name()) {
                Some((place, _)) => self.column(batch.column(place), field, kind)?,
                None if missing == Missing::Null => {
                    absent = true;
                    new_null_array(field.data_type(), batch.num_rows())
                }
                None => {
                    let text =
                        "the rows lack this column of the table; sink.partial-update leaves it as it is";
                    return Err(mismatch(text, field.name()));
                }
            };
            // A column that is not written may be null whatever the table says.
            fields.push(if absent {
                Arc::new(field.as_ref().clone().with_nullable(true))
            } else {
                Arc::clone(field)
            });
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| {
            Error::new(ErrorKind::DataInvalid, "the rows do not fit the table's columns").with_source(e)
        })
    }

    fn column(&self, column: &ArrayRef, field: &Field, kind: &DataType) -> Result<ArrayRef> {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            let row = (0..column.len()).find(|row| column.is_null(*row)).unwrap_or(0);
            return Err(invalid("the column is NOT NULL", field.name(), column, row));
        }
        let exact = exact(column, field)?;
        check_length(&exact, kind, field.name())?;
        check_digits(&exact, kind, self.keyed, field.name())?;
        Ok(exact)
    }
}

fn mismatch(text: &'static str, column: &str) -> Error {
    Error::new(ErrorKind::SchemaMismatch, text).with_context("column", column)
}

fn invalid(text: &str, column: &str, values: &ArrayRef, row: usize) -> Error {
    let options = FormatOptions::default();
    let value =
        ArrayFormatter::try_new(values, &options).ok().and_then(|f| f.value(row).try_to_string().ok());
    Error::new(ErrorKind::DataInvalid, format!("a value cannot be held exactly: {text}"))
        .with_context("column", column)
        .with_context("row", row)
        .with_context("value", value.unwrap_or_default())
}

/// The column in the field's type, every value the same.
fn exact(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let (from, to) = (column.data_type(), field.data_type());
    if from == to {
        return Ok(Arc::clone(column));
    }
    if !is_meant(from, to) || !can_cast_types(from, to) {
        let text = format!("rows of the type {from} do not go into a column of the type {to}");
        return Err(Error::new(ErrorKind::SchemaMismatch, text).with_context("column", field.name()));
    }
    let failed = |e| {
        Error::new(ErrorKind::DataInvalid, "a column cannot be converted")
            .with_context("column", field.name())
            .with_source(e)
    };
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(column, to, &options).map_err(failed)?;
    if cast.logical_null_count() > column.logical_null_count() {
        let row = (0..column.len()).find(|row| cast.is_null(*row) && !column.is_null(*row)).unwrap_or(0);
        return Err(invalid(&format!("the column's type is {to}"), field.name(), column, row));
    }
    if may_round(from, to) {
        let back = cast_with_options(&cast, from, &options).map_err(failed)?;
        if back.to_data() != column.to_data() {
            let differs = |row: &usize| back.slice(*row, 1).to_data() != column.slice(*row, 1).to_data();
            if let Some(row) = (0..column.len()).find(differs) {
                return Err(invalid(&format!("the column's type is {to}"), field.name(), column, row));
            }
        }
    }
    Ok(cast)
}

/// Whether a type goes into another by its meaning: texts do not become numbers, nor numbers times.
fn is_meant(from: &ArrowType, to: &ArrowType) -> bool {
    use ArrowType::{
        Date32, Date64, Dictionary, FixedSizeList, Float16, Float32, Float64, LargeList, List, Map, Struct,
        Time32, Time64, Timestamp,
    };
    let is_decimal = |kind: &ArrowType| {
        matches!(
            kind,
            ArrowType::Decimal32(..)
                | ArrowType::Decimal64(..)
                | ArrowType::Decimal128(..)
                | ArrowType::Decimal256(..)
        )
    };
    let is_text =
        |kind: &ArrowType| matches!(kind, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
    let is_bytes = |kind: &ArrowType| {
        matches!(
            kind,
            ArrowType::Binary
                | ArrowType::LargeBinary
                | ArrowType::BinaryView
                | ArrowType::FixedSizeBinary(_)
        )
    };
    match (from, to) {
        (Dictionary(_, value), _) => value.as_ref() == to || is_meant(value, to),
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b)) => {
            same_or_meant(a.data_type(), b.data_type())
        }
        (Map(a, _), Map(b, _)) => same_or_meant(a.data_type(), b.data_type()),
        // Fields go by their place, so their names must agree.
        (Struct(a), Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| {
                    (a.name() == b.name() || is_entry(b)) && same_or_meant(a.data_type(), b.data_type())
                })
        }
        (Timestamp(_, a), Timestamp(_, b)) => a.is_some() == b.is_some(),
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Date32 | Date64, Date32 | Date64) => true,
        (Float16 | Float32 | Float64, Float32 | Float64) => true,
        _ if is_decimal(to) => is_decimal(from) || from.is_integer(),
        _ => {
            (from.is_integer() && to.is_integer())
                || (is_text(from) && is_text(to))
                || (is_bytes(from) && is_bytes(to))
        }
    }
}

fn same_or_meant(from: &ArrowType, to: &ArrowType) -> bool {
    from == to || is_meant(from, to)
}

/// The fields of a map's entries have other names in other libraries.
fn is_entry(field: &Field) -> bool {
    ["key", "value"].contains(&field.name().as_str())
}

/// Whether a cast can lose digits without failing.
fn may_round(from: &ArrowType, to: &ArrowType) -> bool {
    use ArrowType::{Float16, Float32, Float64, LargeUtf8, Utf8, Utf8View};
    let is_text = |kind: &ArrowType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    match (from, to) {
        (Float16, Float32 | Float64) | (Float32, Float64) => false,
        (ArrowType::Dictionary(_, value), _) => value.as_ref() != to && may_round(value, to),
        _ => !((from.is_integer() && to.is_integer()) || (is_text(from) && is_text(to))),
    }
}

/// CHAR(n) is the only type whose length neither Arrow nor the server looks at.
fn check_length(column: &ArrayRef, kind: &DataType, name: &str) -> Result<()> {
    let DataType::Char(char) = kind else { return Ok(()) };
    let Some(texts) = column.as_string_opt::<i32>() else { return Ok(()) };
    let most = usize::try_from(char.length()).unwrap_or(usize::MAX);
    let too_long = |text: &str| text.len() > most && text.chars().count() > most;
    match texts.iter().position(|text| text.is_some_and(too_long)) {
        Some(row) => Err(invalid(&format!("the column's type is CHAR({most})"), name, column, row)),
        None => Ok(()),
    }
}

/// The first nanosecond whose millisecond can be told in nanoseconds: before it, readers of a row cannot.
const EARLIEST_NANOS: i64 = i64::MIN / 1_000_000 * 1_000_000;

/// Digits that an Arrow unit has and the column's precision has not. The server would keep some and cut others.
fn check_digits(column: &ArrayRef, kind: &DataType, keyed: bool, name: &str) -> Result<()> {
    let (precision, what) = match kind {
        DataType::Time(time) if keyed => {
            (time.precision().min(3), "a primary-key table keeps times of day in milliseconds".to_owned())
        }
        DataType::Time(time) => {
            (time.precision(), format!("the column's type is TIME({})", time.precision()))
        }
        DataType::Timestamp(time) => {
            (time.precision(), format!("the column's type is TIMESTAMP({})", time.precision()))
        }
        DataType::TimestampLTz(time) => {
            (time.precision(), format!("the column's type is TIMESTAMP_LTZ({})", time.precision()))
        }
        _ => return Ok(()),
    };
    let unit = match column.data_type() {
        ArrowType::Time32(unit) | ArrowType::Time64(unit) | ArrowType::Timestamp(unit, _) => *unit,
        _ => return Ok(()),
    };
    // Inside, the client counts milliseconds.
    if unit == TimeUnit::Second && matches!(column.data_type(), ArrowType::Timestamp(..)) {
        let too_far = |value: i64| value.checked_mul(1000).is_none();
        return refuse_where(column, name, "the time is too far away", too_far);
    }
    if keyed && unit == TimeUnit::Nanosecond && matches!(column.data_type(), ArrowType::Timestamp(..)) {
        let text = "a primary-key table counts whole milliseconds first, and that one is out of the range of nanoseconds";
        refuse_where(column, name, text, |value| value < EARLIEST_NANOS)?;
    }
    let spare = super::digits(unit).saturating_sub(precision);
    if spare == 0 {
        return Ok(());
    }
    let step = 10_i64.pow(spare);
    refuse_where(column, name, &what, |value| value % step != 0)
}

/// Refuses the first value of a column of times for which `wrong` holds.
fn refuse_where(column: &ArrayRef, name: &str, what: &str, wrong: impl Fn(i64) -> bool) -> Result<()> {
    use connector_core::arrow::datatypes::{
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    };
    macro_rules! first {
        ($type:ty) => {
            column
                .as_primitive::<$type>()
                .iter()
                .position(|value| value.is_some_and(|value| wrong(i64::from(value))))
        };
    }
    let row = match column.data_type() {
        ArrowType::Time32(TimeUnit::Second) => first!(Time32SecondType),
        ArrowType::Time32(_) => first!(Time32MillisecondType),
        ArrowType::Time64(TimeUnit::Microsecond) => first!(Time64MicrosecondType),
        ArrowType::Time64(_) => first!(Time64NanosecondType),
        ArrowType::Timestamp(TimeUnit::Second, _) => first!(TimestampSecondType),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => first!(TimestampMillisecondType),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => first!(TimestampMicrosecondType),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => first!(TimestampNanosecondType),
        _ => None,
    };
    row.map_or(Ok(()), |row| Err(invalid(what, name, column, row)))
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::array::{
        Decimal128Array, Float64Array, Int64Array, StringArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use fluss::metadata::{DataField, DataTypes};

    use super::*;

    fn one(kind: DataType, column: ArrayRef, keyed: bool) -> Result<ArrayRef> {
        let row = RowType::new(vec![DataField::new("x", kind, None)]);
        let schema = Schema::new(vec![Field::new("x", column.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        Ok(Arc::clone(Target::of(&row, keyed)?.convert(&batch, Missing::Refuse)?.column(0)))
    }

    #[test]
    fn values_that_fit_are_kept_and_others_are_named() {
        let ids: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::from(u32::MAX)]));
        assert_eq!(
            one(DataTypes::bigint(), Arc::clone(&ids), true).unwrap().as_ref(),
            &Int64Array::from(vec![1, 4_294_967_295])
        );
        let error = one(DataTypes::int(), ids, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        assert_eq!(
            (error.context_value("row"), error.context_value("value")),
            (Some("1"), Some("4294967295"))
        );
        let huge: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert!(one(DataTypes::bigint(), Arc::clone(&huge), true).is_err());
        let decimal = one(DataTypes::decimal(20, 0), huge, true).unwrap();
        assert_eq!(
            decimal.as_primitive::<connector_core::arrow::datatypes::Decimal128Type>().value(0),
            i128::from(u64::MAX)
        );
    }

    #[test]
    fn digits_are_never_rounded_away() {
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(-1_000_000), None, Some(1)]));
        let error = one(DataTypes::timestamp_with_precision(3), Arc::clone(&nanos), false).unwrap_err();
        assert_eq!(error.context_value("row"), Some("2"), "{error}");
        assert!(one(DataTypes::timestamp_with_precision(3), nanos.slice(0, 2), false).is_ok());
        let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-100, 10]));
        assert!(one(DataTypes::timestamp_with_precision(5), Arc::clone(&micros), false).is_ok());
        assert_eq!(
            one(DataTypes::timestamp_with_precision(4), micros, false).unwrap_err().context_value("row"),
            Some("1")
        );
        let money: ArrayRef =
            Arc::new(Decimal128Array::from(vec![1_250, 1_251]).with_precision_and_scale(10, 3).unwrap());
        assert_eq!(
            one(DataTypes::decimal(10, 2), money, false).unwrap_err().context_value("value"),
            Some("1.251")
        );
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 0.1]));
        assert_eq!(one(DataTypes::float(), doubles, false).unwrap_err().context_value("row"), Some("1"));
        let times: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![1_000_000, 1]));
        assert!(one(DataTypes::time_with_precision(9), Arc::clone(&times), false).is_ok());
        assert_eq!(
            one(DataTypes::time_with_precision(9), times, true).unwrap_err().context_value("row"),
            Some("1")
        );
        // The lowest millisecond of the nanoseconds is not a whole one.
        let lowest: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![EARLIEST_NANOS, i64::MIN]));
        assert!(one(DataTypes::timestamp_with_precision(9), Arc::clone(&lowest), false).is_ok());
        let error = one(DataTypes::timestamp_with_precision(9), Arc::clone(&lowest), true).unwrap_err();
        assert_eq!((error.kind(), error.context_value("row")), (ErrorKind::DataInvalid, Some("1")));
        assert!(one(DataTypes::timestamp_with_precision(9), lowest.slice(0, 1), true).is_ok());
        let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
        assert!(one(DataTypes::timestamp_with_precision(0), far, true).is_err());
    }

    #[test]
    fn lengths_nulls_columns_and_foreign_types() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["äöü", "abcd"]));
        assert_eq!(
            one(DataTypes::char(3), Arc::clone(&texts), false).unwrap_err().context_value("row"),
            Some("1")
        );
        assert_eq!(one(DataTypes::int(), texts, false).unwrap_err().kind(), ErrorKind::SchemaMismatch);
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let error = one(DataTypes::bigint().as_non_nullable(), Arc::clone(&nulls), false).unwrap_err();
        assert_eq!((error.kind(), error.context_value("row")), (ErrorKind::DataInvalid, Some("1")));
        let row = RowType::new(vec![
            DataField::new("x", DataTypes::bigint(), None),
            DataField::new("y", DataTypes::string().as_non_nullable(), None),
        ]);
        let schema = Schema::new(vec![Field::new("x", ArrowType::Int64, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![nulls]).unwrap();
        let target = Target::of(&row, true).unwrap();
        assert_eq!(target.convert(&batch, Missing::Refuse).unwrap_err().context_value("column"), Some("y"));
        let wide = target.convert(&batch, Missing::Null).unwrap();
        assert_eq!((wide.num_columns(), wide.column(1).null_count()), (2, 2));
        let other = Schema::new(vec![Field::new("z", ArrowType::Int64, true)]);
        let batch = RecordBatch::try_new(Arc::new(other), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
        assert_eq!(target.convert(&batch, Missing::Null).unwrap_err().context_value("column"), Some("z"));
    }
}
