use connector_core::RetryState;

use super::*;

/// The verdicts, written down a second time: code by code as the notes have them.
#[rustfmt::skip]
const VERDICTS: &[(Retry, &[i32])] = &[
    (SameConnection, &[
        159, 160, 202, 203, 225, 242, 244, 999, 252, 285, 286, 289, 319, 335, 341, 364, 369, 373, 384, 425, 439, 473, 499,
        517, 519, 574,
        2005, 2006, 2007, 2008, 2009, 4002, 4003, 5022, 5023, 5027, 5047, 5048, 6015, 7001, 7002, 7105, 7106, 7107, 7108,
        8051, 8053, 8055, 8070, 8071, 8072, 11001, 11002, 11003, 11004, 11005, 11007, 11008, 11012, 216,
    ]),
    (NewConnection, &[3, 32, 33, 95, 96, 198, 209, 210, 236, 279, 410]),
    (AnotherReplica, &[254, 529]),
    (HalveBatch, &[241, 173]),
    (Final, &[
        6, 27, 36, 38, 41, 43, 44, 47, 48, 49, 50, 53, 60, 62, 69, 70, 81, 115, 117, 122, 131, 192, 193, 194, 516, 201, 217,
        218, 248, 321, 344, 349, 359, 390, 394, 407, 452, 469, 497, 524, 549, 565, 5025, 7200, 7201, 57, 82, 15, 16, 10, 164,
        389, 5035,
    ]),
];

#[test]
fn every_row_of_the_table_has_its_verdict_and_every_verdict_its_row() {
    assert!(RULES.is_sorted_by(|a, b| a.code < b.code));
    let mut rows = 0;
    for (retry, codes) in VERDICTS {
        for &code in *codes {
            let rule = classify(code, "");
            assert_eq!(rule.retry, *retry, "{code} {}", rule.name);
            assert_eq!(rule.code, code);
            assert_ne!(rule.name, "UNKNOWN", "{code}");
            let error = server_error(code, "DB::Exception", "text", "bytehouse.query");
            assert_eq!(error.is_transient(), *retry != Final, "{code}");
            assert_eq!(error.kind(), rule.kind);
            assert_eq!(server_code(&error), Some(code));
            assert_eq!(retry_rule(&error), *retry, "{code}");
            rows += 1;
        }
    }
    assert_eq!(rows, RULES.len());
}

#[test]
fn kinds_that_programs_look_at() {
    for (kind, codes) in [
        (Unauthenticated, &[192, 193, 194, 516][..]),
        (PermissionDenied, &[164, 497, 359]),
        (NotFound, &[60, 81, 218, 390, 5025, 10, 16]),
        (AlreadyExists, &[57, 82, 15, 389, 5035]),
        (RateLimited, &[201, 202, 252, 364, 574, 6015, 8072]),
        (Timeout, &[159, 160, 335, 2005, 4003, 11005]),
        (SchemaMismatch, &[43, 44, 47, 53, 122, 549]),
        (DataInvalid, &[6, 27, 38, 41, 69, 70, 117, 131, 248, 321, 349, 407, 469, 565, 7200]),
        (OptionInvalid, &[36, 115, 217, 452]),
        (Unsupported, &[48, 50, 344, 524]),
    ] {
        for &code in codes {
            assert_eq!(classify(code, "").kind, kind, "{code}");
        }
    }
    let flagged =
        |flag: fn(&CodeRule) -> bool| RULES.iter().filter(|r| flag(r)).map(|r| r.code).collect::<Vec<_>>();
    assert_eq!(flagged(|rule| rule.success_on_insert), [389, 5035]);
    assert_eq!(flagged(|rule| rule.ddl_race), [10, 15, 16, 44, 57, 82]);
}

#[test]
fn three_codes_have_two_meanings() {
    let merges = "Too many parts (300). Merges are processing significantly slower than inserts.";
    let partitions = "Too many partitions for single INSERT block (more than 100). The limit is controlled by \
                      'max_partitions_per_insert_block' setting.";
    assert_eq!((classify(252, merges).retry, classify(252, merges).kind), (SameConnection, RateLimited));
    assert_eq!((classify(252, partitions).retry, classify(252, partitions).kind), (Final, DataInvalid));
    assert_eq!(retry_rule(&server_error(252, "DB::Exception", partitions, "bytehouse.insert")), Final);
    assert_eq!(classify(164, "Cannot execute query in readonly mode").retry, Final);
    let replica = classify(164, "The node is a read-only Replica");
    assert_eq!((replica.retry, replica.kind), (SameConnection, Unavailable));
    let cut = "Sizes of nested column and null map of Nullable column are not equal after deserialization \
               (null map size = 1000, nested column size = 750)";
    assert_eq!((classify(117, cut).retry, classify(117, cut).kind), (NewConnection, Unavailable));
    assert_eq!((classify(117, "").retry, classify(117, "").kind), (Final, DataInvalid));
    let unknown = classify(987_654, "");
    assert_eq!((unknown.retry, unknown.kind, unknown.name), (Final, Unexpected, "UNKNOWN"));
}

#[test]
fn the_message_is_one_bounded_line_without_class_and_stack() {
    let error = server_error(
        60,
        "DB::Exception",
        "DB::Exception: Table default.x doesn't exist.. Stack trace:\n\n0. main\n",
        "bytehouse.query",
    );
    assert_eq!(
        error.to_string(),
        "NotFound at bytehouse.query: the server refused: Table default.x doesn't exist.. [code=60, code_name=UNKNOWN_TABLE]"
    );
    assert_eq!(error.retry_state(), RetryState::Permanent);
    let long =
        server_error(62, "DB::Exception", &format!("Syntax error: {}\nsecond line", "é".repeat(5000)), "x");
    assert!(long.message().chars().count() < 1100, "{}", long.message().len());
    assert!(long.message().ends_with('…') && !long.message().contains("second"), "{long}");
    let foreign = server_error(1000, "Poco::Net::NetException", "", "x");
    assert!(foreign.to_string().contains("exception=Poco::Net::NetException"), "{foreign}");
    assert!(server_error(193, "DB::Exception", "Wrong password", "x").message().contains("account::user"));
}

#[test]
fn unknown_outcomes_are_told() {
    let lost = Error::new(Unavailable, "the connection ended").transient();
    assert!(!outcome_unknown(&lost));
    assert_eq!(retry_rule(&lost), NewConnection);
    assert_eq!(retry_rule(&Error::new(OptionInvalid, "no")), Final);
    assert_eq!(server_code(&lost), None);
    assert!(outcome_unknown(&with_outcome_unknown(lost)));
    assert!(outcome_unknown(&server_error(319, "DB::Exception", "", "x")));
}
