//! Booleans, numbers, text and bytes.

use connector_core::arrow::{
    array::{Array, AsArray},
    datatypes::{
        ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type,
        Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type, i256,
    },
};

use super::{JsonErrorKind::*, *};

#[track_caller]
fn number<T: ArrowPrimitiveType>(data_type: &DataType, text: &str) -> T::Native {
    value(data_type, text).unwrap_or_else(|e| panic!("{text}: {e}")).as_primitive::<T>().value(0)
}

#[test]
fn integers_to_their_limits() {
    macro_rules! check {
        ($($variant:ident: $arrow:ty = $native:ty),+) => {
            $({
                let data_type = DataType::$variant;
                let (min, max) = (i128::from(<$native>::MIN), i128::from(<$native>::MAX));
                for good in [min, min + 1, 0, 1, max - 1, max] {
                    let wide = format!("{good}");
                    let forms = [
                        wide.clone(),
                        format!("\"{wide}\""),
                        format!("{wide}.000"),
                        format!("{wide}.0e0"),
                        format!("\"{wide}.0\""),
                    ];
                    for form in forms {
                        assert_eq!(i128::from(number::<$arrow>(&data_type, &form)), good, "{form}");
                    }
                }
                for bad in [min - 1, max + 1, i128::MAX, i128::MIN] {
                    assert_eq!(refusal(&data_type, &bad.to_string()), OutOfRange, "{bad}");
                    assert_eq!(refusal(&data_type, &format!("\"{bad}\"")), OutOfRange, "{bad}");
                }
                let error = value(&data_type, &format!("{}", max + 1)).unwrap_err();
                assert_eq!(error.expected(), format!("an integer from {min} to {max}"));
                assert_eq!(error.value(), (max + 1).to_string());
                assert_eq!(error.offset(), 5);
            })+
        };
    }
    check!(Int8: Int8Type = i8, Int16: Int16Type = i16, Int32: Int32Type = i32, Int64: Int64Type = i64);
    check!(UInt8: UInt8Type = u8, UInt16: UInt16Type = u16, UInt32: UInt32Type = u32, UInt64: UInt64Type = u64);
}

#[test]
fn integers_in_other_forms() {
    let data_type = DataType::Int64;
    for (text, expected) in [
        ("1e3", 1000),
        ("12.5e1", 125),
        ("-0", 0),
        ("-0.0", 0),
        ("0e5", 0),
        ("1200E-2", 12),
        ("\"+7\"", 7),
        ("\"007\"", 7),
        ("\"-9223372036854775808\"", i64::MIN),
        ("\"1e18\"", 1_000_000_000_000_000_000),
        (r#""\u0031\u0032""#, 12),
        ("0e999999999999999999999", 0),
    ] {
        assert_eq!(number::<Int64Type>(&data_type, text), expected, "{text}");
    }
    for (text, kind) in [
        ("1.5", Inexact),
        ("1e-1", Inexact),
        ("\"0.1\"", Inexact),
        ("1e19", OutOfRange),
        ("1e999999999999", OutOfRange),
        ("\"\"", InvalidText),
        ("\" 1\"", InvalidText),
        ("\"1 \"", InvalidText),
        ("\"one\"", InvalidText),
        ("\"0x1\"", InvalidText),
        ("\"NaN\"", InvalidText),
        ("\"１\"", InvalidText),
        ("true", WrongType),
        ("[1]", WrongType),
        ("{}", WrongType),
        ("null", MissingValue),
    ] {
        assert_eq!(refusal(&data_type, text), kind, "{text}");
    }
}

#[test]
fn negative_numbers_for_unsigned_bits_are_an_option() {
    let on = || JsonOptions { reinterpret_unsigned: true, ..JsonOptions::default() };
    let read = |data_type: &DataType, text: &str| value_with(data_type, on(), text);
    let array = read(&DataType::UInt64, "-1").unwrap();
    assert_eq!(array.as_primitive::<UInt64Type>().value(0), u64::MAX);
    let array = read(&DataType::UInt8, "\"-128\"").unwrap();
    assert_eq!(array.as_primitive::<UInt8Type>().value(0), 128);
    assert_eq!(read(&DataType::UInt8, "-129").unwrap_err().kind(), OutOfRange);
    assert_eq!(read(&DataType::Int8, "-129").unwrap_err().kind(), OutOfRange);
    assert_eq!(refusal(&DataType::UInt64, "-1"), OutOfRange);
}

#[test]
fn floats_are_the_nearest_ones() {
    for (text, expected) in [
        ("0.1", 0.1),
        ("1", 1.0),
        ("-2.5e-3", -0.0025),
        ("\"1.25\"", 1.25),
        ("9007199254740993", 9_007_199_254_740_992.0),
        ("1.7976931348623157e308", f64::MAX),
        ("5e-324", 5e-324),
        ("1e-999", 0.0),
        ("123456789012345678901234567890", 123_456_789_012_345_680_000_000_000_000.0),
        ("2.2250738585072011e-308", 2.225_073_858_507_201e-308),
    ] {
        let got = number::<Float64Type>(&DataType::Float64, text);
        assert_eq!(got.to_bits(), f64::to_bits(expected), "{text}");
    }
    assert!(number::<Float64Type>(&DataType::Float64, "-0").is_sign_negative());
    // Rounding by way of f64 would give the other neighbour.
    let text = "1.00000017881393432617187499";
    assert_eq!(number::<Float32Type>(&DataType::Float32, text), 1.000_000_1_f32);
    for (text, kind) in [
        ("1e999", OutOfRange),
        ("-1e999", OutOfRange),
        ("\"1e999\"", OutOfRange),
        ("\"NaN\"", InvalidText),
        ("\"Infinity\"", InvalidText),
        ("\"inf\"", InvalidText),
        ("\"\"", InvalidText),
        ("NaN", Syntax),
        ("Infinity", Syntax),
        ("-Infinity", Syntax),
        ("true", WrongType),
    ] {
        assert_eq!(refusal(&DataType::Float64, text), kind, "{text}");
    }
    assert_eq!(refusal(&DataType::Float32, "3.5e38"), OutOfRange);
}

#[test]
fn text_nan_is_an_option() {
    let on = || JsonOptions { text_nan: true, ..JsonOptions::default() };
    let read = |text: &str| {
        value_with(&DataType::Float64, on(), text).map(|a| a.as_primitive::<Float64Type>().value(0))
    };
    assert!(read("\"NaN\"").unwrap().is_nan());
    assert_eq!(read("\"Infinity\"").unwrap(), f64::INFINITY);
    assert_eq!(read("\"+Infinity\"").unwrap(), f64::INFINITY);
    assert_eq!(read("\"-Infinity\"").unwrap(), f64::NEG_INFINITY);
    assert_eq!(read("\"nan\"").unwrap_err().kind(), InvalidText);
    assert_eq!(read("NaN").unwrap_err().kind(), Syntax);
}

#[test]
fn decimals_are_exact() {
    let data_type = DataType::Decimal128(18, 4);
    for (text, expected) in [
        ("\"12345.6789\"", 123_456_789),
        ("12345.6789", 123_456_789),
        ("0.1", 1000),
        ("-0.0001", -1),
        ("1", 10_000),
        ("1.50000000000000000000000000", 15_000),
        ("\"1.5000000000000000000000000000000000000000000000000000000\"", 15_000),
        ("99999999999999.9999", 999_999_999_999_999_999),
        ("-99999999999999.9999", -999_999_999_999_999_999),
        ("1e3", 10_000_000),
        ("1.23456e1", 123_456),
        ("12345600e-4", 12_345_600),
        ("\"1E+3\"", 10_000_000),
        ("\".5\"", 5000),
        ("\"5.\"", 50_000),
        ("\"+5\"", 50_000),
        ("\"0001.5\"", 15_000),
        ("-0", 0),
        ("0e999999999999", 0),
        (r#""1\u002e5""#, 15_000),
    ] {
        assert_eq!(number::<Decimal128Type>(&data_type, text), expected, "{text}");
    }
    for (text, kind) in [
        ("0.00001", Inexact),
        ("\"1.23456\"", Inexact),
        ("1e-5", Inexact),
        ("100000000000000", OutOfRange),
        ("\"100000000000000.0\"", OutOfRange),
        ("1e14", OutOfRange),
        ("1e999999999999", OutOfRange),
        ("\"\"", InvalidText),
        ("\"1,5\"", InvalidText),
        ("\"1.5 \"", InvalidText),
        ("\"Dzw=\"", InvalidText),
        ("true", WrongType),
        ("1.5.2", Syntax),
    ] {
        if kind == Syntax {
            assert_eq!(value(&data_type, text).unwrap_err().kind(), kind, "{text}");
        } else {
            assert_eq!(refusal(&data_type, text), kind, "{text}");
        }
    }
    let error = value(&data_type, "\"0.00001\"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "field `v` at byte 5: expected a decimal of at most 18 digits, 4 of them after the point, found `\"0.00001\"`"
    );
}

#[test]
fn decimals_of_all_widths() {
    assert_eq!(number::<Decimal32Type>(&DataType::Decimal32(9, 2), "-9999999.99"), -999_999_999);
    assert_eq!(refusal(&DataType::Decimal32(9, 2), "10000000"), OutOfRange);
    assert_eq!(
        number::<Decimal64Type>(&DataType::Decimal64(18, 0), "999999999999999999"),
        999_999_999_999_999_999
    );
    assert_eq!(refusal(&DataType::Decimal64(18, 0), "1000000000000000000"), OutOfRange);
    let long = "9".repeat(38);
    assert_eq!(number::<Decimal128Type>(&DataType::Decimal128(38, 0), &long), long.parse::<i128>().unwrap());
    assert_eq!(refusal(&DataType::Decimal128(38, 0), &format!("{long}0")), OutOfRange);
    assert_eq!(
        number::<Decimal128Type>(&DataType::Decimal128(38, 38), &format!("0.{long}")),
        long.parse::<i128>().unwrap()
    );
    let longest = "7".repeat(76);
    let expected = i256::from_string(&longest).unwrap();
    assert_eq!(number::<Decimal256Type>(&DataType::Decimal256(76, 0), &longest), expected);
    assert_eq!(
        number::<Decimal256Type>(&DataType::Decimal256(76, 76), &format!("\"-0.{longest}\"")),
        expected.wrapping_neg()
    );
    assert_eq!(refusal(&DataType::Decimal256(76, 0), &format!("{longest}0")), OutOfRange);
    // A scale below zero counts hundreds.
    let hundreds = DataType::Decimal128(5, -2);
    assert_eq!(number::<Decimal128Type>(&hundreds, "1200"), 12);
    assert_eq!(number::<Decimal128Type>(&hundreds, "9999900"), 99_999);
    assert_eq!(refusal(&hundreds, "1250"), Inexact);
    assert_eq!(refusal(&hundreds, "10000000"), OutOfRange);
    let array = value(&DataType::Decimal64(10, 3), "1.5").unwrap();
    assert_eq!(array.data_type(), &DataType::Decimal64(10, 3));
}

#[test]
fn booleans_are_true_and_false() {
    let schema = schema([("v", DataType::Boolean, true)]);
    let records = [r#"{"v":true}"#, r#"{"v":false}"#, r#"{"v":null}"#, "{}"];
    let column = Arc::clone(batch(&schema, JsonOptions::default(), &records).column(0));
    assert_eq!(column.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None, None]);
    for text in ["1", "0", "\"true\"", "[]"] {
        assert_eq!(refusal(&DataType::Boolean, text), WrongType);
    }
    assert_eq!(refusal(&DataType::Boolean, "True"), Syntax);
}

#[test]
fn text_is_what_the_escapes_say() {
    let cases = [
        (r#""""#, ""),
        (r#""plain""#, "plain"),
        (r#""客户说\"尽快\"发货 🚪""#, "客户说\"尽快\"发货 🚪"),
        (r#""\u5ba2\u6237 \ud83c\udf81 \u00e9 \u0000""#, "客户 🎁 é \0"),
        (r#""\b\f\n\r\t\/\\\"""#, "\u{8}\u{c}\n\r\t/\\\""),
        (r#""ends in a backslash\\""#, "ends in a backslash\\"),
        (r#""DEL \u007f and  nbsp""#, "DEL \u{7f} and\u{a0} nbsp"),
        (r#""12345678""#, "12345678"),
        (r#""1234567\"""#, "1234567\""),
        (r#""\uD834\uDD1E""#, "𝄞"),
        (r#""￿\uffff""#, "\u{ffff}\u{ffff}"),
    ];
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        for (text, expected) in cases {
            let array = value(&data_type, &text.replace("  nbsp", "\u{a0} nbsp")).unwrap();
            assert_eq!(array.data_type(), &data_type);
            let got = match &data_type {
                DataType::Utf8 => array.as_string::<i32>().value(0),
                DataType::LargeUtf8 => array.as_string::<i64>().value(0),
                _ => array.as_string_view().value(0),
            };
            assert_eq!(got, expected, "{text}");
        }
        for text in ["1", "1.5", "true", "{}", "[]"] {
            assert_eq!(refusal(&data_type, text), WrongType, "{text}");
        }
    }
}

#[test]
fn other_values_as_text_are_an_option() {
    let on = || JsonOptions { coerce_to_text: true, ..JsonOptions::default() };
    let read = |text: &str| {
        value_with(&DataType::Utf8, on(), text).map(|a| a.as_string::<i32>().value(0).to_owned())
    };
    for text in
        ["1.50", "-1e999", "true", "false", r#"{ "a" : [1, "x\u0041" ] }"#, "[ ]", "18446744073709551616"]
    {
        assert_eq!(read(text).unwrap(), text);
    }
    assert_eq!(read(r#""\u0041""#).unwrap(), "A");
    assert_eq!(read("null").unwrap_err().kind(), MissingValue);
    assert_eq!(read("[1,]").unwrap_err().kind(), Syntax);
}

#[test]
fn bytes_are_base64() {
    for (text, expected) in [
        ("\"\"", &b""[..]),
        ("\"AA==\"", b"\0"),
        ("\"AA\"", b"\0"),
        ("\"/w==\"", b"\xff"),
        ("\"aGVsbG8=\"", b"hello"),
        (r#""aGVsbG8\u003d""#, b"hello"),
        (r#""\/\/\/\/""#, b"\xff\xff\xff"),
    ] {
        assert_eq!(value(&DataType::Binary, text).unwrap().as_binary::<i32>().value(0), expected, "{text}");
        assert_eq!(
            value(&DataType::LargeBinary, text).unwrap().as_binary::<i64>().value(0),
            expected,
            "{text}"
        );
        assert_eq!(value(&DataType::BinaryView, text).unwrap().as_binary_view().value(0), expected, "{text}");
    }
    for text in ["\"A\"", "\"AB==\"", "\"_w==\"", "\"A A=\"", "\"AA===\"", "\"é\""] {
        assert_eq!(refusal(&DataType::Binary, text), InvalidText, "{text}");
    }
    assert_eq!(refusal(&DataType::Binary, "[1]"), WrongType);

    let fixed = DataType::FixedSizeBinary(3);
    assert_eq!(value(&fixed, "\"AQID\"").unwrap().as_fixed_size_binary().value(0), [1, 2, 3]);
    assert_eq!(refusal(&fixed, "\"AQI=\""), OutOfRange);
    assert_eq!(refusal(&fixed, "\"AQIDBA==\""), OutOfRange);
    assert_eq!(refusal(&fixed, "\"?\""), InvalidText);
    let error = value(&fixed, "\"\"").unwrap_err();
    assert_eq!(error.expected(), "3 bytes in standard base64");
}

#[test]
fn null_columns_take_null_alone() {
    let schema = schema([("v", DataType::Null, true)]);
    assert_eq!(batch(&schema, JsonOptions::default(), &["{}", r#"{"v":null}"#]).column(0).len(), 2);
    let error = decoder(&schema, JsonOptions::default()).decode(br#"{"v":0}"#).unwrap_err();
    assert_eq!((error.kind(), error.path()), (WrongType, "v"));
}
