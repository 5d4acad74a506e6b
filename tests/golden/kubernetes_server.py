#!/usr/bin/env python3
"""As much of a Kubernetes API server as `kubectl apply` needs: discovery of Jobs, Services and a few others, objects
that do not exist yet, and objects that are created. usage: kubernetes_server.py FILE [operator]; each object is
appended to FILE as a line of JSON. With "operator" there are PyTorchJobs, too. Prints its port and serves until it is
killed. Shapes as in the API conventions of Kubernetes (v1.20
to v1.34).
"""

import http.server
import json
import sys

RESOURCES = {
    "/api/v1": [("services", "Service"), ("configmaps", "ConfigMap"), ("persistentvolumeclaims", "PersistentVolumeClaim")]
    + [("persistentvolumes", "PersistentVolume")],
    "/apis/batch/v1": [("jobs", "Job")],
    "/apis/storage.k8s.io/v1": [("storageclasses", "StorageClass")],
}
if "operator" in sys.argv[2:]:
    RESOURCES["/apis/kubeflow.org/v1"] = [("pytorchjobs", "PyTorchJob")]
# These belong to the cluster, the others to a namespace.
OF_CLUSTER = {"persistentvolumes", "storageclasses"}


def discovery(path):
    """The answer to a discovery request; None for any other request."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for name in [path.split("/")[2] for path in RESOURCES if path.startswith("/apis/")]:
            version = {"groupVersion": name + "/v1", "version": "v1"}
            groups.append({"name": name, "versions": [version], "preferredVersion": version})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.1"}
    if path in RESOURCES:
        verbs = ["create", "get", "list", "patch", "watch"]
        rows = [{"name": n, "singularName": "", "namespaced": n not in OF_CLUSTER, "kind": k, "verbs": verbs} for n, k in RESOURCES[path]]
        return {"kind": "APIResourceList", "groupVersion": path.split("/", 2)[2], "resources": rows}
    return None


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        # Schemas are requested as protocol buffers; zero bytes are an empty message: nothing to validate objects
        # against.
        if self.path.startswith("/openapi/v2"):
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        found = discovery(self.path.split("?")[0])
        if found is not None:
            self.answer(200, found)
        else:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            self.answer(404, dict(status, message="not found", details={"name": self.path.split("/")[-1]}))

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(given) + "\n")
        self.answer(201, given)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    print(server.server_address[1], flush=True)
    server.serve_forever()
