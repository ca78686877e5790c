#!/usr/bin/env bash
# Says by its exit code whether a container is healthy: 0 yes, 1 no, 2 wrong role.
# usage: healthcheck ROLE   (api-server | scheduler | dag-processor | triggerer | tools)
set -euo pipefail

answers() {
    python - "$1" <<'PYTHON'
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=8)
PYTHON
}

# A job's heartbeat in the database; the record of another host does not count.
job_runs() {
    airflow jobs check --job-type "$1" --local
}

case "${1-}" in
    api-server) answers http://127.0.0.1:8080/api/v2/version ;;
    scheduler) answers http://127.0.0.1:8974/health ;;
    dag-processor) job_runs DagProcessorJob ;;
    triggerer) job_runs TriggererJob ;;
    tools)
        java -version 2> /dev/null
        for jar in ${DELTA_JARS//[,:]/ }; do test -r "$jar"; done
        for folder in warehouse outbox; do test -w "/var/lib/partition-health/$folder"; done
        ;;
    *)
        echo "healthcheck: role '${1-}' is none of api-server scheduler dag-processor triggerer tools" >&2
        exit 2
        ;;
esac
