#!/bin/sh
# job.sh FOLDER SECONDS CODE: notes under a lock who runs when; CODE "first": only its first attempt fails.
folder=$1
id=$BETIMES_JOB_ID
exec 9>"$folder/lock"
note() {
    flock 9
    echo "$1 $id $BETIMES_ATTEMPT $$" >>"$folder/journal"
    flock -u 9
}
flock 9
if [ -f "$folder/pids/$id" ] && kill -0 "$(cat "$folder/pids/$id")" 2>/dev/null; then
    echo "twice $id $BETIMES_ATTEMPT $$" >>"$folder/journal"
fi
echo $$ >"$folder/pids/$id"
echo "start $id $BETIMES_ATTEMPT $$" >>"$folder/journal"
flock -u 9
trap 'note stopped; exit 143' TERM
sleep "$2" 9>&- &
wait $!
note end
[ "$3" = first ] && [ "$BETIMES_ATTEMPT" -gt 1 ] && exit 0
[ "$3" = first ] && exit 1
exit "$3"
