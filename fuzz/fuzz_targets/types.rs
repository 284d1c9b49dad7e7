#![no_main]

use connector_bytehouse_common::native::{ChType, ColumnDef, arrow_field, ch_type_for};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(ty) = text.parse::<ChType>() else { return };
    let shown = ty.to_string();
    let again: ChType = shown.parse().expect("what is printed can be read");
    assert_eq!(again, ty, "{text:?} is printed as {shown:?}");
    if let Ok(column) = ColumnDef::parse("c", text)
        && let Ok(field) = arrow_field(&column)
    {
        // Some Arrow types have no column type of their own; none may panic.
        ch_type_for(&field).ok();
    }
});
