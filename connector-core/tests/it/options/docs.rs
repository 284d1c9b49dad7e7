//! The option table as documents.

use connector_core::options::{OptionSpec, differences, markdown, tsv};

use super::sets::{WellPipelineOptions, WellSinkOptions, WellSourceOptions};

const ALL: [&[OptionSpec]; 3] =
    [WellSourceOptions::OPTIONS, WellSinkOptions::OPTIONS, WellPipelineOptions::OPTIONS];

#[test]
fn tab_separated_values() {
    let text = tsv(&ALL);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "connector\trole\tkey\taliases\ttype\tdefault\trequired\tallowed\tbehaviour");
    for line in [
        "well\tsource\tjob.reader.bootstrap_servers\tjob.reader.well_servers\tlist<host:port>\t\tyes\t\tinitial brokers",
        "well\tsource\tjob.reader.topics\t\tlist<string>|regex\t\tyes\t\tcomma list; each entry a name or a regular expression",
        "well\tsource\tjob.reader.group_id\t\tstring\tgenerated\tno\t\tshared progress",
        "well\tsource\tjob.reader.start_offset\t\tlong\t-1\tno\t>=-1\tall splits",
        "well\tsource\tjob.reader.start_timestamp\t\tepoch\t-1\tno\t10 digits s or 13 digits ms\tfirst record at or after",
        "well\tsource\tjob.reader.parallelism\t\tint\t\tno\t1..64\tsuggested parallelism",
        "well\tsource\tjob.reader.columns\t\tlist<enum>\t\tno\tkeep,pour,spill,BOIL_FIRST\textra columns",
        "well\tsource\tjob.reader.key_fields\t\tlist<string>\t\tno\t\tfields of the key",
        "well\tsource\tjob.reader.properties\tjob.reader.extra_raw_properties\tmap\t\tno\t\traw client properties",
        "well\tsource\tjob.reader.initial_offsets\t\tmap<db.table,long>\t\tno\t\twhere each table begins",
        "well\tsource\tjob.reader.password\t\tsecret\t\tno\t\tlogin",
        "well\tcommon\tjob.common.global_timezone\t\tiana zone\tsystem zone\tno\t\tdates",
        "well\tcommon\tjob.common.ignore_case\t\tbool\ttrue\tno\t\tnames compare in lower case",
        "well\tsink\tjob.writer.linger_ms\t\tmillis\t5000\tno\t>=1\twait for more",
        "well\tsink\tjob.writer.connect_timeout\t\tseconds\t10\tno\t>=1\twait for a connection",
        "well\tsink\tjob.writer.buffer_count\t\trows\t8192\tno\t>=1\trows of a flush",
        "well\tsink\tsink.mode\t\tenum\tpour\tno\tkeep,pour,spill,BOIL_FIRST\twhat to do",
        "well\tsink\tsink.buffer-flush.interval\t\tduration\t1s\tno\t>=200ms\ttime between two flushes",
        "well\tsink\tsink.buffer-flush.size\t\tmemory size\t64mb\tno\t<=1gb\tmemory between two flushes",
        "well\tsink\tsink.ratio\t\tdouble\t0.75\tno\t0..1\tshare of the memory",
        "well\tsink\ttimestamp-offset\t\tduration\t\tno\tmay be negative\tadded to times",
        "well\tsink\ttable.create.settings\t\tsettings list\t\tno\t\tsettings of the new table",
        "well\tsink\ttable.create.ttl\t\tsql\t\tno\t\twhen rows end",
        "well\tsink\tsink.tmpdir\t\tpath\ttemporary directory\tno\t\tfolder for big flushes",
    ] {
        assert!(lines.contains(&line), "{line}\nis not in\n{text}");
    }
    // A constant comes first, and what two sets share comes once.
    assert!(lines[1].starts_with("well\tsink\ttype\t\tconst\twell\tyes\t\t"), "{}", lines[1]);
    assert_eq!(lines.iter().filter(|line| line.contains("job.common.ignore_case")).count(), 1);
    assert_eq!(lines.len(), 1 + 15 + 7 + 11);
}

#[test]
fn a_table_per_role() {
    let text = markdown(&ALL);
    assert!(text.starts_with(
        "## well sink\n\n| key | aliases | type | default | required | allowed | behaviour |\n| --- |"
    ));
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings, ["## well sink", "## well source", "## well common"]);
    for line in [
        "| `job.reader.bootstrap_servers` | `job.reader.well_servers`, `job.reader.brokers` (deprecated) | \
         `list<host:port>` |  | yes |  | initial brokers |",
        "| `job.reader.topics` |  | `list<string>\\|regex` |  | yes |  | comma list; each entry a name or a regular \
         expression |",
        "| `job.reader.bucket_colour` |  | `string` |  | no |  | nothing; no effect: buckets have no colour |",
        "| `job.common.global_timezone` |  | `iana zone` | system zone | no |  | dates |",
        "| `sink.buffer-flush.size` |  | `memory size` | `64mb` | no | &lt;=1gb | memory between two flushes |",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn a_list_is_compared_both_ways() {
    let sets = [WellSourceOptions::SET, WellSinkOptions::SET];
    let list = tsv(&[WellSourceOptions::OPTIONS, WellSinkOptions::OPTIONS]);
    assert_eq!(differences(&sets, &list), Vec::<String>::new());
    let edited = list
        .replace(
            "well\tsink\tjob.writer.linger_ms\t\tmillis\t5000",
            "well\tsink\tjob.writer.linger_ms\t\tmillis\t4000",
        )
        .replace("job.writer.token", "job.writer.tokens")
        + "well\tsource\tjob.reader.exactly_once\t\tbool\tfalse\tno\t\trefused, so it is known\tx\n"
        + "well\tlookup\tlookup.async\t\tbool\ttrue\tno\t\tanother role\tx\n"
        + "broken\n";
    assert_eq!(
        differences(&sets, &edited),
        [
            "well sink job.writer.linger_ms: default is `5000`, the list says `4000`",
            "well sink job.writer.tokens: is in the list, not in the code",
            "a row has too few columns: broken",
            "well sink job.writer.token: is in the code, not in the list",
        ]
    );
}
