# Runs once at build, as the user redis: fills the database and saves it.
redis-server --bind 127.0.0.1 --port 6379 --dir /var/lib/stock --dbfilename stock.rdb --save '' --daemonize yes
until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
redis-cli <<'COMMANDS'
HSET item:BOLT-8 name "Bolt M8" quantity 60 reorder 100
HSET item:bolt-8 name "bolt m8 (old)" quantity 15 reorder 1
HSET item:NUT-8 name "Nut M8" quantity 20 reorder 100
HSET item:WASHER-6 name "Washer 6" quantity 9 reorder 50
HSET item:gasket-2 name "Gasket 2" quantity 1 reorder 8
HSET item:Hinge-1 name "Hinge" quantity 2 reorder 4
HSET item:LATCH-4 name "Latch" quantity 30 reorder 30
SADD codes BOLT-8 bolt-8 NUT-8 LATCH-4 SPRING-9
ZADD low 20 NUT-8 30 LATCH-4 1 gasket-2
RPUSH audit "2024-01-02 opened" "2024-01-09 counted: LATCH-4 30" "2024-01-11 moved: item:bolt-8"
SET tmp:lock 1
HSET tmp:import:7 code BOLT-8 quantity 5
RPUSH rejected "old:ENTRY"
COMMANDS
redis-cli shutdown save
