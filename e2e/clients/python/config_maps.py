"""Works on ConfigMaps with the Python client and prints what it sees.

Two runs, by the first argument:

    pages  KUBECONFIG NAMESPACE        creates 25 objects, patches each, lists them in pages, deletes them
    watch  KUBECONFIG NAMESPACE UNTIL    lists, then watches until it is told of the object UNTIL

A watch prints one line for each thing that happens, in the order in which it happens:

    REQUEST list|watch CODE         what was asked of the server, and how it was answered
    SYNCED                          the first list is complete
    ADDED|MODIFIED|DELETED NAME RV  an object, as the list or the watch told of it
    STORE NAME RV                   an object that is there at the end, by what was told
"""

import sys
import time

import urllib3
from kubernetes import client, config, watch

PATIENCE = 180
PAGE = 7


def say(*words):
    print(*words, flush=True)


def connect(kubeconfig):
    config.load_kube_config(kubeconfig)
    # A test that restarts the server wants to see errors when they come, not after retries of the transport.
    settings = client.Configuration.get_default_copy()
    settings.retries = False
    return client.CoreV1Api(client.ApiClient(settings))


def pages(api, namespace):
    names = [f"page-{idx:02}" for idx in range(25)]
    for name in names:
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"of": "pages"}), data={"n": "1"})
        api.create_namespaced_config_map(namespace, body)
    for name in names:
        patched = api.patch_namespaced_config_map(name, namespace, {"data": {"n": "2"}})
        assert patched.data == {"n": "2"}, patched
    seen, revisions, token = [], set(), None
    while True:
        page = api.list_namespaced_config_map(
            namespace, label_selector="of=pages", limit=PAGE, **({"_continue": token} if token else {})
        )
        seen += [item.metadata.name for item in page.items]
        assert all(item.data == {"n": "2"} for item in page.items), page.items
        revisions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
        assert len(page.items) == PAGE, len(page.items)
    assert seen == names, seen
    assert len(revisions) == 1, revisions
    api.delete_collection_namespaced_config_map(namespace, label_selector="of=pages")
    rest = api.list_namespaced_config_map(namespace, label_selector="of=pages")
    assert rest.items == [], rest.items
    say("PAGES", len(seen), len(revisions))


def follow(api, namespace, until):
    listed = api.list_namespaced_config_map(namespace)
    say("REQUEST", "list", 200)
    there = {}
    for item in listed.items:
        there[item.metadata.name] = item.metadata.resource_version
        say("ADDED", item.metadata.name, item.metadata.resource_version)
    say("SYNCED")
    revision = listed.metadata.resource_version
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        watcher = watch.Watch()
        try:
            stream = watcher.stream(
                api.list_namespaced_config_map, namespace, resource_version=revision, timeout_seconds=PATIENCE
            )
            for event in stream:
                if event["type"] == "BOOKMARK":
                    continue
                name, revision = event["object"].metadata.name, event["object"].metadata.resource_version
                say(event["type"], name, revision)
                if event["type"] == "DELETED":
                    there.pop(name)
                else:
                    there[name] = revision
                if name == until:
                    for name in sorted(there):
                        say("STORE", name, there[name])
                    return
        except client.ApiException as error:
            say("REQUEST", "watch", error.status)
            raise
        except urllib3.exceptions.HTTPError:
            # The server is away: go on from where the watch broke off.
            time.sleep(0.02)
    sys.exit(f"not told of {until} after {PATIENCE} seconds")


def main():
    what, kubeconfig, *rest = sys.argv[1:]
    api = connect(kubeconfig)
    {"pages": pages, "watch": follow}[what](api, *rest)


if __name__ == "__main__":
    main()
