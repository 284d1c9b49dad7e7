//! Orders: the rows that tests send through. Every field follows from the id, so that what a table has to hold is
//! known beforehand, down to a hash over all columns that both ClickHouse versions compute as well.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use connector_core::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use jiff::Timestamp;
use siphasher::sip::SipHasher24;

use crate::mix;
use crate::services::Version;

/// The time of order 0: 2026-01-01T00:00:00Z, in milliseconds. Later orders are about 137 ms apart.
pub const FIRST_CREATED_AT: i64 = 1_767_225_600_000;

const STATUSES: [&str; 5] = ["created", "paid", "shipped", "delivered", "cancelled"];
const TAGS: [&str; 8] = ["vip", "new", "北京", "上海", "promo", "gift🎀", "b2b", "repeat"];
/// Notes as they are, and as JSON spells them: raw and escaped, two, three and four bytes a character.
const NOTES: [(&str, &str); 8] = [
    ("加急处理", "加急处理"),
    ("leave at the door 🚪", "leave at the door 🚪"),
    ("生日礼物🎁请包装", "生日礼物🎁请包装"),
    ("", ""),
    ("客户说\"尽快\"发货", "客户说\\\"尽快\\\"发货"),
    ("tab\tback\\slash/ ☎", "tab\\tback\\\\slash\\/ ☎"),
    ("café 🍰\r\nsecond line", "caf\\u00e9 \\ud83c\\udf70\\r\\nsecond line"),
    ("fragile — 小心轻放", "fragile — 小心轻放"),
];

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The number from which all else follows.
    pub id: u64,
    /// The customer's number; the row has it as `cust-` and eight digits.
    pub customer: u64,
    /// The amount in ten-thousandths: the row has it with four decimals.
    pub amount_units: i64,
    /// One of five states.
    pub status: &'static str,
    /// A note of any language, with quotes, tabs and line ends; sometimes empty.
    pub note: &'static str,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// A discount, or none.
    pub discount: Option<i32>,
    note_json: &'static str,
    tags: [&'static str; 3],
    tag_count: usize,
}

impl Order {
    /// The order with this id.
    #[must_use]
    pub fn new(id: u64) -> Self {
        let one = Draw(mix(id));
        let two = Draw(mix(id ^ 0x6f72_6465_7273));
        let (note, note_json) = pick(&NOTES, two.part(0, 8));
        Self {
            id,
            customer: one.part(20, 5_000_000),
            amount_units: signed(one.part(0, 1_000_000_000)),
            status: pick(&STATUSES, two.part(3, 5)),
            note,
            created_at: FIRST_CREATED_AT + signed(id * 137 + two.part(56, 100)),
            discount: (two.part(8, 5) >= 2).then(|| i32::try_from(two.part(12, 90)).unwrap_or(0)),
            note_json,
            tags: [28, 31, 34].map(|bit| pick(&TAGS, two.part(bit, 8))),
            tag_count: usize::try_from(two.part(24, 4)).unwrap_or(0),
        }
    }

    /// The tags: none to three, the same one perhaps twice.
    #[must_use]
    pub fn tags(&self) -> &[&'static str] {
        &self.tags[..self.tag_count]
    }

    /// Appends the order as one JSON object, without a line end.
    pub fn write_json(&self, out: &mut String) {
        let time = Timestamp::from_millisecond(self.created_at).unwrap_or(Timestamp::UNIX_EPOCH);
        let (whole, fraction) = (self.amount_units / 10_000, self.amount_units % 10_000);
        write!(
            out,
            r#"{{"id":{},"customer":"cust-{:08}","amount":"{whole}.{fraction:04}","status":"{}","note":"{}","created_at":"{time:.3}","discount":"#,
            self.id, self.customer, self.status, self.note_json,
        )
        .ok();
        match self.discount {
            Some(discount) => write!(out, "{discount}").ok(),
            None => write!(out, "null").ok(),
        };
        out.push_str(r#","tags":["#);
        for (place, tag) in self.tags().iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(out, "{comma}\"{tag}\"").ok();
        }
        out.push_str("]}");
    }

    /// The hash of all columns, over the text that [`Aggregates::query`] makes of a row.
    fn hash(&self, text: &mut String) -> u64 {
        text.clear();
        write!(
            text,
            "{}|cust-{:08}|{}|{}|{}|{}|",
            self.id, self.customer, self.amount_units, self.status, self.note, self.created_at
        )
        .ok();
        match self.discount {
            Some(discount) => write!(text, "{discount}|").ok(),
            None => write!(text, "null|").ok(),
        };
        for (place, tag) in self.tags().iter().enumerate() {
            text.push_str(if place > 0 { "," } else { "" });
            text.push_str(tag);
        }
        SipHasher24::new().hash(text.as_bytes())
    }
}

/// Sixty-four random bits, of which fields take parts.
#[derive(Clone, Copy)]
struct Draw(u64);

impl Draw {
    /// A number below `limit` from the bits above `bit`.
    const fn part(self, bit: u32, limit: u64) -> u64 {
        (self.0 >> bit) % limit
    }
}

fn pick<T: Copy>(choices: &[T], index: u64) -> T {
    choices[usize::try_from(index).unwrap_or(0)]
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The columns of a table of orders, for `CREATE TABLE`. 18.16 has no `DateTime64`: there the time is an `Int64` of
/// milliseconds.
#[must_use]
pub const fn columns(version: Version) -> &'static str {
    match version {
        Version::V18 => {
            "id UInt64, customer String, amount Decimal(18, 4), status String, note String, \
             created_at Int64, discount Nullable(Int32), tags Array(String)"
        }
        Version::Current => {
            "id UInt64, customer String, amount Decimal(18, 4), status String, note String, \
             created_at DateTime64(3, 'UTC'), discount Nullable(Int32), tags Array(String)"
        }
    }
}

/// The columns of the orders as Arrow has them.
#[must_use]
pub fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        text("customer"),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        text("status"),
        text("note"),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        Field::new("discount", DataType::Int32, true),
        Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Utf8, false))), false),
    ]))
}

/// What a set of orders adds up to. Equal aggregates mean equal rows: no order changes them, and every column counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregates {
    /// Number of rows.
    pub rows: u64,
    /// Number of different ids.
    pub ids: u64,
    /// Sum of the ids.
    pub id_sum: u64,
    /// Sum of the amounts, in ten-thousandths.
    pub amount_units: i64,
    /// Bytes of all notes together.
    pub note_bytes: u64,
    /// Rows without a discount.
    pub discount_nulls: u64,
    /// Sum of the discounts.
    pub discount_sum: i64,
    /// Number of tags.
    pub tags: u64,
    /// The earliest time, in milliseconds; 0 without rows.
    pub created_min: i64,
    /// The latest time, in milliseconds; 0 without rows.
    pub created_max: i64,
    /// Sum of the times, each counted from [`FIRST_CREATED_AT`], in milliseconds.
    pub created_sum: i64,
    /// The sum, modulo 2^64, of the SipHash-2-4 of all columns of every row.
    pub hash: u64,
}

impl Aggregates {
    /// What the orders with these ids add up to.
    #[must_use]
    pub fn of(ids: Range<u64>) -> Self {
        let mut all = Self {
            rows: 0,
            ids: 0,
            id_sum: 0,
            amount_units: 0,
            note_bytes: 0,
            discount_nulls: 0,
            discount_sum: 0,
            tags: 0,
            created_min: if ids.is_empty() { 0 } else { i64::MAX },
            created_max: 0,
            created_sum: 0,
            hash: 0,
        };
        let mut text = String::new();
        for id in ids {
            let order = Order::new(id);
            all.rows += 1;
            all.ids += 1;
            all.id_sum += id;
            all.amount_units += order.amount_units;
            all.note_bytes += count(order.note.len());
            all.discount_nulls += u64::from(order.discount.is_none());
            all.discount_sum += i64::from(order.discount.unwrap_or(0));
            all.tags += count(order.tags().len());
            all.created_min = all.created_min.min(order.created_at);
            all.created_max = all.created_max.max(order.created_at);
            all.created_sum += order.created_at - FIRST_CREATED_AT;
            all.hash = all.hash.wrapping_add(order.hash(&mut text));
        }
        all
    }

    /// The query that computes the same in a ClickHouse server, as one row. `from` is a table with the columns of
    /// [`columns`], or a subquery in parentheses, such as `(SELECT DISTINCT * FROM t)`.
    #[must_use]
    pub fn query(from: &str, version: Version) -> String {
        let created = match version {
            Version::V18 => "created_at",
            Version::Current => "toUnixTimestamp64Milli(created_at)",
        };
        let units = "toInt64(amount * 10000)";
        format!(
            "SELECT count(), uniqExact(id), sum(id), sum({units}), sum(length(note)), countIf(isNull(discount)), \
             sum(ifNull(discount, 0)), sum(length(tags)), min({created}), max({created}), \
             sum({created} - {FIRST_CREATED_AT}), \
             sum(sipHash64(concat(toString(id), '|', customer, '|', toString({units}), '|', status, '|', note, '|', \
             toString({created}), '|', ifNull(toString(discount), 'null'), '|', arrayStringConcat(tags, ',')))) \
             FROM {from}"
        )
    }

    /// Reads the row that [`Aggregates::query`] gives.
    ///
    /// # Panics
    /// When the row has another form.
    #[must_use]
    pub fn from_row(row: &[String]) -> Self {
        assert_eq!(row.len(), 12, "a row of aggregates: {row:?}");
        let signed =
            |column: usize| row[column].parse().unwrap_or_else(|_| panic!("a number in {column}: {row:?}"));
        let unsigned =
            |column: usize| row[column].parse().unwrap_or_else(|_| panic!("a number in {column}: {row:?}"));
        Self {
            rows: unsigned(0),
            ids: unsigned(1),
            id_sum: unsigned(2),
            amount_units: signed(3),
            note_bytes: unsigned(4),
            discount_nulls: unsigned(5),
            discount_sum: signed(6),
            tags: unsigned(7),
            created_min: signed(8),
            created_max: signed(9),
            created_sum: signed(10),
            hash: unsigned(11),
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn json_says_what_the_order_says() {
        for id in (0..5_000).chain([1 << 40]) {
            let order = Order::new(id);
            let mut json = String::new();
            order.write_json(&mut json);
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(value["id"], id);
            assert_eq!(value["customer"], format!("cust-{:08}", order.customer));
            let amount = value["amount"].as_str().unwrap();
            assert_eq!(amount.replace('.', "").parse::<i64>().unwrap(), order.amount_units, "{amount}");
            assert_eq!(amount.len() - amount.find('.').unwrap(), 5, "four decimals: {amount}");
            assert_eq!(value["status"], order.status);
            assert_eq!(value["note"], order.note);
            let created: Timestamp = value["created_at"].as_str().unwrap().parse().unwrap();
            assert_eq!(created.as_millisecond(), order.created_at);
            assert_eq!(value["discount"].as_i64(), order.discount.map(i64::from));
            assert_eq!(value["tags"], serde_json::json!(order.tags()));
            assert_eq!(value.as_object().unwrap().len(), 8);
        }
    }

    #[test]
    fn an_order_never_changes() {
        let mut json = String::new();
        Order::new(41).write_json(&mut json);
        assert_eq!(
            json,
            r#"{"id":41,"customer":"cust-02804563","amount":"15822.4713","status":"shipped","note":"fragile — 小心轻放","created_at":"2026-01-01T00:00:05.637Z","discount":28,"tags":[]}"#
        );
    }

    #[test]
    fn orders_are_as_large_as_they_should_be_and_all_values_occur() {
        let mut json = String::new();
        let (mut notes, mut statuses, mut tags) = (HashSet::new(), HashSet::new(), HashSet::<&str>::new());
        for id in 0..20_000 {
            let order = Order::new(id);
            order.write_json(&mut json);
            notes.insert(order.note);
            statuses.insert(order.status);
            tags.extend(order.tags());
        }
        assert_eq!((notes.len(), statuses.len(), tags.len()), (NOTES.len(), STATUSES.len(), TAGS.len()));
        let average = json.len() / 20_000;
        assert!((184..=186).contains(&average), "{average} bytes");
    }

    #[test]
    fn aggregates_tell_sets_of_orders_apart() {
        let all = Aggregates::of(0..1000);
        assert_eq!((all.rows, all.ids, all.id_sum), (1000, 1000, 499_500));
        assert_eq!(all.created_min, Order::new(0).created_at);
        assert_ne!(all.hash, Aggregates::of(1..1001).hash);
        assert_eq!(Aggregates::of(5..5).rows, 0);
    }
}
