//! `kubectl proxy`: the API over plain HTTP for whoever is on this machine.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use windlass_e2e::Server;

use crate::objects::{config, contains, create};

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the proxy listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_proxy_hands_requests_on_with_the_administrators_name() {
    let server = Server::start();
    create(&server, &config("settings"));
    let mut proxy = server.kubectl("proxy --port=0").spawn();
    let line = proxy.line_with("Starting to serve on");
    let address = line.rsplit(' ').next().expect("an address");
    contains(&get(address, "/version"), &["200 OK", "\"gitVersion\""]);
    contains(
        &get(address, "/api/v1/namespaces/default/configmaps/settings"),
        &["200 OK", "\"key\":\"value\""],
    );
    contains(
        &get(address, "/api/v1/namespaces/default/configmaps/nobody"),
        &["404 Not Found", "\"reason\":\"NotFound\""],
    );
    contains(&get(address, "/apis"), &["200 OK", "APIGroupList"]);
}

#[test]
fn a_watch_goes_through_the_proxy_as_it_happens() {
    let server = Server::start();
    let mut proxy = server.kubectl("proxy --port=0").spawn();
    let line = proxy.line_with("Starting to serve on");
    let address = line.rsplit(' ').next().expect("an address");
    let mut stream = TcpStream::connect(address).expect("the proxy listens");
    let path = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=60";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a request");
    create(&server, &config("settings"));
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("the watch goes on"));
    let seen = lines.find(|line| line.contains("settings")).expect("the change comes before the watch ends");
    contains(&seen, &["\"type\":\"ADDED\"", "\"name\":\"settings\""]);
}
