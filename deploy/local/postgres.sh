# Makes the data folder once, then becomes the server.
set -eu
data=/var/lib/postgresql/18/docker
if [ ! -s "$data/PG_VERSION" ]; then
    rm -rf "$data" "$data.new"
    mkdir -p "$data.new"
    initdb --pgdata "$data.new" --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" \
        --auth scram-sha-256 --encoding UTF8 --locale C --locale-provider builtin --builtin-locale C.UTF-8
    echo "host all all all scram-sha-256" >> "$data.new/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$data.new" postgres
    mv "$data.new" "$data"
fi
shift
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
