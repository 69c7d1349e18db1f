//! Timestamps and durations.

use crate::support::table;

#[test]
fn times_are_read_written_and_computed() {
    table(&[
        ("timestamp('2024-02-29T12:30:45Z')", "2024-02-29T12:30:45Z"),
        ("timestamp('2024-02-29T12:30:45.123456789Z')", "2024-02-29T12:30:45.123456789Z"),
        ("timestamp('2024-02-29T14:30:45+02:00')", "2024-02-29T12:30:45Z"),
        ("timestamp(0)", "1970-01-01T00:00:00Z"),
        ("timestamp(1700000000)", "2023-11-14T22:13:20Z"),
        ("timestamp(timestamp(5))", "1970-01-01T00:00:05Z"),
        ("int(timestamp('2023-11-14T22:13:20Z'))", "1700000000"),
        ("int(timestamp('1969-12-31T23:59:59.5Z'))", "-1"),
        ("string(timestamp(0))", "\"1970-01-01T00:00:00Z\""),
        ("timestamp(d.text)", "!type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("timestamp(9223372036854775807 - d.int)", "!timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00Z')", "0001-01-01T00:00:00Z"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1s')", "!timestamp overflow"),
        ("timestamp(0) + duration('1h')", "1970-01-01T01:00:00Z"),
        ("duration('1h') + timestamp(0)", "1970-01-01T01:00:00Z"),
        ("timestamp(3600) - duration('1h')", "1970-01-01T00:00:00Z"),
        ("timestamp(3600) - timestamp(0)", "3600s"),
        ("timestamp('0001-01-01T00:00:00Z') - timestamp('9000-01-01T00:00:00Z')", "!integer overflow"),
        ("timestamp(1) > timestamp(0)", "true"),
        ("timestamp(1) == timestamp('1970-01-01T00:00:01Z')", "true"),
        ("s.since < timestamp('2025-01-01T00:00:00Z')", "true"),
        ("s.day == timestamp('2024-03-01T00:00:00Z')", "true"),
    ]);
}

#[test]
fn the_parts_of_a_time_depend_on_the_zone() {
    let time = "timestamp('2024-02-29T23:30:45.678Z')";
    let rows = [
        ("getFullYear()", "2024"),
        ("getMonth()", "1"),
        ("getDate()", "29"),
        ("getDayOfMonth()", "28"),
        ("getDayOfWeek()", "4"),
        ("getDayOfYear()", "59"),
        ("getHours()", "23"),
        ("getMinutes()", "30"),
        ("getSeconds()", "45"),
        ("getMilliseconds()", "678"),
        ("getHours('UTC')", "23"),
        ("getHours('+02:00')", "1"),
        ("getDate('+02:00')", "1"),
        ("getMonth('+02:00')", "2"),
        ("getHours('-08:00')", "15"),
        ("getMinutes('05:45')", "15"),
        ("getHours('America/New_York')", "18"),
        ("getHours('Europe/Berlin')", "0"),
        ("getDayOfWeek('Asia/Tokyo')", "5"),
        ("getDayOfYear('Asia/Tokyo')", "60"),
        ("getDayOfMonth('Asia/Tokyo')", "0"),
        ("getFullYear('Asia/Tokyo')", "2024"),
        ("getSeconds('Asia/Tokyo')", "45"),
        ("getMilliseconds('Asia/Tokyo')", "678"),
        ("getHours('Mars/Olympus')", "!unknown time zone Mars/Olympus"),
        ("getHours('1:00')", "0"),
        ("getHours('001:00')", "!unknown time zone 001:00"),
    ];
    let sources: Vec<String> = rows.iter().map(|(call, _)| format!("{time}.{call}")).collect();
    let rows: Vec<(&str, &str)> =
        sources.iter().map(|source| &**source).zip(rows.map(|(_, value)| value)).collect();
    table(&rows);
}

#[test]
fn durations_are_read_written_and_computed() {
    table(&[
        ("duration('1h30m')", "5400s"),
        ("duration('1.5s')", "1.5s"),
        ("duration('-2m')", "-120s"),
        ("duration('100ms')", "0.1s"),
        ("duration('1us')", "0.000001s"),
        ("duration('1ns')", "0.000000001s"),
        ("duration('0')", "0s"),
        ("duration('1h') + duration('30m')", "5400s"),
        ("duration('1h') - duration('90m')", "-1800s"),
        ("duration('1h') > duration('59m')", "true"),
        ("duration('60m') == duration('1h')", "true"),
        ("duration(duration('1s'))", "1s"),
        ("string(duration('90s'))", "\"90s\""),
        ("duration('90m').getHours()", "1"),
        ("duration('90m').getMinutes()", "90"),
        ("duration('90m').getSeconds()", "5400"),
        ("duration('1.5s').getMilliseconds()", "1500"),
        ("duration(d.text)", "!type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration(string(d.int) + 'h') == duration('3h')", "true"),
        ("duration('2562047h') + duration('2562047h')", "!integer overflow"),
        ("s.ttl == duration('90m')", "true"),
        ("[duration('1s'), duration('2s')].sum()", "3s"),
    ]);
}
